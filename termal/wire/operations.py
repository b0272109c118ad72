"""The operation table: every request that crosses a process border, its types, and whether it is safe to repeat.

``repeatable`` operations are sent again to a restarted worker within their deadline (reads; writes that carry a key
or compare-and-swap). All others end as *outcome unknown* when the worker dies after the request was sent.
"""

from typing import Generic, Literal, TypeVar

import msgspec

from termal.wire.facts import CoordinationFacts, OperationCount, StateFacts, WorkerFacts
from termal.wire.turns import (
    AgentTree,
    Anything,
    Held,
    JsonReply,
    SessionSpec,
    TurnConfirmed,
    TurnReport,
)

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

READ_S = 2.0
WRITE_S = 5.0


class Operation(Generic[RequestT, ReplyT]):
    """One row of the table. ``timeout_s`` is the deadline from now that a caller sets, None for no deadline."""

    __slots__ = ("kind", "name", "repeatable", "reply", "request", "timeout_s")

    def __init__(
        self,
        name: str,
        request: type[RequestT],
        reply: type[ReplyT],
        *,
        kind: Literal["read", "write"],
        repeatable: bool,
        timeout_s: float | None,
    ) -> None:
        self.name = name
        self.request = request
        self.reply = reply
        self.kind = kind
        self.repeatable = repeatable
        self.timeout_s = timeout_s


OPERATIONS: dict[str, Operation[object, object]] = {}


def _read(name: str, request: type[RequestT], reply: type[ReplyT]) -> Operation[RequestT, ReplyT]:
    return _row(Operation(name, request, reply, kind="read", repeatable=True, timeout_s=READ_S))


def _write(
    name: str,
    request: type[RequestT],
    reply: type[ReplyT],
    *,
    repeatable: bool,
    timeout_s: float | None = WRITE_S,
) -> Operation[RequestT, ReplyT]:
    return _row(Operation(name, request, reply, kind="write", repeatable=repeatable, timeout_s=timeout_s))


def _row(operation: Operation[RequestT, ReplyT]) -> Operation[RequestT, ReplyT]:
    OPERATIONS[operation.name] = operation  # type: ignore[assignment]
    return operation


# ----------------------------------------------------------------------- state


class Snapshot(msgspec.Struct, frozen=True):
    """The body of ``GET /api/state`` with the place in the event stream that it stands at."""

    json: bytes
    epoch: str
    number: int
    revision: int


class CreateSession(msgspec.Struct, frozen=True, kw_only=True):
    """``key`` makes a repeat answer with the session that the first attempt made. ``settings`` are wire names."""

    key: str
    agent: str = "Codex"
    name: str | None = None
    workdir: str | None = None
    project_id: str | None = None
    model: str | None = None
    settings: dict[str, str] = {}


class ReadSession(msgspec.Struct, frozen=True):
    session_id: str
    tail: int = 20


