"""What the demo plays, act by act: sessions, a permission, delegated reviews, mail, processes killed, the reckoning."""

import os
import time

import psutil

from termal.cli.demo import team
from termal.cli.demo.claims import Claims, Teller
from termal.cli.demo.role import WAIT_S, Role
from termal.cli.demo.stage import Stage, wait_for
from termal.cli.figures import as_count
from termal.client.http import Http
from termal.model.message import Approval, Command, Message
from termal.procs.signals import KILL

_LINES = {
    "Ada": "The daemon stores each piece of this text while it streams in, and shows it to everybody who listens.",
    "Grace": "Meanwhile this second agent works in a session and a process of its own, at the same time.",
}
_STREAM = "red, green, blue, white, grey, black."
_SHOWN_CHARACTERS = 90
_PAUSE = "\nwait 0.2\n"


class Play:
    """Performs once. ``claims`` is what it found out."""

    def __init__(self, teller: Teller) -> None:
        self.claims = Claims(teller)
        self._roles: list[Role] = []

    def perform(self, stage: Stage) -> None:
        """Raises `StageFailed`, `TermalError` or `Unreachable` when it cannot go on."""
        self.claims.act("A daemon in a temporary directory")
        self.claims.figures["readyMs"] = ready_ms = round(stage.start())
        self.claims.tell(f"ready after {ready_ms} ms at {stage.url}, process {stage.pid_of('supervisor')}")
        with Http(stage.url) as http:
            self._two_sessions(stage, http)
            ada, grace = self._roles
            self._permission(http, ada)
            self._delegated(http, ada)
            self._killed_state(stage, http, grace)
            self._killed_agent(http, grace)
            self._resumed(http, ada)
            self._mail(stage, http)
            self._reckoning(http)
        self._end(stage)

    def _two_sessions(self, stage: Stage, http: Http) -> None:
        self.claims.act("Two sessions at work at the same time")
        project = http.create_project(str(stage.work)).project_id
        for name in _LINES:
            made = http.create_session(agent=team.AGENT, name=name, workdir=str(stage.work), project_id=project)
            self._roles.append(Role(name, stage.url, made.session_id, self._show_streams))
        for role in self._roles:
            role.send(http, f"say {_LINES[role.name]}", _LINES[role.name])
        for role in self._roles:
            role.wait_idle()
            self.claims.tell(f"{role.name}, {role.session_id}: {role.said()}")

    def _permission(self, http: Http, role: Role) -> None:
        self.claims.act("A command that needs a permission")
        role.send(http, "run echo hello")
        asked = wait_for(lambda: _open_question(role), "the agent's question", WAIT_S)
        self.claims.tell(f"{role.name}'s agent asks: {asked.command or asked.title}")
        http.answer_approval(role.session_id, asked.id, "accepted")
        role.wait_idle()
        ran = role.newest(Command)
        printed = ran.output.strip() if ran is not None else "no command"
        self.claims.check(f"allowed, it ran and printed: {printed}", "hello" in printed, "expected hello")

    def _delegated(self, http: Http, lead: Role) -> None:
        self.claims.act(f"{lead.name} delegates to two reviewers and ends the turn")
        team.delegate(lead, http)
        self.claims.tell(f"{lead.name} says: {team.PARTING}")

    def _killed_state(self, stage: Stage, http: Http, role: Role) -> None:
        self.claims.act(f"SIGKILL to the worker that stores everything, while {role.name} streams")
        before, pieces = http.state().server_instance_id, role.pieces
        role.send(http, _PAUSE.join(f"say {word} " for word in _STREAM.split()), _STREAM)
        wait_for(lambda: role.pieces > pieces, f"text of {role.name}", WAIT_S)
        reviewers = team.at_work(self._roles[0], http)
        killed, at = stage.kill("state"), time.monotonic()
        line = "This was sent while nobody was there to store it."
        role.send(http, f"say {line}", line)
        self.claims.figures["restartMs"] = took_ms = round((time.monotonic() - at) * 1e3)
        self.claims.tell(f"{as_count(reviewers, 'reviewer', 'reviewers')} at work; killed process {killed}")
        self.claims.tell(f"{took_ms} ms later its successor had stored the next prompt")
        after = http.state().server_instance_id
        self.claims.check("another process answers now", after not in ("", before), f"before {before}, now {after}")
        role.wait_idle()
        self.claims.tell(f"{role.name} went on: {_end_of(role)}")

    def _killed_agent(self, http: Http, role: Role) -> None:
        self.claims.act("SIGKILL to an agent in the middle of a turn")
        before = http.read_session(role.session_id, 1).session.external_session_id
        pieces, line = role.pieces, "This turn will be cut off."
        role.send(http, f"say {line}\nwait 30", line)
        wait_for(lambda: role.pieces > pieces, f"text of {role.name}", WAIT_S)
        killed = _agent_pids(http, role.session_id)
        for pid in killed:
            os.kill(pid, KILL)
        wait_for(lambda: role.status == "error", f"{role.name} to say that the agent is gone", WAIT_S)
        self.claims.tell(f"killed {as_count(len(killed), 'process', 'processes')}; {role.name} says: {_end_of(role)}")
        line = "The conversation goes on."
        role.send(http, f"say {line}", line)
        role.wait_idle()
        after = http.read_session(role.session_id, 1).session.external_session_id
        self.claims.check(
            "the next prompt resumed the agent's own conversation", before == after, f"{before}, then {after}"
        )

    def _resumed(self, http: Http, lead: Role) -> None:
        self.claims.act(f"The reviewers have handed in their results, and {lead.name} goes on")
        team.resumed(lead, http, self.claims)

    def _mail(self, stage: Stage, http: Http) -> None:
        ada, grace = self._roles
        self.claims.act("A board and mail, and SIGKILL to the worker that stores both")
        team.write(ada, grace, stage, http, self.claims)
        team.read(ada, grace, http, self.claims)

    def _reckoning(self, http: Http) -> None:
        self.claims.act("Was anything lost?")
        stored = [(role, _whole_transcript(http, role.session_id)) for role in self._roles]
        lost = [fault for role, messages in stored for fault in role.compare(messages)]
        self.claims.figures["messages"] = count = sum(len(messages) for _, messages in stored)
        self.claims.figures["lost"] = len(lost)
        self.claims.check(
            f"the {count} stored messages are what was sent, said and streamed", not lost, "; ".join(lost)
        )

    def _end(self, stage: Stage) -> None:
        self.claims.act("The end")
        ended, took_ms = stage.stop()
        for role in self._roles:
            role.close()
        self.claims.figures["stopMs"] = round(took_ms)
        self.claims.check(f"asked to stop, the daemon ended within {took_ms:.0f} ms", ended.code == 0, str(ended))
        left = stage.leftovers()
        self.claims.check("no process of it is left", not left, "; ".join(left))

    def _show_streams(self) -> None:
        self.claims.moving(" | ".join(f"{role.name}: {role.said()[-30:]}" for role in list(self._roles)))


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
