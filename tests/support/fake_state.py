"""A state worker without sessions: real sockets on a thread, canned answers, events when the test says so.

Also a coordination that hardly says more than that it is there, so that a gateway has both of its essential workers.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from termal.bus.loop import PollLoop
from termal.bus.publisher import Publisher
from termal.bus.server import Request, Server
from termal.log import Log
from termal.model.status import (
    DatabaseStatus,
    MailboxCounts,
    OutboxCounts,
    PendingCount,
    RunningCount,
    SessionCounts,
)
from termal.wire.codec import encode, encode_json
from termal.wire.coordination_operations import COORDINATION_FACTS
from termal.wire.errors import TermalError
from termal.wire.events import EventName, Published
from termal.wire.facts import CoordinationFacts, OperationCount, StateFacts
from termal.wire.mail_operations import MAILBOX_READ, ReadMailbox
from termal.wire.session_operations import (
    APP_REQUEST_ANSWER,
    APPROVAL_ANSWER,
    ELICITATION_ANSWER,
    MARKER_CREATE,
    MARKER_DELETE,
    MARKER_LIST,
    MARKER_UPDATE,
    PROMPT_CANCEL,
    PROMPT_SEND,
    QUESTIONS_ANSWER,
    SESSION_CREATE,
    SESSION_HISTORY,
    SESSION_KILL,
    SESSION_OVERVIEW,
    SESSION_READ,
    SESSION_STOP,
    STATE_FACTS,
    STATE_SNAPSHOT,
    Snapshot,
)
from termal.wire.thread_operations import THREAD_ROLLBACK
from termal.wire.turns import JsonReply
from tests.support.waiting import wait_until

DATABASE = DatabaseStatus(
    name="termal", bytes=4096, wal_bytes=0, schema_version="2", sqlite_version="3.54.1", quarantined=0
)
_PASSED_ON = (
    SESSION_CREATE,
    SESSION_READ,
    SESSION_HISTORY,
    SESSION_STOP,
    SESSION_KILL,
    PROMPT_SEND,
    PROMPT_CANCEL,
    APPROVAL_ANSWER,
    QUESTIONS_ANSWER,
    ELICITATION_ANSWER,
    APP_REQUEST_ANSWER,
    SESSION_OVERVIEW,
    MARKER_LIST,
    MARKER_CREATE,
    MARKER_UPDATE,
    MARKER_DELETE,
    THREAD_ROLLBACK,
)


class Worker:
    """A bus worker on its own thread; a context manager."""

    role = ""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._bound = threading.Event()
        self.loop: PollLoop

    def __enter__(self) -> "Any":
        self._thread.start()
        assert self._bound.wait(5), "the fake worker did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.threadsafe(self.loop.stop)
        self._thread.join(5)

    def handlers(self) -> dict[str, Callable[[Request, Any], None]]:
        raise NotImplementedError

    def set_up(self) -> None:
        """On the thread, before the server binds."""

    def do(self, action: Callable[[], Any]) -> Any:
        """Run ``action`` on the worker's thread and return what it returns."""
        done, result = threading.Event(), []

        def act() -> None:
            result.append(action())
            done.set()

        self.loop.threadsafe(act)
        assert done.wait(5), "the fake worker does not answer"
        return result[0]

    def _run(self) -> None:
        self.loop = PollLoop()
        self.set_up()
        server = Server(self.loop, self._run_dir, self.role, self.handlers(), log=Log(f"fake-{self.role}"))
        self._bound.set()
        self.loop.run()
        server.close()
        self.loop.close()


class FakeCoordination(Worker):
    """``reads`` are the pages of mailboxes that were asked for, in order."""

    role = "coordination"

    def __init__(self, run_dir: Path) -> None:
        super().__init__(run_dir)
        self.reads: list[ReadMailbox] = []

    def handlers(self) -> dict[str, Callable[[Request, Any], None]]:
        facts = CoordinationFacts(databases=[], mailboxes=MailboxCounts(count=3, unread=2, unwoken=1), operations=[])
        return {COORDINATION_FACTS.name: lambda request, _: request.reply(facts), MAILBOX_READ.name: self._read}

    def _read(self, request: Request, body: ReadMailbox) -> None:
        self.reads.append(body)
        request.reply(JsonReply(b"[]"))


class FakeState(Worker):
    """``requests`` are the records that came, in order, with the request id; snapshots and facts are not among them."""

    role = "state"

    def __init__(self, run_dir: Path, *, epoch: str = "epoch-1", revision: int = 1) -> None:
        super().__init__(run_dir)
        self.epoch = epoch
        self.revision = revision
        self.requests: list[tuple[str, Any, str]] = []
        self.snapshots = 0
        self.answer_json = b'{"answer":true}'
        self.error: TermalError | None = None
        self.snapshot_error: TermalError | None = None
        self.padding = ""
        self.held: list[Callable[[], None]] | None = None
        self._publisher: Publisher

    def set_up(self) -> None:
        self._publisher = Publisher(self.loop, self._run_dir, "state", self.epoch)

    def handlers(self) -> dict[str, Callable[[Request, Any], None]]:
        passed = {op.name: self._pass_on for op in _PASSED_ON}
        return {**passed, STATE_SNAPSHOT.name: self._snapshot, STATE_FACTS.name: self._facts}

    def publish(self, count: int = 1, *, name: EventName = "delta", padding: int = 0) -> None:
        """Events of consecutive revisions, each holding its revision and its number."""
        self.do(lambda: self._publish(count, name, "x" * padding))

    def skip(self, count: int) -> None:
        """As if ``count`` events had been published and nobody had heard them."""
        self.do(lambda: self._skip(count))

    def hold(self) -> None:
        """Keep every snapshot from now on: taken at once, sent by `release`."""
        self.held = []

    def release(self) -> None:
        held, self.held = self.held or [], None
        self.do(lambda: [send() for send in held])

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.requests) >= count, f"{count} requests at the fake state")

    def _publish(self, count: int, name: EventName, padding: str) -> None:
        for _ in range(count):
            self.revision += 1
            body = {"type": "textDelta", "revision": self.revision, "padding": padding}
            self._publisher.publish(encode(Published(name, self.revision, encode_json(body))))

    def _skip(self, count: int) -> None:
        self._publisher.number += count
        self.revision += count

    def _snapshot(self, request: Request, _: Any) -> None:
        self.snapshots += 1
        if self.snapshot_error is not None:
            raise self.snapshot_error
        body = {"revision": self.revision, "serverInstanceId": self.epoch, "padding": self.padding}
        reply = Snapshot(encode_json(body), self.epoch, self._publisher.number, self.revision)
        if self.held is not None:
            self.held.append(lambda: request.reply(reply))
        else:
            request.reply(reply)

    def _pass_on(self, request: Request, record: Any) -> None:
        self.requests.append((request.op.name, record, request.trace))
        if self.error is not None:
            raise self.error
        request.reply(JsonReply(self.answer_json))

    def _facts(self, request: Request, _: Any) -> None:
        facts = StateFacts(
            server_instance_id=self.epoch,
            revision=self.revision,
            databases=[DATABASE],
            sessions=SessionCounts(total=3, active=1, idle=2),
            delegations=RunningCount(running=1),
            waits=PendingCount(pending=2),
            outbox=OutboxCounts(),
            operations=[OperationCount("session.read", "ok", 7)],
        )
        request.reply(facts)
