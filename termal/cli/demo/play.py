"""What the demo plays, act by act: sessions, a permission, a killed worker, a killed agent, the reckoning, the end."""

import os
import time
from typing import Protocol

import msgspec
import psutil

from termal.cli.demo.role import WAIT_S, Role
from termal.cli.demo.stage import Stage, wait_for
from termal.cli.figures import as_count
from termal.client.http import Http
from termal.model.message import Approval, Command, Message
from termal.procs.signals import KILL

AGENT = "Demo"
_LINES = {
    "Ada": "The daemon stores each piece of this text while it streams in, and shows it to everybody who listens.",
    "Grace": "Meanwhile this second agent works in a session and a process of its own, at the same time.",
}
_STREAMS = {"Ada": "one, two, three, four, five, six.", "Grace": "red, green, blue, white, grey, black."}
_SHOWN_CHARACTERS = 90
_PAUSE = "\nwait 0.2\n"


class Check(msgspec.Struct, frozen=True):
    claim: str
    passed: bool
    detail: str = ""


class Teller(Protocol):
    """Who tells the play: a terminal, or a list in a test."""

    def act(self, title: str) -> None: ...
    def tell(self, line: str) -> None: ...
    def moving(self, line: str) -> None: ...


class Play:
    """Performs once. ``checks`` and ``figures`` are what it found out; a claim that fails does not end the play."""

    def __init__(self, teller: Teller) -> None:
        self.checks: list[Check] = []
        self.figures: dict[str, int] = {}
        self._teller = teller
        self._roles: list[Role] = []

    def perform(self, stage: Stage) -> None:
        """Raises `StageFailed`, `TermalError` or `Unreachable` when it cannot go on."""
        self._teller.act("A daemon in a temporary directory")
        self.figures["readyMs"] = ready_ms = round(stage.start())
        self._teller.tell(f"ready after {ready_ms} ms at {stage.url}, process {stage.pid_of('supervisor')}")
        with Http(stage.url) as http:
            self._two_sessions(stage, http)
            self._permission(http, self._roles[0])
            self._killed_state(stage, http)
            self._killed_agent(http, self._roles[1])
            self._reckoning(http)
        self._end(stage)

    def check(self, claim: str, passed: bool, detail: str = "") -> None:
        self.checks.append(Check(claim, passed, "" if passed else detail))
        self._teller.tell(f"{'yes:' if passed else 'NO: '} {claim}" + ("" if passed else f" ({detail})"))

    def _two_sessions(self, stage: Stage, http: Http) -> None:
        self._teller.act("Two sessions at work at the same time")
        for name in _LINES:
            made = http.create_session(agent=AGENT, name=name, workdir=str(stage.work))
            self._roles.append(Role(name, stage.url, made.session_id, self._show_streams))
        for role in self._roles:
            role.send(http, f"say {_LINES[role.name]}", _LINES[role.name])
        for role in self._roles:
            role.wait_idle()
            self._teller.tell(f"{role.name}, {role.session_id}: {role.said()}")

    def _permission(self, http: Http, role: Role) -> None:
        self._teller.act("A command that needs a permission")
        role.send(http, "run echo hello")
        asked = wait_for(lambda: _open_question(role), "the agent's question", WAIT_S)
        self._teller.tell(f"{role.name}'s agent asks: {asked.command or asked.title}")
        http.answer_approval(role.session_id, asked.id, "accepted")
        role.wait_idle()
        ran = role.newest(Command)
        printed = ran.output.strip() if ran is not None else "no command"
        self.check(f"allowed, it ran and printed: {printed}", "hello" in printed, "expected hello")

    def _killed_state(self, stage: Stage, http: Http) -> None:
        self._teller.act("SIGKILL to the worker that stores everything, while both agents stream")
        before = http.state().server_instance_id
        for role in self._roles:
            words, pieces = _STREAMS[role.name], role.pieces
            role.send(http, _PAUSE.join(f"say {word} " for word in words.split()), words)
            wait_for(lambda role=role, pieces=pieces: role.pieces > pieces, f"text of {role.name}", WAIT_S)  # type: ignore[misc]
        killed, at = stage.kill("state"), time.monotonic()
        line = "This was sent while nobody was there to store it."
        self._roles[0].send(http, f"say {line}", line)
        self.figures["restartMs"] = took_ms = round((time.monotonic() - at) * 1e3)
        self._teller.tell(f"killed process {killed}; {took_ms} ms later its successor had stored the next prompt")
        after = http.state().server_instance_id
        self.check("another process answers now", after not in ("", before), f"before {before}, now {after}")
        for role in self._roles:
            role.wait_idle()
            self._teller.tell(f"{role.name} went on: {_end_of(role)}")

    def _killed_agent(self, http: Http, role: Role) -> None:
        self._teller.act("SIGKILL to an agent in the middle of a turn")
        before = http.read_session(role.session_id, 1).session.external_session_id
        pieces, line = role.pieces, "This turn will be cut off."
        role.send(http, f"say {line}\nwait 30", line)
        wait_for(lambda: role.pieces > pieces, f"text of {role.name}", WAIT_S)
        killed = _agent_pids(http, role.session_id)
        for pid in killed:
            os.kill(pid, KILL)
        wait_for(lambda: role.status == "error", f"{role.name} to say that the agent is gone", WAIT_S)
        self._teller.tell(f"killed {as_count(len(killed), 'process', 'processes')}; {role.name} says: {_end_of(role)}")
        line = "The conversation goes on."
        role.send(http, f"say {line}", line)
        role.wait_idle()
        after = http.read_session(role.session_id, 1).session.external_session_id
        self.check("the next prompt resumed the agent's own conversation", before == after, f"{before}, then {after}")

    def _reckoning(self, http: Http) -> None:
        self._teller.act("Was anything lost?")
        stored = [(role, _whole_transcript(http, role.session_id)) for role in self._roles]
        lost = [fault for role, messages in stored for fault in role.compare(messages)]
        self.figures["messages"] = count = sum(len(messages) for _, messages in stored)
        self.figures["lost"] = len(lost)
        self.check(f"the {count} stored messages are what was sent, said and streamed", not lost, "; ".join(lost))

    def _end(self, stage: Stage) -> None:
        self._teller.act("The end")
        ended, took_ms = stage.stop()
        for role in self._roles:
            role.close()
        self.figures["stopMs"] = round(took_ms)
        self.check(f"asked to stop, the daemon ended within {took_ms:.0f} ms", ended.code == 0, str(ended))
        left = stage.leftovers()
        self.check("no process of it is left", not left, "; ".join(left))

    def _show_streams(self) -> None:
        self._teller.moving(" | ".join(f"{role.name}: {role.said()[-30:]}" for role in list(self._roles)))


def _end_of(role: Role) -> str:
    """The last words of the session, from the beginning of a word."""
    return "… " + role.said()[-_SHOWN_CHARACTERS:].partition(" ")[2]


def _open_question(role: Role) -> Approval | None:
    asked = role.newest(Approval)
    return asked if asked is not None and asked.decision == "pending" else None


def _agent_pids(http: Http, session_id: str) -> list[int]:
    """The agent's own processes: what the shim that guards it has below it."""
    shims = [agent.pid for agent in http.status().agents if session_id in agent.session_ids]
    return [child.pid for shim in shims for child in psutil.Process(shim).children()]


def _whole_transcript(http: Http, session_id: str) -> list[Message]:
    page = http.history(session_id)
    messages = page.messages
    while page.has_more:
        page = http.history(session_id, before=messages[0].id)
        messages = page.messages + messages
    return messages
