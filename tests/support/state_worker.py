"""The `state` worker as a real process over a real file, with the test as gateway, coordination and supervisor."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from termal.bus.client import Client
from termal.home import Home
from termal.wire.codec import decode
from termal.wire.control import BootDone, Need, Peers, Ready
from termal.wire.envelope import Event
from termal.wire.events import Published
from termal.wire.launch import StartKind
from termal.wire.operation import Operation
from termal.wire.session_operations import (
    APPROVAL_ANSWER,
    COORDINATION_READY,
    PROMPT_CANCEL,
    PROMPT_SEND,
    SESSION_CREATE,
    SESSION_HISTORY,
    SESSION_KILL,
    SESSION_READ,
    SESSION_STOP,
    STATE_SNAPSHOT,
    AnswerApproval,
    CancelPrompt,
    CoordinationReady,
    CreateSession,
    OneSession,
    PromptImage,
    ReadHistory,
    ReadSession,
    SendPrompt,
)
from termal.wire.turns import Anything
from tests.support.bus import BusThread, Outcome
from tests.support.control_peer import ControlPeer
from tests.support.fake_runtime import FakeRuntime
from tests.support.waiting import wait_until

ReplyT = TypeVar("ReplyT")
Json = dict[str, Any]
MODULE = "workers.state"


def installed(run_dir: Path) -> Path:
    """A folder for PYTHONPATH that looks as if Claude and Codex were installed; these tests start sessions of them and
    never run them, and must not depend on what the machine has."""
    folder = run_dir / "installed"
    for package, place in (("claude_agent_sdk", "_bundled/claude"), ("codex_cli_bin", "bin/codex")):
        program = folder / package / place
        if not program.exists():
            program.parent.mkdir(parents=True)
            (folder / package / "__init__.py").write_text('"""Never imported."""\n', "utf-8")
            program.write_text("#!/bin/false\n", "utf-8")
            program.chmod(0o700)
    return folder


class StateWorker:
    """One data directory; the worker in it is started, killed and started again by the test."""

    def __init__(self, home: Path, run_dir: Path) -> None:
        self.home = Home(home)
        self.run_dir = run_dir
        self.events: list[Json] = []
        self.keys = 0
        self.bus = BusThread("poll", run_dir)
        self.client: Client = self.bus.client("state")
        self._subscriber = self.bus.subscriber("state", self._event, lambda: None)
        self.peer: ControlPeer | None = None
        self.runtimes: list[FakeRuntime] = []

    # ---------------------------------------------------------------------- process

    def start(
        self,
        start: StartKind = "boot",
        *,
        running: Sequence[str] = (),
        faults: Path | None = None,
        ready: bool = True,
        highest_session: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> "StateWorker":
        """Start it and, for a boot, be coordination that is ready; return when it takes requests."""
        if self.peer is not None:
            self._gone()
        before = self._subscriber.epoch
        environment = {"PYTHONPATH": str(installed(self.run_dir)), **(environment or {})}
        self.peer = ControlPeer(
            MODULE, self.home.root, self.run_dir, start=start, running=running, faults=faults, environment=environment
        )
        self.peer.wait_for(Ready)
        wait_until(lambda: self.client.up, "state to be connected")
        wait_until(lambda: self._subscriber.epoch not in ("", before), "its events to arrive here")
        if ready:
            self.coordination_ready(highest_session)
            if start == "boot":
                self.peer.wait_for(BootDone)
        return self

    def coordination_ready(self, highest_session: int = 0) -> None:
        self.ask(COORDINATION_READY, CoordinationReady(highest_session))

    @property
    def process(self) -> ControlPeer:
        assert self.peer is not None
        return self.peer

    def stop(self) -> None:
        assert self.process.stop() == 0, self.process.stderr()
        self._gone()

    def kill(self) -> None:
        self.process.kill()
        self._gone()

    def _gone(self) -> None:
        self.process.__exit__(None, None, None)
        wait_until(lambda: not self.client.up, "state to be gone")

    def reload(self) -> "StateWorker":
        """Close everything and open it again."""
        self.stop()
        return self.start()

    def runtime(self, name: str = "runtime-acp") -> FakeRuntime:
        """A runtime worker that is there, connected both ways."""
        runtime = FakeRuntime(self.run_dir, name)
        self.runtimes.append(runtime)
        if self.peer is not None:
            self.peer.order(Peers([other.name for other in self.runtimes]))
        return runtime

    def needs(self) -> list[str]:
        return [line.worker for line in self.process.said(Need)]

    def close(self) -> None:
        for runtime in self.runtimes:
            runtime.close()
        if self.peer is not None:
            self.peer.__exit__(None, None, None)
        self.bus.close()

    # --------------------------------------------------------------------- requests

    def begin(self, op: Operation[Any, ReplyT], request: object, *, within_s: float | None = None) -> Outcome[ReplyT]:
        limits = {} if within_s is None else {"deadline_s": time.monotonic() + within_s}
        return self.bus.start(self.client, op, request, **limits)

    def ask(self, op: Operation[Any, ReplyT], request: object) -> ReplyT:
        """The reply, or the error raised."""
        return self.bus.ask(self.client, op, request)

    def json(self, op: Operation[Any, Any], request: object) -> Json:
        reply: Json = json.loads(self.ask(op, request).json)
        return reply

    def key(self) -> str:
        self.keys += 1
        return f"key-{id(self)}-{self.keys}"

    def create(self, agent: str = "Demo", **fields: Any) -> str:
        """The id of a new session."""
        return str(self.json(SESSION_CREATE, CreateSession(key=self.key(), agent=agent, **fields))["sessionId"])

    def prompt(self, session_id: str, text: str, *, key: str | None = None, **fields: Any) -> SendPrompt:
        return SendPrompt(key=key or self.key(), session_id=session_id, text=text, **fields)

    def send(self, session_id: str, text: str, **fields: Any) -> Json:
        """The session as the reply shows it."""
        reply = self.json(PROMPT_SEND, self.prompt(session_id, text, **fields))
        return find(reply, session_id)

    def read(self, session_id: str, tail: int = 64) -> Json:
        session: Json = self.json(SESSION_READ, ReadSession(session_id, tail))["session"]
        return session

    def history(self, session_id: str, **selectors: Any) -> Json:
        return self.json(SESSION_HISTORY, ReadHistory(session_id=session_id, **selectors))

    def cancel(self, session_id: str, prompt_id: str) -> Json:
        return self.json(PROMPT_CANCEL, CancelPrompt(session_id, prompt_id))

    def stop_turn(self, session_id: str) -> Json:
        return find(self.json(SESSION_STOP, OneSession(session_id)), session_id)

    def kill_session(self, session_id: str) -> Json:
        return self.json(SESSION_KILL, OneSession(session_id))

    def answer(self, session_id: str, message_id: str, decision: str) -> Json:
        return find(self.json(APPROVAL_ANSWER, AnswerApproval(session_id, message_id, decision)), session_id)

    def state(self) -> Json:
        reply: Json = json.loads(self.ask(STATE_SNAPSHOT, Anything()).json)
        return reply

    def status(self, session_id: str) -> str:
        return str(self.read(session_id)["status"])

    def wait_status(self, session_id: str, status: str) -> Json:
        wait_until(lambda: self.status(session_id) == status, f"{session_id} to be {status}")
        return self.read(session_id)

    # ----------------------------------------------------------------------- events

    def _event(self, event: Event) -> None:
        published = decode(event.body, Published)
        self.events.append({"event": published.name, **json.loads(published.json)})

    def deltas(self, session_id: str | None = None) -> list[Json]:
        """Every delta that a living state has published so far, of one session when it is named."""
        if self.client.up:
            told = self.ask(STATE_SNAPSHOT, Anything()).number
            wait_until(lambda: self._subscriber.number >= told, "the published events to arrive")
        return self._arrived(session_id)

    def _arrived(self, session_id: str | None) -> list[Json]:
        return [
            event
            for event in list(self.events)
            if event["event"] == "delta" and session_id in (None, event.get("sessionId"))
        ]

    def wait_deltas(self, session_id: str, count: int) -> list[Json]:
        return wait_until(
            lambda: (found := self._arrived(session_id))[count - 1 :] and found, f"{count} deltas of {session_id}"
        )

    # ------------------------------------------------------------------------- file

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a reader of the file sees now."""
        connection = apsw.Connection(str(self.home.termal_db), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Change the file behind a worker that is not there."""
        connection = apsw.Connection(str(self.home.termal_db))
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(sql, parameters)
        finally:
            connection.close()

    def row(self, session_id: str) -> Json:
        """The stored session row."""
        wrapper: Json = json.loads(self.rows("SELECT value_json FROM sessions WHERE id = ?", (session_id,))[0][0])
        return wrapper

    def change_row(self, session_id: str, **values: Any) -> None:
        """Set keys of the stored wrapper; keys of the session object go in as ``session``."""
        wrapper = self.row(session_id)
        wrapper["session"].update(values.pop("session", {}))
        wrapper.update(values)
        self.write("UPDATE sessions SET value_json = ? WHERE id = ?", (json.dumps(wrapper), session_id))

    def add_messages(self, session_id: str, count: int, prefix: str = "message-") -> None:
        """Give a stored session a transcript of ``count`` messages, with their overview."""
        rows = [
            (session_id, at, f"{prefix}{at:03d}", json.dumps(text_message(f"{prefix}{at:03d}", f"text {at}")))
            for at in range(count)
        ]
        connection = apsw.Connection(str(self.home.termal_db))
        try:
            connection.execute("BEGIN")
            connection.executemany(
                "INSERT INTO messages (session_id, position, message_id, value_json) VALUES (?, ?, ?, ?)", rows
            )
            connection.execute("INSERT INTO session_overviews VALUES (?, ?)", (session_id, bytes(count)))
            connection.execute("COMMIT")
        finally:
            connection.close()
        self.change_row(session_id, session={"messageCount": count, "messagesLoaded": False})


def text_message(message_id: str, text: str, author: str = "assistant") -> Json:
    return {"type": "text", "id": message_id, "timestamp": "10:00:00", "author": author, "text": text}


def find(state: Json, session_id: str) -> Json:
    """One session of a state reply."""
    found: Json = next(session for session in state["sessions"] if session["id"] == session_id)
    return found


def texts(session: Json) -> list[str]:
    return [message["text"] for message in session["messages"] if message["type"] == "text"]


def image(size_bytes: int = 3, media_type: str = "image/png") -> PromptImage:
    return PromptImage(bytes(size_bytes), media_type)
