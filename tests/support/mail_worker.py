"""The coordination worker as a real process, with the test as gateway, state, wake and supervisor."""

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from termal.bus.client import Client
from termal.bus.server import Request, Server
from termal.home import Home
from termal.wire.control import Ready
from termal.wire.errors import TermalError
from termal.wire.launch import StartKind
from termal.wire.mail_operations import (
    MAILBOX_ACKNOWLEDGE,
    MAILBOX_LIST,
    MAILBOX_MESSAGE,
    MAILBOX_READ,
    MAILBOX_SEND,
    MAILBOX_SENT,
    AboutSession,
    AcknowledgeMail,
    ListSent,
    ReadMailbox,
    ReadMessage,
    SendMail,
    Unread,
)
from termal.wire.operation import Operation
from termal.wire.queue_operations import RetractWakes
from termal.wire.session_operations import (
    COORDINATION_READY,
    SESSION_ELIGIBILITY,
    AskEligibility,
    CoordinationReady,
    Eligibilities,
    Eligibility,
)
from termal.wire.turns import Anything
from termal.wire.wake_operations import WAKE_NOTIFY, WAKE_RETRACT, Notified, Notify
from tests.support.bus import BusThread, Outcome
from tests.support.control_peer import ControlPeer
from tests.support.waiting import wait_until

ReplyT = TypeVar("ReplyT")
Json = dict[str, Any]
MODULE = "workers.coordination"


class FakeState:
    """Answers who is eligible. ``sessions`` maps an id to its verdict; an id that is not in it is unknown."""

    def __init__(self) -> None:
        self.sessions: dict[str, str] = {"a": "", "b": "", "c": ""}
        self.names: dict[str, str] = {"a": "Lead", "b": "Peer"}
        self.projects: dict[str, str] = {}
        self.questions: list[list[str]] = []

    def handlers(self) -> dict[str, Any]:
        return {SESSION_ELIGIBILITY.name: self._eligibility, COORDINATION_READY.name: self._ready}

    @staticmethod
    def _ready(request: Request, _: CoordinationReady) -> None:
        request.reply(Anything())

    def _eligibility(self, request: Request, asked: AskEligibility) -> None:
        self.questions.append(asked.session_ids)
        request.reply(Eligibilities([self._one(session_id) for session_id in asked.session_ids]))

    def _one(self, session_id: str) -> Eligibility:
        verdict = self.sessions.get(session_id, "unknown")
        project = self.projects.get(session_id)
        kind = None if project is None else "local"
        name = self.names.get(session_id, session_id)
        return Eligibility(session_id, verdict, name=name, project_id=project, project_kind=kind)


class FakeWake:
    """Is told of mail. What it is told for the sessions of ``hold`` is not answered before `answer`."""

    def __init__(self) -> None:
        self.outcome: Any = "queuedBehindActiveTurn"
        self.notices: list[Unread] = []
        self.retracted: list[RetractWakes] = []
        self.hold: set[str] = set()
        self.refuse: TermalError | None = None
        self._held: list[Request] = []
        self._lock = threading.Lock()

    def handlers(self) -> dict[str, Any]:
        return {WAKE_NOTIFY.name: self._notify, WAKE_RETRACT.name: self._retract}

    def _notify(self, request: Request, notice: Notify) -> None:
        with self._lock:
            self.notices.append(notice.mail)
            if notice.mail.session_id in self.hold:
                self._held.append(request)
                return
        if self.refuse is not None:
            raise self.refuse
        request.reply(Notified(self.outcome))

    def _retract(self, request: Request, stale: RetractWakes) -> None:
        self.retracted.append(stale)
        if stale.session_id not in self.hold:
            request.reply(Anything())

    def told(self, session_id: str) -> list[Unread]:
        return [notice for notice in self.notices if notice.session_id == session_id]

    def answer(self, outcome: Any = "queuedBehindActiveTurn") -> None:
        """Answer what is held; on the loop of the server."""
        with self._lock:
            held, self._held, self.hold = self._held, [], set()
        for request in held:
            request.reply(Notified(outcome))


