"""State, coordination and wake as real processes over one data directory, with the test as their supervisor, gateway
and runtime worker: any of them is killed and started again while the others go on.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from termal.bus.client import Client
from termal.home import Home
from termal.wire.control import BootDone, Peers, Ready, Serving
from termal.wire.launch import StartKind
from termal.wire.mail_operations import (
    MAILBOX_ACKNOWLEDGE,
    MAILBOX_LIST,
    MAILBOX_READ,
    MAILBOX_SEND,
    AboutSession,
    AcknowledgeMail,
    ReadMailbox,
    SendMail,
)
from termal.wire.turns import JsonReply
from tests.support.bus import Outcome
from tests.support.control_peer import ControlPeer
from tests.support.fake_runtime import FakeRuntime
from tests.support.state_worker import Json, StateWorker
from tests.support.waiting import wait_until

NAMES = ("state", "coordination", "wake")
RUNTIME = "runtime-acp"


class MailDaemon:
    """``faults`` is where a test puts fault points for workers that it starts afterwards."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.home = Home(run_dir / "home")
        self.faults = run_dir / "faults"
        self.faults.mkdir()
        self.state = StateWorker(self.home.root, run_dir)
        self.coordination: Client = self.state.bus.client("coordination")
        self.wake: Client = self.state.bus.client("wake")
        self.others: dict[str, ControlPeer] = {}
        self.runtime = self.new_runtime()

    # ------------------------------------------------------------------------- life

    def boot(self, *, wake: bool = True) -> "MailDaemon":
        """Start all of them as the daemon does, up to the moment at which it serves."""
        self.state.start("boot", ready=False, faults=self.faults)
        self.start("coordination", "boot")
        self.others["coordination"].wait_for(BootDone)
        self.state.process.wait_for(BootDone)
        if wake:
            self.start("wake", "boot")
            self.others["wake"].wait_for(BootDone)
        return self

    def serve(self) -> None:
        """The port listens from now on."""
        self.state.process.order(Serving())

    def start(self, name: str, kind: StartKind = "replacement", *, ready: bool = True) -> None:
        """Start one of them beside those that run."""
        if name == "state":
            self.state.start(kind, running=[RUNTIME, "coordination", "wake"], ready=False, faults=self.faults)
            return
        peer = ControlPeer(f"workers.{name}", self.home.root, self.run_dir, start=kind, faults=self.faults)
        self.others[name] = peer
        if ready:
            peer.wait_for(Ready)
            client = self.coordination if name == "coordination" else self.wake
            wait_until(lambda: client.up, f"{name} to be connected")
        self.state.process.order(Peers([RUNTIME, "coordination", "wake"]))

    def kill(self, *names: str) -> None:
        """SIGKILL, one after the other."""
        for name in names or NAMES:
            if name == "state":
                self.state.kill()
            elif name in self.others:
                self.ended(name)

    def ended(self, name: str) -> None:
        """Wait until ``name``, which dies by a fault point or by our kill, is gone."""
        if name == "state":
            self.state.process.wait()
            self.state._gone()
            return
        peer = self.others.pop(name)
        peer.kill()
        peer.__exit__(None, None, None)
        client = self.coordination if name == "coordination" else self.wake
        wait_until(lambda: not client.up, f"{name} to be gone")

    def crash(self) -> "MailDaemon":
        """The whole daemon dies: every worker, and the agents with the runtime worker."""
        self.kill(*(name for name in NAMES if name == "state" or name in self.others))
        self.end_runtime()
        self.new_runtime()
        return self

    def end_runtime(self) -> None:
        """The runtime worker dies with all that it held."""
        self.runtime.close()
        self.state.runtimes.clear()

    def new_runtime(self) -> FakeRuntime:
        self.runtime = FakeRuntime(self.run_dir, RUNTIME)
        self.state.runtimes.append(self.runtime)
        return self.runtime

    def arm(self, point: str, action: str = "kill") -> None:
        (self.faults / point).write_text(action, "utf-8")

    def go(self, point: str) -> None:
        """Let go of what is held at ``point``."""
        (self.faults / f"{point}.go").touch()

    def wait_held(self, point: str) -> None:
        wait_until((self.faults / f"{point}.held").exists, f"{point} to be reached")

    def close(self) -> None:
        for peer in self.others.values():
            peer.__exit__(None, None, None)
        self.state.close()

    # ------------------------------------------------------------------------- mail

    def begin_send(self, sender: str, target: str, key: str, text: str = "hello") -> Outcome[JsonReply]:
        mail = SendMail(session_id=sender, target_session_id=target, message=text, idempotency_key=key)
        return self.state.bus.start(self.coordination, MAILBOX_SEND, mail)

    def give_up(self, outcome: Outcome[JsonReply]) -> None:
        """Nobody waits for this request any more, and nobody repeats it."""
        if outcome.call is not None:
            self.state.bus.run(outcome.call.cancel)

    def send(self, sender: str, target: str, key: str, text: str = "hello") -> Json:
        """The receipt."""
        return receipt(self.begin_send(sender, target, key, text))

    def mailboxes(self, session_id: str) -> list[Json]:
        reply = self.state.bus.ask(self.coordination, MAILBOX_LIST, AboutSession(session_id))
        found: list[Json] = json.loads(reply.json)
        return found

    def acknowledge(self, session_id: str, mailbox_id: str, expected: int, through: int) -> Json:
        request = AcknowledgeMail(session_id, mailbox_id, expected, through)
        reply: Json = json.loads(self.state.bus.ask(self.coordination, MAILBOX_ACKNOWLEDGE, request).json)
        return reply

    def states(self, session_id: str, mailbox_id: str) -> list[str]:
        """``notificationState`` of each message, as a reader sees it."""
        request = ReadMailbox(session_id, mailbox_id, limit=200)
        reply = self.state.bus.ask(self.coordination, MAILBOX_READ, request)
        return [message["notificationState"] for message in json.loads(reply.json)]

    def wait_states(self, session_id: str, mailbox_id: str, expected: Sequence[str]) -> None:
        wait_until(
            lambda: self.states(session_id, mailbox_id) == list(expected),
            f"the states {expected}, not {self.states(session_id, mailbox_id)}",
        )

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a reader of the coordination file sees now."""
        connection = apsw.Connection(str(self.home.coordination_db), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()

    # ----------------------------------------------------------------------- queues

    def queue(self, session_id: str) -> list[str]:
        """What waits: ``mail M N`` for a wake through sequence N, the text of everything else."""
        return [_shown(prompt) for prompt in self.state.read(session_id).get("pendingPrompts", [])]

    def wait_queue(self, session_id: str, expected: Sequence[str]) -> None:
        wait_until(lambda: self.queue(session_id) == list(expected), f"the queue {expected}")

    def prompts(self, session_id: str) -> list[str]:
        """Every prompt that became a turn, in the same words."""
        messages = self.state.read(session_id)["messages"]
        return [_shown(message) for message in messages if message["type"] == "text" and message["author"] == "you"]

    def wait_prompts(self, session_id: str, expected: Sequence[str]) -> None:
        wait_until(lambda: self.prompts(session_id) == list(expected), f"the prompts {expected}")

    def settled(self) -> None:
        """Return when the reports of state are with coordination."""
        wait_until(lambda: not self._metadata().get("pendingWakeReports"), "the outbox to be empty")

    def _metadata(self) -> Json:
        value = self.state.rows("SELECT value_json FROM app_state")[0][0]
        found: Json = json.loads(value)
        return found


def receipt(outcome: Outcome[JsonReply], limit_s: float = 8.0) -> Json:
    """The receipt of a send, waited for a little longer than its own deadline."""
    found: Json = json.loads(outcome.reply(limit_s).json)
    return found


def wake_name(sequence: int) -> str:
    return f"mail {sequence}"


def _shown(prompt: Json) -> str:
    mailbox = prompt.get("source", {}).get("mailbox")
    return wake_name(mailbox["sequence"]) if mailbox else str(prompt["text"])
