"""What a runtime worker tells `state` of a turn: numbered events, each kept by the runtime until state committed it."""

from typing import Literal

import msgspec

from termal.rules.file_changes import FileKind

TurnOutcome = Literal["completed", "interrupted", "failed", "lost"]


class TurnEvent(msgspec.Struct, frozen=True, tag=True, array_like=False):
    """Base of the events; the class name is the tag. ``item`` names what the event belongs to, unique in its turn."""


class ExternalSession(TurnEvent, frozen=True):
    """The agent's own conversation id became known or changed."""

    external_session_id: str


class TextDelta(TurnEvent, frozen=True):
    """A piece of assistant text; the first one of an item opens its message."""

    item: str
    text: str


class TextDone(TurnEvent, frozen=True):
    """The authoritative text of an item; it replaces what the deltas built where it differs."""

    item: str
    text: str


class ThinkingDelta(TurnEvent, frozen=True):
    item: str
    text: str
    title: str = ""


class ToolStarted(TurnEvent, frozen=True):
    """A command or another tool call began; the same item twice is an update. ``command`` is what a person reads."""

    item: str
    kind: Literal["execute", "edit", "other"]
    command: str


class ToolOutput(TurnEvent, frozen=True):
    """Output so far: appended, or in place of all earlier output."""

    item: str
    output: str
    append: bool


class ToolEnded(TurnEvent, frozen=True):
    """``output`` None keeps what was streamed."""

    item: str
    status: Literal["success", "error"]
    output: str | None = None


class FileChanged(TurnEvent, frozen=True):
    """A diff to show. ``diff`` is unified text; a change without diff text is dropped by the receiver."""

    item: str
    path: str
    summary: str
    diff: str
    change: Literal["edit", "create"]


class PermissionOption(msgspec.Struct, frozen=True):
    """One answer that the agent offers: its own id, the decision that it stands for, its label."""

    id: str
    decision: Literal["accepted", "acceptedForSession", "rejected"]
    name: str


class ApprovalAsked(TurnEvent, frozen=True):
    """The agent waits for a person. ``request`` is the adapter's id, never the agent's own.

    ``own_tool``: it is proven to be about a tool of the session's bridge, which writes into no directory.
    ``by_mode``: the answer that the session's mode gives by itself once nothing is locked, empty when it gives none.
    """

    request: str
    title: str
    command: str
    detail: str
    options: list[PermissionOption]
    own_tool: bool = False
    by_mode: str = ""


class ApprovalWithdrawn(TurnEvent, frozen=True):
    request: str


class AskedOption(msgspec.Struct, frozen=True):
    label: str
    description: str = ""


class AskedQuestion(msgspec.Struct, frozen=True):
    """``is_other``: any text is an answer, not only an option's label. ``is_secret``: the answer is never stored."""

    id: str
    header: str
    question: str
    is_other: bool
    is_secret: bool
    options: list[AskedOption] = []


class QuestionAsked(TurnEvent, frozen=True):
    """The agent wants answers of a person. ``request`` is the adapter's id, here and in the next three."""

    request: str
    title: str
    detail: str
    questions: list[AskedQuestion]


class ElicitationAsked(TurnEvent, frozen=True):
    """An MCP server asks through the agent. ``asked_json``: the JSON object of the request as a transcript shows it
    (``mode``, ``message``, ``serverName``, ``threadId``, ``requestedSchema`` or ``url``, ...). ``own_tool``,
    ``by_mode``: see `ApprovalAsked`."""

    request: str
    title: str
    detail: str
    asked_json: bytes
    own_tool: bool = False
    by_mode: str = ""


class AppRequestAsked(TurnEvent, frozen=True):
    """A request of the agent's own protocol that a client answers with any JSON. ``params_json`` is JSON."""

    request: str
    title: str
    detail: str
    method: str
    params_json: bytes


class InteractionWithdrawn(TurnEvent, frozen=True):
    """The agent does not wait for an answer to this request any more, of whatever kind it is."""

    request: str


class Notice(TurnEvent, frozen=True):
    """Shown as assistant text; never changes the status. Equal to the last assistant text it is dropped."""

    text: str


class ModelDetail(msgspec.Struct, frozen=True):
    """What a model takes besides a prompt; ``tiers`` are triples of id, label and description."""

    default_effort: str | None = None
    efforts: list[str] = []
    tiers: list[tuple[str, str, str]] = []


