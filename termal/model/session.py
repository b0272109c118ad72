"""The session record as clients see it and as it is stored (its ``messages`` empty), with the settings of each agent.

Three kinds of absence: a key that is always present and null for other agents has ``None``; a key that is left out
when empty has ``UNSET``; everything else is required.
"""

from typing import Literal

from msgspec import UNSET, UnsetType

from termal.model.marker import Marker
from termal.model.message import Attachment, Message, PromptSource, Record

SessionStatus = Literal["active", "idle", "approval", "error"]
AgentName = str
"""``Codex``, ``Claude``, ``Cursor``, ``Gemini``, ``OpenCode``, ``Demo`` or the name of a configured ACP agent."""

BUILT_IN_AGENTS = ("Codex", "Claude", "Cursor", "Gemini", "OpenCode", "Demo")
ApprovalPolicy = Literal["untrusted", "on-failure", "on-request", "never"]
SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"]
ClaudeApprovalMode = Literal["ask", "auto-approve", "plan", "read-only-auto-approve"]
ClaudeEffort = Literal["default", "low", "medium", "high", "xhigh", "max"]
CursorMode = Literal["agent", "plan", "ask"]
GeminiApprovalMode = Literal["default", "auto_edit", "yolo", "plan"]


class ServiceTier(Record, frozen=True):
    id: str
    label: str
    description: str | UnsetType = UNSET


class ModelOption(Record, frozen=True):
    """One entry of an agent's model list (also used for OpenCode's effort and mode lists)."""

    label: str
    value: str
    description: str | UnsetType = UNSET
    badges: list[str] | UnsetType = UNSET
    supported_claude_effort_levels: list[str] | UnsetType = UNSET
    default_reasoning_effort: str | UnsetType = UNSET
    supported_reasoning_efforts: list[str] | UnsetType = UNSET
    service_tiers: list[ServiceTier] | UnsetType = UNSET


class PendingPrompt(Record, frozen=True):
    """The public view of one queue entry; its id becomes the transcript message id when it is dispatched."""

    id: str
    timestamp: str
    text: str
    attachments: list[Attachment] | UnsetType = UNSET
    expanded_text: str | UnsetType = UNSET
    source: PromptSource | UnsetType = UNSET


class LiveActivity(Record, frozen=True):
    prompt: str
    command: str | UnsetType = UNSET
    command_status: str | UnsetType = UNSET


class SessionUsage(Record, frozen=True):
    """The sum over the turns of a session whose agent told what they took. ``cost_usd``: of those that told a cost."""

    turns: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | UnsetType = UNSET


class Session(Record, frozen=True):
    """One session. ``message_count`` is the size of the whole transcript, whatever ``messages`` holds."""

    id: str
    name: str
    emoji: str
    agent: AgentName
    workdir: str
    model: str
    status: SessionStatus
    preview: str
    message_count: int = 0
    messages_loaded: bool = True
    messages: list[Message] = []
    agent_commands_revision: int = 0
    # settings that are null for other agents
    approval_policy: ApprovalPolicy | None = None
    sandbox_mode: SandboxMode | None = None
    claude_approval_mode: ClaudeApprovalMode | None = None
    # settings that are left out for other agents
    reasoning_effort: ReasoningEffort | UnsetType = UNSET
    codex_fast_mode: bool | UnsetType = UNSET
    codex_thread_state: Literal["active", "archived"] | UnsetType = UNSET
    claude_effort: ClaudeEffort | UnsetType = UNSET
    cursor_mode: CursorMode | UnsetType = UNSET
    gemini_approval_mode: GeminiApprovalMode | UnsetType = UNSET
    opencode_model: str | UnsetType = UNSET
    opencode_effort: str | UnsetType = UNSET
    opencode_mode: str | UnsetType = UNSET
    opencode_current_effort: str | UnsetType = UNSET
    opencode_current_mode: str | UnsetType = UNSET
    opencode_effort_options: list[ModelOption] | UnsetType = UNSET
    opencode_mode_options: list[ModelOption] | UnsetType = UNSET
    # left out when empty
    project_id: str | UnsetType = UNSET
    remote_id: str | UnsetType = UNSET
    external_session_id: str | UnsetType = UNSET
    parent_delegation_id: str | UnsetType = UNSET
    model_options: list[ModelOption] | UnsetType = UNSET
    markers: list[Marker] | UnsetType = UNSET
    usage: SessionUsage | UnsetType = UNSET
    # on the wire only, never stored
    pending_prompts: list[PendingPrompt] | UnsetType = UNSET
    prompt_history: list[str] | UnsetType = UNSET
    prompt_history_redacted: bool | UnsetType = UNSET
    live_activity: LiveActivity | UnsetType = UNSET
    session_mutation_stamp: int | UnsetType = UNSET
