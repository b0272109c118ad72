"""The operation table: every request that crosses a process border, its types, and whether it is safe to repeat.

``repeatable`` operations are sent again to a restarted worker within their deadline (reads; writes that carry a key
or compare-and-swap). All others end as *outcome unknown* when the worker dies after the request was sent.
"""

from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from termal.model.stored import Remote
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

# ----------------------------------------------------------- overview, markers


class ReadOverview(msgspec.Struct, frozen=True):
    session_id: str
    buckets: int = 200


class CreateMarker(msgspec.Struct, frozen=True, kw_only=True):
    """``marker_id`` is new; a repeat is answered with the marker that the first attempt made."""

    session_id: str
    marker_id: str
    kind: str
    name: str
    color: str
    message_id: str
    body: str | None = None
    end_message_id: str | None = None


class UpdateMarker(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out stays as it is; ``None`` clears."""

    session_id: str
    marker_id: str
    kind: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    color: str | UnsetType = UNSET
    message_id: str | UnsetType = UNSET
    body: str | UnsetType | None = UNSET
    end_message_id: str | UnsetType | None = UNSET


class OneMarker(msgspec.Struct, frozen=True):
    session_id: str
    marker_id: str


SESSION_OVERVIEW = _read("session.overview", ReadOverview, JsonReply)
MARKER_LIST = _read("marker.list", OneSession, JsonReply)
MARKER_CREATE = _write("marker.create", CreateMarker, JsonReply, repeatable=True)
MARKER_UPDATE = _write("marker.update", UpdateMarker, JsonReply, repeatable=True)
MARKER_DELETE = _write("marker.delete", OneMarker, JsonReply, repeatable=False)

# ---------------------------------------------------------------- interactions


class AnswerQuestions(msgspec.Struct, frozen=True):
    """``answers`` by question id. They may be secrets: never logged."""

    session_id: str
    message_id: str
    answers: dict[str, list[str]]


class AnswerElicitation(msgspec.Struct, frozen=True):
    """``content`` is JSON, None when there is none."""

    session_id: str
    message_id: str
    action: Literal["accept", "decline", "cancel"]
    content: bytes | None = None


class AnswerAppRequest(msgspec.Struct, frozen=True):
    """``result`` is JSON without spaces."""

    session_id: str
    message_id: str
    result: bytes


QUESTIONS_ANSWER = _write("questions.answer", AnswerQuestions, JsonReply, repeatable=False)
ELICITATION_ANSWER = _write("elicitation.answer", AnswerElicitation, JsonReply, repeatable=False)
APP_REQUEST_ANSWER = _write("apprequest.answer", AnswerAppRequest, JsonReply, repeatable=False)

# --------------------------------------------------------------- mailbox wakes


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that tells a session of mail: ``sequence`` is the newest message that it covers, ``text`` what the agent
    reads. Who wrote that message is ``sender_id`` and ``sender_name``."""

    mailbox_id: str
    message_id: str
    sequence: int
    unread_count: int
    sender_id: str
    sender_name: str
    text: str


class OfferWake(msgspec.Struct, frozen=True):
    session_id: str
    wake: Wake


class WakeOffered(msgspec.Struct, frozen=True):
    """What became of an offer, durably. ``reason`` says why nothing could be woken."""

    outcome: Literal["deliveredToIdleSession", "queuedBehindActiveTurn", "durableButNotWoken"]
    reason: str = ""


class RetractWakes(msgspec.Struct, frozen=True):
    """Queued wakes of ``mailbox_id`` up to the sequence ``through`` are acknowledged."""

    session_id: str
    mailbox_id: str
    through: int


class MaterializeWakes(msgspec.Struct, frozen=True):
    """Put each wake to the front of the queue, or in place of an older one of its mailbox; nothing starts."""

    session_id: str
    wakes: list[Wake]


class Materialized(msgspec.Struct, frozen=True):
    """``known``: the session is there, and the wakes are in its queue."""

    known: bool


QUEUE_OFFER = _write("queue.offer", OfferWake, WakeOffered, repeatable=True)
"""A repeat is known by mailbox and sequence and answered like the first attempt."""
QUEUE_RETRACT = _write("queue.retract", RetractWakes, Anything, repeatable=True)
QUEUE_MATERIALIZE = _write("queue.materialize", MaterializeWakes, Materialized, repeatable=True)

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
    """``option``: the id of an approval's option; an elicitation's ``accept``, ``decline`` or ``cancel``; else empty.

    ``payload`` is the JSON of what a person gave beyond a choice: answers by question id (a list of one text each), an
    elicitation's content, an app request's result; None for an approval. It may hold secrets: never logged.
    """

    session_id: str
    turn_id: str
    request: str
    option: str
    payload: bytes | None = None


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

# ------------- settings, preferences, projects, model lists, commands of agents

MODELS_S = 30.0
"""For an agent to say which models it has; it may have to be started for that."""


class ChangeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``settings`` are wire names with text, or a flag for ``codexFastMode``. All of it is taken, or nothing."""

    session_id: str
    name: str | None = None
    model: str | None = None
    settings: dict[str, str | bool] = {}


class ChangePreferences(msgspec.Struct, frozen=True, kw_only=True):
    """``values`` are wire names; ``remotes`` takes the place of the whole list."""

    values: dict[str, str] = {}
    remotes: list[Remote] | None = None


class CreateProject(msgspec.Struct, frozen=True, kw_only=True):
    """The same root on the same remote again is the same project."""

    root_path: str
    name: str | None = None
    remote_id: str = "local"


class OneProject(msgspec.Struct, frozen=True):
    project_id: str


class ResolveCommand(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    name: str
    arguments: str | None = None
    note: str | None = None
    cwd: str | None = None
    intent: Literal["send", "delegate"] = "send"


class ListModels(msgspec.Struct, frozen=True):
    spec: SessionSpec


class ModelList(msgspec.Struct, frozen=True):
    """Triples of value, label and description, as the agent last said; empty for an agent without a list."""

    options: list[tuple[str, str, str | None]]


class DeleteScope(msgspec.Struct, frozen=True):
    """Everything that coordination keeps for a deleted project goes, and nothing of it can be written again."""

    scope_id: str


SETTINGS_CHANGE = _write("settings.change", ChangeSettings, JsonReply, repeatable=True)
PREFERENCES_CHANGE = _write("preferences.change", ChangePreferences, JsonReply, repeatable=True)
PROJECT_CREATE = _write("project.create", CreateProject, JsonReply, repeatable=True)
PROJECT_DELETE = _write("project.delete", OneProject, JsonReply, repeatable=False)
MODELS_REFRESH = _write("models.refresh", OneSession, JsonReply, repeatable=True, timeout_s=MODELS_S + WRITE_S)
MODELS_LIST = _write("models.list", ListModels, ModelList, repeatable=True, timeout_s=MODELS_S)
COMMANDS_LIST = _read("commands.list", OneSession, JsonReply)
COMMAND_RESOLVE = _read("command.resolve", ResolveCommand, JsonReply)
SCOPE_DELETE = _write("scope.delete", DeleteScope, Anything, repeatable=True, timeout_s=None)
"""Sent by state until it is confirmed; answered when nothing of the scope is left."""

# -------------------------------------------------------- search, export, import


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """``query`` is what a person typed; ``cursor`` the ``nextCursor`` of the page before."""

    query: str
    session_id: str | None = None
    limit: int = 20
    cursor: str | None = None


class ReadExport(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a transcript as lines. The first one has no ``count``; the following ones repeat the first's count and
    name the last message that was read: a transcript that was replaced meanwhile is found out."""

    session_id: str
    position: int = 0
    count: int | None = None
    after: str | None = None


class ExportPage(msgspec.Struct, frozen=True):
    """``lines`` are whole lines of JSON up to the position ``next``; ``header`` is empty after the first page."""

    header: bytes
    count: int
    lines: bytes
    next: int
    last: str | None


class BeginImport(msgspec.Struct, frozen=True):
    """``session`` is the JSON of a header's session. ``key`` makes a repeat find what the first attempt made."""

    key: str
    session: bytes


class ImportBegun(msgspec.Struct, frozen=True):
    """``created`` is the final reply where an earlier attempt with this key has come to its end."""

    import_id: str
    created: bytes | None = None


class ImportMessages(msgspec.Struct, frozen=True):
    """``first`` is the position of the first line: a slice that came before is known."""

    import_id: str
    first: int
    lines: list[bytes]


class FinishImport(msgspec.Struct, frozen=True):
    import_id: str
    key: str
    count: int


class AbortImport(msgspec.Struct, frozen=True):
    import_id: str


SEARCH = _read("search.find", Search, JsonReply)
EXPORT_READ = _read("export.page", ReadExport, ExportPage)
IMPORT_BEGIN = _write("import.begin", BeginImport, ImportBegun, repeatable=True)
IMPORT_MESSAGES = _write("import.messages", ImportMessages, Anything, repeatable=True)
IMPORT_FINISH = _write("import.finish", FinishImport, JsonReply, repeatable=True)
IMPORT_ABORT = _write("import.abort", AbortImport, Anything, repeatable=True)
