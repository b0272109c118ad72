"""What the daemon's routes answer, as far as this client reads it. Unknown keys are skipped: an old client goes on."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from termal.model.message import Message, Record
from termal.model.session import Session, SessionStatus
from termal.model.status import DaemonState, ProcessState
from termal.procs.agents import Readiness

_WITH_SESSION_STATUS = ("messageAdded", "messageUpdated", "messagesCompacted")


def _session_status(word: str) -> SessionStatus:
    status: SessionStatus = msgspec.convert(word, SessionStatus)
    return status


class Health(Record, frozen=True):
    """``GET /api/health``. ``ok`` is false while sessions or mail cannot be served at all. ``reason``: a sentence, for
    every state but ``ok``."""

    ok: bool
    state: DaemonState
    version: str
    server_instance_id: str = ""
    workers: dict[str, ProcessState] = {}
    reason: str | None = None


class State(Record, frozen=True):
    """``GET /api/state``: the whole daemon without transcripts. ``sessions`` are summaries.

    ``sse_fallback``: a stream could not get more than the revision; ask for the rest.
    """

    revision: int
    server_instance_id: str
    sse_fallback: bool = msgspec.field(default=False, name="_sseFallback")
    sessions: list[Session] = []
    agent_readiness: list[Readiness] = []
    projects: list[dict[str, Any]] = []
    codex: dict[str, Any] = {}
    delegations: list[dict[str, Any]] = []
    delegation_waits: list[dict[str, Any]] = []


class AgentRows(Record, frozen=True):
    """Every agent that the daemon knows, and whether it can be used."""

    agents: list[Readiness]


class ProjectMade(Record, frozen=True):
    """``state`` is that after it; the project may have been there before."""

    project_id: str
    state: State


class Changed(Record, frozen=True):
    """The reply of every action on a session: the state, in which that session alone has its newest messages."""

    revision: int
    server_instance_id: str
    sessions: list[Session] = []
    message_disposition: str | UnsetType = UNSET

    def session(self, session_id: str) -> Session:
        """Raises KeyError when the session is not in the reply."""
        for session in self.sessions:
            if session.id == session_id:
                return session
        raise KeyError(session_id)


class History(Record, frozen=True):
    """A page of a transcript, ascending; ``message_start_index`` is the position of its first message."""

    messages: list[Message]
    has_more: bool
    has_newer: bool
    message_start_index: int
    message_count: int
    revision: int
    server_instance_id: str
    next_before: str | UnsetType = UNSET
    next_after: str | UnsetType = UNSET


class Delta(Record, frozen=True):
    """One ``delta`` event. Which fields are set depends on ``type``; sizes of text are UTF-8 bytes."""

    type: str
    revision: int
    session_id: str | None = None
    message_id: str | None = None
    message_index: int | None = None
    message_count: int | None = None
    message: Message | None = None
    session: Session | None = None
    status: str | None = None
    preview: str | None = None
    delta: str | None = None
    text: str | None = None
    text_start_byte: int | None = None
    command: str | None = None
    output: str | None = None
    delegation: dict[str, Any] | None = None
    delegation_id: str | None = None
    result: dict[str, Any] | None = None
    wait: dict[str, Any] | None = None
    wait_id: str | None = None
    codex: dict[str, Any] | None = None

    def session_status(self) -> SessionStatus | None:
        """The status of the session after this event, None when the event does not say (a command has its own)."""
        if self.session is not None:
            return self.session.status
        if self.type in _WITH_SESSION_STATUS and self.status is not None:
            return _session_status(self.status)
        return None