class ModelsKnown(TurnEvent, frozen=True):
    """The agent's model list: pairs of value and label, with an optional description; ``details`` by value."""

    options: list[tuple[str, str, str | None]]
    current: str | None = None
    details: dict[str, ModelDetail] = {}


class ModesKnown(TurnEvent, frozen=True):
    """The modes and efforts that an agent offers for the session (triples of value, label and description), and which
    ones it works by now: None where it offers none."""

    modes: list[tuple[str, str, str | None]] = []
    current_mode: str | None = None
    efforts: list[tuple[str, str, str | None]] = []
    current_effort: str | None = None


class CommandsKnown(TurnEvent, frozen=True):
    """Commands that the agent knows by itself: triples of name, description and argument hint. None is no news."""

    commands: list[tuple[str, str, str]]


class Usage(TurnEvent, frozen=True):
    """Tokens (and cost in US dollars where the agent reports it) of this turn."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None


class TouchedFile(msgspec.Struct, frozen=True, array_like=True):
    """``path`` is relative to the directory of the session."""

    path: str
    kind: FileKind


class TurnEnded(TurnEvent, frozen=True):
    """The last event of every turn, exactly once, whatever happens. ``detail`` is a sentence, empty when completed.

    ``files``: what changed meanwhile below the directory of the session; ``more_files``: there were others besides.
    """

    outcome: TurnOutcome
    detail: str = ""
    files: list[TouchedFile] = []
    more_files: bool = False


AnyTurnEvent = (
    ExternalSession
    | TextDelta
    | TextDone
    | ThinkingDelta
    | ToolStarted
    | ToolOutput
    | ToolEnded
    | FileChanged
    | ApprovalAsked
    | ApprovalWithdrawn
    | QuestionAsked
    | ElicitationAsked
    | AppRequestAsked
    | InteractionWithdrawn
    | Notice
    | ModelsKnown
    | ModesKnown
    | CommandsKnown
    | Usage
    | TurnEnded
)


class TurnReport(msgspec.Struct, frozen=True):
    """Events of one turn: ``first`` is the number of ``events[0]``; numbers start at 1 and are dense."""

    runtime: str
    session_id: str
    turn_id: str
    first: int
    events: list[AnyTurnEvent]


class TurnConfirmed(msgspec.Struct, frozen=True):
    """``through``: every event up to this number is committed. ``known`` False: nobody waits for this turn; drop it."""

    turn_id: str
    through: int
    known: bool = True


class McpServer(msgspec.Struct, frozen=True):
    """An MCP server over stdio that an agent starts for one session. ``env`` may hold a token: never logged."""

    name: str
    command: str
    args: list[str] = []
    env: dict[str, str] = {}


class SessionSpec(msgspec.Struct, frozen=True):
    """What a runtime worker needs to have a conversation going for a session.

    ``modes`` holds the session's settings under their wire names (``claudeApprovalMode``, ``geminiApprovalMode``, ...).
    ``external_session_id`` is the agent's conversation to resume, or None for a new one. ``delegated``: nobody watches;
    what its settings do not allow is refused, never asked. ``submits_review``: a required review of it is running.
    ``ends_with_turn``: its agent, with all that it started, is ended before the turn is said to have ended.
    """

    session_id: str
    agent: str
    workdir: str
    model: str
    external_session_id: str | None = None
    read_only: bool = False
    modes: dict[str, str] = {}
    mcp_servers: list[McpServer] = []
    delegated: bool = False
    submits_review: bool = False
    ends_with_turn: bool = False


class HeldTurn(msgspec.Struct, frozen=True):
    """A turn that a runtime worker holds: it is running, or its last events are not confirmed yet."""

    session_id: str
    turn_id: str
    last_event: int


class Held(msgspec.Struct, frozen=True):
    runtime: str
    turns: list[HeldTurn]


class AgentTree(msgspec.Struct, frozen=True):
    """One agent process that a runtime worker started: the pid of its shim, and the sessions that it serves."""

    agent: str
    pid: int
    session_ids: list[str]


class Anything(msgspec.Struct, frozen=True):
    """An empty reply or request."""


class JsonReply(msgspec.Struct, frozen=True):
    """Final JSON bytes made by the worker; the gateway passes them through unread."""

    json: bytes