class MailWorker:
    """One data directory; the worker in it is started, killed and started again by the test."""

    def __init__(self, home: Path, run_dir: Path) -> None:
        self.home = Home(home)
        self.run_dir = run_dir
        self.state = FakeState()
        self.wake = FakeWake()
        self.keys = 0
        self.bus = BusThread("poll", run_dir)
        self.client: Client = self.bus.client("coordination", "gateway")
        self.peer: ControlPeer | None = None
        self._peers: dict[str, BusThread] = {}
        self._servers: dict[str, Server] = {}
        self.peer_up("state")
        self.peer_up("wake")

    # ------------------------------------------------------------------------ peers

    def peer_up(self, name: str) -> None:
        handlers = {"state": self.state.handlers, "wake": self.wake.handlers}[name]()
        self._peers[name] = bus = BusThread("poll", self.run_dir)
        self._servers[name] = bus.server(name, handlers)

    def peer_down(self, name: str) -> None:
        """The peer ends as a process does: what it has not answered is lost."""
        self._servers.pop(name)
        self._peers.pop(name).close()

    def wake_answers(self, outcome: str = "queuedBehindActiveTurn") -> None:
        """Wake answers what it holds."""
        self._peers["wake"].run(lambda: self.wake.answer(outcome))

    # ---------------------------------------------------------------------- process

    def start(
        self, start: StartKind = "boot", *, faults: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> "MailWorker":
        if self.peer is not None:
            self.peer.__exit__(None, None, None)
        self.peer = ControlPeer(
            MODULE, self.home.root, self.run_dir, start=start, faults=faults, environment=environment
        )
        self.peer.wait_for(Ready)
        wait_until(lambda: self.client.up, "coordination to be connected")
        return self

    @property
    def process(self) -> ControlPeer:
        assert self.peer is not None
        return self.peer

    def kill(self) -> None:
        self.process.kill()
        wait_until(lambda: not self.client.up, "coordination to be gone")

    def restart(self, **options: Any) -> "MailWorker":
        """SIGKILL and a replacement."""
        self.kill()
        return self.start("replacement", **options)

    def close(self) -> None:
        if self.peer is not None:
            self.peer.__exit__(None, None, None)
        self.bus.close()
        for name in list(self._peers):
            self.peer_down(name)

    # --------------------------------------------------------------------- sessions

    def roots(self, count: int = 2) -> list[str]:
        """New local root sessions."""
        made = [f"s{len(self.state.sessions) + number}" for number in range(count)]
        for session_id in made:
            self.state.sessions[session_id] = ""
            self.state.names[session_id] = f"name of {session_id}"
        return made

    # --------------------------------------------------------------------- requests

    def begin(self, op: Operation[Any, ReplyT], request: object, **limits: Any) -> Outcome[ReplyT]:
        return self.bus.start(self.client, op, request, **limits)

    def ask(self, op: Operation[Any, ReplyT], request: object, **limits: Any) -> ReplyT:
        """The reply, or the error raised."""
        return self.bus.ask(self.client, op, request, **limits)

    def json(self, op: Operation[Any, Any], request: object, **limits: Any) -> Any:
        return json.loads(self.ask(op, request, **limits).json)

    def mail(self, sender: str = "a", target: str = "b", key: str | None = None, **fields: Any) -> SendMail:
        self.keys += 1
        message = fields.pop("message", "hello")
        return SendMail(
            session_id=sender,
            target_session_id=target,
            message=message,
            idempotency_key=f"auto-{self.keys}" if key is None else key,
            **fields,
        )

    def send(self, sender: str = "a", target: str = "b", key: str | None = None, **fields: Any) -> Json:
        receipt: Json = self.json(MAILBOX_SEND, self.mail(sender, target, key, **fields))
        return receipt

    @staticmethod
    def receipt(outcome: Outcome[Any]) -> Json:
        """The receipt of a send that was begun."""
        receipt: Json = json.loads(outcome.reply().json)
        return receipt

    def mailboxes(self, session_id: str) -> list[Json]:
        listed: list[Json] = self.json(MAILBOX_LIST, AboutSession(session_id))
        return listed

    def read(self, session_id: str, mailbox_id: str, after: int = 0, limit: int = 50) -> list[Json]:
        page: list[Json] = self.json(MAILBOX_READ, ReadMailbox(session_id, mailbox_id, after, limit))
        return page

    def message(self, session_id: str, message_id: str) -> Json:
        message: Json = self.json(MAILBOX_MESSAGE, ReadMessage(session_id, message_id))
        return message

    def sent(self, session_id: str, **selectors: Any) -> Json:
        page: Json = self.json(MAILBOX_SENT, ListSent(session_id, **selectors))
        return page

    def acknowledge(self, session_id: str, mailbox_id: str, expected: int, through: int) -> Json:
        asked = AcknowledgeMail(session_id, mailbox_id, expected, through)
        summary: Json = self.json(MAILBOX_ACKNOWLEDGE, asked)
        return summary

    def cursor(self, session_id: str, mailbox_id: str) -> int:
        """The cursor of ``session_id`` as its own list shows it."""
        (mailbox,) = [mailbox for mailbox in self.mailboxes(session_id) if mailbox["id"] == mailbox_id]
        (own,) = [one for one in mailbox["participants"] if one["sessionId"] == session_id]
        cursor: int = own["processedThrough"]
        return cursor

    # ------------------------------------------------------------------------- file

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """What the file says, read beside the worker."""
        connection = apsw.Connection(str(self.home.coordination_db), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(5000)
            return connection.execute(query, parameters).fetchall()
        finally:
            connection.close()

    def stored(self, sender: str) -> int:
        """How many messages of ``sender`` are stored."""
        count: int = self.rows("SELECT count(*) FROM mailbox_messages WHERE sender_session_id = ?", sender)[0][0]
        return count


@contextmanager
def shared_worker() -> Iterator[MailWorker]:
    """A worker for the tests of a module; each of them uses sessions of its own."""
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    worker = MailWorker(folder / "home", folder)
    try:
        worker.start()
        # Every connection is made before a test counts descriptors.
        worker.acknowledge("b", worker.send("a", "b")["mailboxId"], 0, 1)
        yield worker
    finally:
        worker.close()
        shutil.rmtree(folder)