class ReadHistory(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    before: str | None = None
    after: str | None = None
    around: int | None = None
    from_start: bool = False
    limit: int = 64


class PromptImage(msgspec.Struct, frozen=True):
    """An image of a prompt: raw bytes, already decoded from base64 by the gateway."""

    data: bytes
    media_type: str
    file_name: str | None = None


class SendPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """``key`` makes a repeat find the first attempt in the session's newest prompts."""

    key: str
    session_id: str
    text: str
    expanded_text: str | None = None
    attachments: list[PromptImage] = []
    source_session_id: str | None = None


class CancelPrompt(msgspec.Struct, frozen=True):
    session_id: str
    prompt_id: str


class OneSession(msgspec.Struct, frozen=True):
    session_id: str


class AnswerApproval(msgspec.Struct, frozen=True):
    session_id: str
    message_id: str
    decision: str


class CoordinationReady(msgspec.Struct, frozen=True):
    """Coordination tells each new state the highest ``session-{n}`` that its database knows, 0 for none."""

    highest_session: int


class AskEligibility(msgspec.Struct, frozen=True):
    session_ids: list[str]


class Eligibility(msgspec.Struct, frozen=True):
    """One session as mail sees it: its root predicate now, from live records. ``verdict`` is "" for an eligible root,
    else the exact rule's word (``unknown``, ``hidden``, ``remote``, ``delegated``)."""

    session_id: str
    verdict: str
    name: str = ""
    project_id: str | None = None
    project_kind: str | None = None


class Eligibilities(msgspec.Struct, frozen=True):
    sessions: list[Eligibility]


STATE_FACTS = _read("state.facts", Anything, StateFacts)
STATE_SNAPSHOT = _read("state.snapshot", Anything, Snapshot)
SESSION_CREATE = _write("session.create", CreateSession, JsonReply, repeatable=True)
SESSION_READ = _read("session.read", ReadSession, JsonReply)
SESSION_HISTORY = _read("session.history", ReadHistory, JsonReply)
SESSION_STOP = _write("session.stop", OneSession, JsonReply, repeatable=False, timeout_s=15.0)
SESSION_KILL = _write("session.kill", OneSession, JsonReply, repeatable=False)
PROMPT_SEND = _write("prompt.send", SendPrompt, JsonReply, repeatable=True)
PROMPT_CANCEL = _write("prompt.cancel", CancelPrompt, JsonReply, repeatable=False)
APPROVAL_ANSWER = _write("approval.answer", AnswerApproval, JsonReply, repeatable=False)
SESSION_ELIGIBILITY = _read("session.eligibility", AskEligibility, Eligibilities)
COORDINATION_READY = _write("coordination.ready", CoordinationReady, Anything, repeatable=True, timeout_s=None)
TURN_REPORT = _write("turn.report", TurnReport, TurnConfirmed, repeatable=True, timeout_s=None)

# -------------------------------------------------------------------- runtimes


class StartTurn(msgspec.Struct, frozen=True):
    """Take this turn. A repeat with the same turn id is answered the same and starts nothing again."""

    spec: SessionSpec
    turn_id: str
    prompt: str
    images: list[PromptImage] = []


class TurnTaken(msgspec.Struct, frozen=True):
    """The worker holds the turn and will report its end exactly once. ``runtime`` names this life of the worker."""

    runtime: str


class StopTurn(msgspec.Struct, frozen=True):
    session_id: str
    turn_id: str


class CloseSessions(msgspec.Struct, frozen=True):
    session_ids: list[str]


class AnswerInteraction(msgspec.Struct, frozen=True):
    session_id: str
    turn_id: str
    request: str
    option: str


class AgentTrees(msgspec.Struct, frozen=True):
    agents: list[AgentTree]
    operations: list[OperationCount] = []


TURN_START = _write("turn.start", StartTurn, TurnTaken, repeatable=False, timeout_s=WRITE_S)
TURN_STOP = _write("turn.stop", StopTurn, Anything, repeatable=True, timeout_s=14.0)
"""Answered when the agent has ended the turn, or its process was ended; the `TurnEnded` event comes on its own way."""
TURN_HELD = _write("turn.held", Anything, Held, repeatable=True, timeout_s=None)
SESSIONS_CLOSE = _write("sessions.close", CloseSessions, Anything, repeatable=True, timeout_s=10.0)
"""Ends the agent processes of sessions that were killed; a running turn of theirs is dropped and reports nothing."""
INTERACTION_ANSWER = _write("interaction.answer", AnswerInteraction, Anything, repeatable=False)
AGENT_TREES = _read("agent.trees", Anything, AgentTrees)

# ---------------------------------------------------------------- coordination

COORDINATION_PING = _read("coordination.ping", Anything, Anything)
COORDINATION_FACTS = _read("coordination.facts", Anything, CoordinationFacts)

# ------------------------------------------------------------------------ wake

WAKE_PING = _read("wake.ping", Anything, Anything)
WAKE_FACTS = _read("wake.facts", Anything, WorkerFacts)
