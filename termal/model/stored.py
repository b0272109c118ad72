"""What `termal.sqlite` holds as JSON: the global metadata, the wrapper around a session, its queue, its running turn.

Unknown keys are ignored when they are read. Keys that are left out when empty have ``UNSET``.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from termal.model.message import Attachment, Record
from termal.model.session import ApprovalPolicy, PendingPrompt, ReasoningEffort, SandboxMode, Session

LOCAL_REMOTE = "local"
"""The id of this daemon in ``remotes``: always there, always first."""
QueueSource = Literal["user", "mailbox", "orchestrator"]
PROMPT_KEYS = 16
"""Idempotency keys of prompts that a session remembers, the newest ones."""
WAKE_KEYS = 32
"""Mailboxes whose last wake a session remembers, the newest ones. A wake that waits is also its own memory."""
TURN_ITEMS = 128
"""Items of a running turn whose messages can be found again after a restart of the worker, the newest ones."""


class Project(Record, frozen=True):
    id: str
    name: str
    root_path: str
    remote_id: str = LOCAL_REMOTE
    remote_project_id: str | UnsetType = UNSET


class Remote(Record, frozen=True):
    id: str
    name: str
    transport: Literal["local", "ssh"] = "local"
    enabled: bool = True
    host: str | UnsetType = UNSET
    port: int | UnsetType = UNSET
    user: str | UnsetType = UNSET


THIS_DAEMON = Remote(id=LOCAL_REMOTE, name="Local")


class Preferences(Record, frozen=True):
    """Defaults of new sessions; a key that nobody set is left out."""

    remotes: list[Remote]
    default_codex_model: str | UnsetType = UNSET
    default_claude_model: str | UnsetType = UNSET
    default_cursor_model: str | UnsetType = UNSET
    default_gemini_model: str | UnsetType = UNSET
    default_open_code_model: str | UnsetType = UNSET
    default_codex_sandbox_mode: str | UnsetType = UNSET
    default_codex_approval_policy: str | UnsetType = UNSET
    default_codex_reasoning_effort: str | UnsetType = UNSET
    default_claude_approval_mode: str | UnsetType = UNSET
    default_claude_effort: str | UnsetType = UNSET
    telegram: Any = UNSET


class Departure(Record, frozen=True):
    """A deleted session that its mailboxes do not know of yet."""

    session_id: str
    left_at: str


class WakeReport(Record, frozen=True):
    """What became of a queued or started wake, not yet told to the mailboxes."""

    session_id: str
    mailbox_id: str
    sequence: int
    fact: Literal["accepted", "recovered", "requeued", "lost"]


class Metadata(Record, frozen=True):
    """The one row of ``app_state``. The four required fields are what no start can do without."""

    next_project_number: int
    next_session_number: int
    next_message_number: int
    projects: list[Project]
    preferences: Preferences
    revision: int = 0
    codex: Any = UNSET
    pending_coordination_scope_deletions: list[str] | UnsetType = UNSET
    ignored_discovered_codex_thread_ids: list[str] | UnsetType = UNSET
    pending_mailbox_departures: list[Departure] | UnsetType = UNSET
    pending_wake_reports: list[WakeReport] | UnsetType = UNSET
    starts: int = 0
    """How often a daemon was started on this store."""
    orchestrator_instances: Any = UNSET
    delegation_waits: list[Any] | UnsetType = UNSET
    workspace_layouts: Any = UNSET
    sessions: list[Any] = []


def fresh_metadata() -> Metadata:
    """The metadata of an empty store: no projects, no sessions, counters at one."""
    return Metadata(
        next_project_number=1,
        next_session_number=1,
        next_message_number=1,
        projects=[],
        preferences=Preferences(remotes=[THIS_DAEMON]),
    )


class StoredImage(msgspec.Struct, frozen=True):
    """An image of a queued prompt; ``data`` is base64 in JSON."""

    data: bytes
    metadata: Attachment


class QueueEntry(msgspec.Struct, frozen=True):
    """A prompt that waits for its turn."""

    source: QueueSource
    pending_prompt: PendingPrompt
    attachments: list[StoredImage] = []


class OldQueueEntry(msgspec.Struct, frozen=True, rename="camel"):
    """The same with the key that some builds wrote in camel case."""

    source: QueueSource
    pending_prompt: PendingPrompt
    attachments: list[StoredImage] = []


class PromptKey(Record, frozen=True):
    """An idempotency key and the prompt that its first attempt made. ``queued``: it did not start at once."""

    key: str
    prompt_id: str
    queued: bool


class WakeKey(Record, frozen=True):
    """The newest wake of one mailbox that a session was offered, and the prompt that it became. ``started``: the newest
    one that became a turn at once. ``lost``: up to here a wake went back into the queue after its worker's death."""

    mailbox_id: str
    sequence: int
    prompt_id: str
    started: int = 0
    lost: int = 0


class StoredOption(Record, frozen=True):
    """One answer that an agent offers to a request of its own."""

    id: str
    decision: Literal["accepted", "acceptedForSession", "rejected"]


class StoredRequest(Record, frozen=True):
    """A request of the running turn that waits for a person, by the message that shows it."""

    request: str
    message_id: str
    options: list[StoredOption]
    own_tool: bool = False
    by_mode: str = ""


class StoredTurn(Record, frozen=True):
    """The turn that a runtime worker holds for a session, as of the commit that it is stored with.

    ``last_event``: every event up to this number is in the transcript. ``ended``: its end is among them, and what
    follows an end (the queue's head) is still to do. ``items``: pairs of item and message id; ``open_texts``: items
    whose next piece is appended to their message. ``wake``: the queue entry that started it, for a mailbox wake alone;
    ``reported``: that it was accepted is in the outbox or was sent.
    """

    turn_id: str
    worker: str
    prompt_id: str
    last_event: int = 0
    ended: bool = False
    items: list[tuple[str, str]] = []
    requests: list[StoredRequest] = []
    open_texts: list[str] = []
    wake: QueueEntry | UnsetType = UNSET
    reported: bool = False


class StoredSession(Record, frozen=True):
    """``sessions.value_json``. The Codex keys are the settings that were asked for and those of the running turn."""

    session: Session
    external_session_id: str | None = None
    codex_approval_policy: ApprovalPolicy | None = None
    codex_sandbox_mode: SandboxMode | None = None
    active_codex_approval_policy: ApprovalPolicy | None = None
    active_codex_sandbox_mode: SandboxMode | None = None
    codex_reasoning_effort: ReasoningEffort | UnsetType = UNSET
    active_codex_reasoning_effort: ReasoningEffort | UnsetType = UNSET
    queued_prompts: list[msgspec.Raw] | UnsetType = UNSET
    queued_peer_messages: dict[str, list[PendingPrompt]] | UnsetType = UNSET
    orchestrator_auto_dispatch_blocked: bool | UnsetType = UNSET
    remote_id: str | UnsetType = UNSET
    remote_session_id: str | UnsetType = UNSET
    creation_key: str | UnsetType = UNSET
    prompt_keys: list[PromptKey] | UnsetType = UNSET
    wake_keys: list[WakeKey] | UnsetType = UNSET
    started_in: int | UnsetType = UNSET
    active_turn: StoredTurn | UnsetType = UNSET
    last_turn: StoredTurn | UnsetType = UNSET
