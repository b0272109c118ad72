"""The memory of `state` over a real file in the test's own thread: a journal whose passes the test lets run."""

import json
from pathlib import Path
from typing import Any

import apsw

from termal.bus.loop import PollLoop
from termal.bus.server import Request
from termal.log import Log
from termal.model.message import Text
from termal.model.session import Session
from termal.model.stored import StoredSession
from termal.rules.settings import at_creation
from termal.store.reader import Reader
from termal.store.writer import Writer
from termal.wire.events import Published
from tests.support.waiting import wait_until
from workers.state.change import Book
from workers.state.journal import Journal
from workers.state.load import load
from workers.state.projections import Projections
from workers.state.session_record import SessionRecord
from workers.state.store_schema import open_store


class Asked(Request):
    """A request whose answer the test looks at: its decoded JSON, or the error."""

    def __init__(self) -> None:
        self.deadline_s = None
        self.answers: list[Any] = []

    def reply(self, value: Any) -> None:
        self.answers.append(json.loads(value.json))

    def refuse(self, error: Exception) -> None:
        self.answers.append(error)


class Memory:
    """One open store. `commit` lets passes run until everything that is marked is stored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        log = Log("state", None)
        found = open_store(path, durability="normal")
        self.registry = load(path, log, fresh=found is None)
        self.published: list[Published] = []
        self.failures: list[Exception] = []
        self.loop = PollLoop()
        self.writer = Writer(path, durability="normal", notify=self._notify, log=log)
        self.reader = Reader(path, notify=self._notify, log=log)
        self.journal = Journal(
            self.loop,
            self.writer,
            self.registry,
            publish=self.published.append,
            failed=self.failures.append,
            log=log,
        )
        self.book = Book(self.registry, self.journal, Projections(self.registry, list))

    def _notify(self) -> None:
        self.loop.threadsafe(self._finish)

    def _finish(self) -> None:
        self.writer.finish()
        self.reader.finish()

    def one_pass(self) -> None:
        self.loop.one_pass(0.001)

    def commit(self) -> None:
        def idle() -> bool:
            self.one_pass()
            return self.journal.idle

        wait_until(idle, "everything to be stored")
        assert self.failures == []

    def close(self) -> None:
        self.reader.close(5.0)
        self.writer.close(5.0)
        self.loop.close()

    def rows(self, record: SessionRecord) -> list[str]:
        """The stored messages."""
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            query = "SELECT value_json FROM messages WHERE session_id = ? ORDER BY position"
            return [str(value) for (value,) in connection.execute(query, (record.id,)).fetchall()]
        finally:
            connection.close()

    def create(self) -> SessionRecord:
        session = Session(
            id=self.registry.new_session_id(),
            name="A",
            emoji="DM",
            agent="Demo",
            workdir="/",
            status="idle",
            preview="Ready",
            **at_creation("Demo", None, {}),
        )
        record = SessionRecord(session, StoredSession(session=session))
        change = self.book.change()
        change.create(record)
        change.commit()
        return record

    def say(self, record: SessionRecord, count: int) -> None:
        """Append ``count`` messages in one commit."""
        change = self.book.change()
        for _ in range(count):
            identity = self.registry.new_message_id()
            change.append(record, Text(id=identity, timestamp="now", author="assistant", text=f"text of {identity}"))
        change.commit()

    def open_text(self, record: SessionRecord) -> int:
        """Append an empty message for pieces; its position."""
        change = self.book.change()
        identity = self.registry.new_message_id()
        position = change.append(record, Text(id=identity, timestamp="now", author="assistant", text=""))
        change.commit()
        return position
