"""The whole daemon as a client holds it: snapshots and deltas in, sessions, delegations, waits and what Codex tells of
the account out. No I/O."""

from typing import Any

from msgspec import structs

from termal.client.replies import Delta, State
from termal.client.stream import Event
from termal.client.transcript import Gap
from termal.model.session import Session

Json = dict[str, Any]

_ENDS = {"delegationCompleted": "completed", "delegationFailed": "failed", "delegationCanceled": "canceled"}


class Mirror:
    """Summaries alone, as of ``revision`` of the life ``instance`` of the daemon; empty before the first snapshot."""

    def __init__(self) -> None:
        self.revision = -1
        self.instance = ""
        self.sessions: dict[str, Session] = {}
        self.projects: dict[str, Json] = {}
        self.delegations: dict[str, Json] = {}
        self.waits: dict[str, Json] = {}
        self.codex: Json = {}
        self._adopted = -1
        self._lives: set[str] = set()
        self._behind = False

    def take(self, event: Event) -> State | Delta | None:
        """Take one event of the stream over; None for what changes nothing here.

        Raises `Gap` when something before it is missing: `adopt` a fresh state then, and go on with the next event.
        """
        if event.name == "lagged":
            self._behind = True
            return None
        if event.name == "state":
            state = event.state()
            if state.sse_fallback:
                raise Gap
            return state if self.adopt(state) else None
        if event.name != "delta":
            return None
        delta = event.delta()
        if delta.revision <= self._adopted or delta.revision < self.revision:
            return None
        if delta.revision > self.revision + 1:
            raise Gap
        self.revision = delta.revision
        self._apply(delta)
        return delta

    def adopt(self, state: State) -> bool:
        """Take a snapshot over. False: it is older than what is here, and of a life of the daemon that is known."""
        older = state.revision < self.revision
        known = not state.server_instance_id or state.server_instance_id in self._lives
        if (older and known) or (state.revision == self.revision and known and not self._behind):
            return False
        self.revision = self._adopted = state.revision
        self.instance = state.server_instance_id
        self._lives.add(state.server_instance_id)
        self._behind = False
        self.sessions = {session.id: session for session in state.sessions}
        self.projects = {str(project.get("id")): project for project in state.projects}
        self.delegations = {str(row.get("id")): row for row in state.delegations}
        self.waits = {str(row.get("id")): row for row in state.delegation_waits}
        self.codex = state.codex
        return True

    def _apply(self, delta: Delta) -> None:
        if delta.session is not None:
            self.sessions[delta.session.id] = delta.session
        elif delta.session_id is not None:
            self._touch(delta.session_id, delta)
        if delta.delegation is not None:
            self.delegations[str(delta.delegation.get("id"))] = delta.delegation
        elif delta.delegation_id is not None:
            self._move(delta.delegation_id, delta)
        if delta.wait is not None:
            self.waits[str(delta.wait.get("id"))] = delta.wait
        elif delta.wait_id is not None:
            self.waits.pop(delta.wait_id, None)
        if delta.codex is not None:
            self.codex = delta.codex

    def _touch(self, session_id: str, delta: Delta) -> None:
        session = self.sessions.get(session_id)
        if session is None:
            return
        changes: Json = {}
        if delta.preview is not None:
            changes["preview"] = delta.preview
        if delta.message_count is not None:
            changes["message_count"] = delta.message_count
        status = delta.session_status()
        if status is not None:
            changes["status"] = status
        if changes:
            self.sessions[session_id] = structs.replace(session, **changes)

    def _move(self, delegation_id: str, delta: Delta) -> None:
        row = self.delegations.get(delegation_id)
        if row is None:
            return
        status = _ENDS.get(delta.type, delta.status)
        changes = {} if status is None else {"status": status}
        self.delegations[delegation_id] = {**row, **changes, **({"result": delta.result} if delta.result else {})}
