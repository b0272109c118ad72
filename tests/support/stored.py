"""A `termal.sqlite` filled while no daemon runs, so that a transcript of any length is there within a moment.

Its messages are not found by a search: the daemon would be busy indexing them beside whatever is tested.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType

from msgspec.structs import replace

from termal.model.message import Author, Command, Diff, Message, Text
from termal.model.session import Session
from termal.model.stored import StoredSession, fresh_metadata
from termal.rules.overview import byte_of, kind_of
from termal.rules.settings import at_creation
from termal.store.connection import open_writer
from termal.wire.codec import encode_json
from workers.state.rows import encode_session
from workers.state.session_record import SessionRecord
from workers.state.store_schema import METADATA_KEY, open_store

Make = Callable[[int, str], Message]
"""Makes the message of a position under an id."""


class StoredSessions:
    """Writes whole sessions into a store of its own. A context manager; the file is complete at its end."""

    def __init__(self, path: Path, workdir: str = "/") -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        open_store(path, durability="normal")
        self._connection = open_writer(path, durability="normal")
        self._workdir = workdir
        self._sessions = 0
        self._messages = 0

    def __enter__(self) -> "StoredSessions":
        self._connection.execute("BEGIN")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        metadata = replace(
            fresh_metadata(), next_session_number=self._sessions + 1, next_message_number=self._messages + 1
        )
        self._connection.execute(
            "UPDATE app_state SET value_json = ? WHERE key = ?", (encode_json(metadata).decode(), METADATA_KEY)
        )
        self._connection.execute("DELETE FROM search_marked")
        self._connection.execute("COMMIT")
        self._connection.close()

    def add(self, count: int, make: Make | None = None) -> str:
        """The id of a new idle session of the bundled agent with a transcript of ``count`` messages."""
        self._sessions += 1
        session = Session(
            id=f"session-{self._sessions}",
            name=f"Stored {self._sessions}",
            emoji="DM",
            agent="Demo",
            workdir=self._workdir,
            status="idle",
            preview="Ready",
            **at_creation("Demo", None, {}),
        )
        record = SessionRecord(session, StoredSession(session=session))
        record.start = count
        self._connection.execute("INSERT INTO sessions VALUES (?, ?)", (session.id, encode_session(record)))
        overview = bytearray()
        self._connection.executemany(
            "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", self._rows(session.id, count, make or plain, overview)
        )
        self._connection.execute("INSERT INTO session_overviews VALUES (?, ?)", (session.id, bytes(overview)))
        return session.id

    def _rows(self, session_id: str, count: int, make: Make, overview: bytearray) -> Iterator[tuple[str | int, ...]]:
        for position in range(count):
            self._messages += 1
            message = make(position, f"message-{self._messages}")
            overview.append(byte_of(message))
            text = encode_json(message).decode()
            yield session_id, position, message.id, text, kind_of(message), int(message.author == "you")


def plain(position: int, message_id: str) -> Message:
    """A prompt after every nine answers, each with some words."""
    author: Author = "assistant" if position % 10 else "you"
    return Text(id=message_id, timestamp="now", author=author, text=f"text {position} " + "word " * 30)


def of_kinds(kinds: Iterable[str]) -> Make:
    """Makes a message of each kind in turn: ``text`` (a prompt), ``command``, ``diff``, ``error``, ``answer``."""
    made = list(kinds)

    def make(position: int, message_id: str) -> Message:
        kind = made[position % len(made)]
        if kind in ("text", "answer"):
            author: Author = "you" if kind == "text" else "assistant"
            return Text(id=message_id, timestamp="now", author=author, text=f"text {position}")
        if kind == "diff":
            return Diff(
                id=message_id,
                timestamp="now",
                author="assistant",
                file_path="f",
                summary="s",
                diff="+x",
                change_type="edit",
            )
        return Command(
            id=message_id,
            timestamp="now",
            author="assistant",
            command="ls",
            output="",
            status="error" if kind == "error" else "success",
        )

    return make
