"""The settings of each agent: defaults at creation, what a request may set, what a stored record must have."""

from typing import Any, get_args

from msgspec import UNSET

from termal.model.session import (
    ApprovalPolicy,
    ClaudeApprovalMode,
    ClaudeEffort,
    CursorMode,
    GeminiApprovalMode,
    ReasoningEffort,
    SandboxMode,
    Session,
)
from termal.rules.verdicts import Bad

MODEL_CHARS = 200
MODE_CHARS = 128
EMOJI = {"Codex": "CX", "Claude": "CL", "Cursor": "CR", "Gemini": "GM", "OpenCode": "OC", "Demo": "DM"}
NOT_ACP = ("Codex", "Claude")
_MODELS = {"Codex": "gpt-5.4", "Claude": "default"}
_OTHER_MODEL = "auto"

_VALUES: dict[str, tuple[str, ...]] = {
    "approvalPolicy": get_args(ApprovalPolicy),
    "sandboxMode": get_args(SandboxMode),
    "reasoningEffort": get_args(ReasoningEffort),
    "claudeApprovalMode": get_args(ClaudeApprovalMode),
    "claudeEffort": get_args(ClaudeEffort),
    "cursorMode": get_args(CursorMode),
    "geminiApprovalMode": get_args(GeminiApprovalMode),
}
_DEFAULTS: dict[str, dict[str, str]] = {
    "Codex": {"approvalPolicy": "never", "sandboxMode": "workspace-write", "reasoningEffort": "medium"},
    "Claude": {"claudeApprovalMode": "ask", "claudeEffort": "default"},
    "Cursor": {"cursorMode": "agent"},
    "Gemini": {"geminiApprovalMode": "default"},
    "OpenCode": {"opencodeEffort": "auto", "opencodeMode": "auto"},
}
_FIELDS = {
    "approvalPolicy": "approval_policy",
    "sandboxMode": "sandbox_mode",
    "reasoningEffort": "reasoning_effort",
    "codexFastMode": "codex_fast_mode",
    "codexThreadState": "codex_thread_state",
    "claudeApprovalMode": "claude_approval_mode",
    "claudeEffort": "claude_effort",
    "cursorMode": "cursor_mode",
    "geminiApprovalMode": "gemini_approval_mode",
    "opencodeModel": "opencode_model",
    "opencodeEffort": "opencode_effort",
    "opencodeMode": "opencode_mode",
    "opencodeCurrentEffort": "opencode_current_effort",
    "opencodeCurrentMode": "opencode_current_mode",
    "opencodeEffortOptions": "opencode_effort_options",
    "opencodeModeOptions": "opencode_mode_options",
}
_OWNERS = {
    "approvalPolicy": "Codex",
    "sandboxMode": "Codex",
    "reasoningEffort": "Codex",
    "codexFastMode": "Codex",
    "codexThreadState": "Codex",
    "claudeApprovalMode": "Claude",
    "claudeEffort": "Claude",
    "cursorMode": "Cursor",
    "geminiApprovalMode": "Gemini",
    "opencodeModel": "OpenCode",
    "opencodeEffort": "OpenCode",
    "opencodeMode": "OpenCode",
    "opencodeCurrentEffort": "OpenCode",
    "opencodeCurrentMode": "OpenCode",
    "opencodeEffortOptions": "OpenCode",
    "opencodeModeOptions": "OpenCode",
}
_AT_CREATION = frozenset(_VALUES)


def is_acp(agent: str) -> bool:
    """Everything but Codex and Claude speaks the Agent Client Protocol, configured agents too."""
    return agent not in NOT_ACP


def runtime_of(agent: str) -> str:
    """The name of the worker that runs the agent's processes."""
    return f"runtime-{agent.lower()}" if agent in NOT_ACP else "runtime-acp"


def emoji_of(agent: str) -> str:
    """Two letters: the agent's own, else the first two of its name."""
    return EMOJI.get(agent) or agent[:2].upper()


def at_creation(agent: str, model: str | None, requested: dict[str, str]) -> dict[str, Any]:
    """Field values of `Session` for a new session of ``agent``. Raises `Bad` for a key or value it cannot have."""
    values = dict(_DEFAULTS.get(agent, {}))
    for key, value in requested.items():
        if key not in _AT_CREATION:
            raise Bad(f"{key} is no setting of a new session")
        if _OWNERS[key] != agent:
            raise Bad(f"{key} is a setting of {_OWNERS[key]}, not of {agent}")
        if value not in _VALUES[key]:
            raise Bad(f"{key} must be one of {', '.join(_VALUES[key])}")
        values[key] = value
    fields: dict[str, Any] = {_FIELDS[key]: value for key, value in values.items()}
    fields["model"] = checked_model(agent, model) if model is not None else _MODELS.get(agent, _OTHER_MODEL)
    if agent == "OpenCode":
        fields["opencode_model"] = fields["model"]
    return fields


def checked_model(agent: str, model: str) -> str:
    """``model`` as it is stored. Raises `Bad`."""
    text = model.strip()
    if not text:
        raise Bad("the model must not be blank")
    if len(text) > MODEL_CHARS:
        raise Bad(f"the model must have at most {MODEL_CHARS} characters")
    if _has_control(text):
        raise Bad("the model must not have control characters")
    if agent == "Claude" and text.startswith("-"):
        raise Bad("a Claude model must not begin with '-'")
    return text


def modes_of(session: Session) -> dict[str, str]:
    """The settings of ``session`` under their wire names, as a runtime worker gets them."""
    modes: dict[str, str] = {}
    for key, field in _FIELDS.items():
        value = getattr(session, field)
        if isinstance(value, str):
            modes[key] = value
        elif value is True:
            modes[key] = "true"
    return modes


_REQUIRED: dict[str, tuple[str, ...]] = {
    "Claude": ("claudeApprovalMode", "claudeEffort"),
    "Cursor": ("cursorMode",),
    "Gemini": ("geminiApprovalMode",),
    "Codex": ("approvalPolicy", "reasoningEffort", "sandboxMode"),
    "OpenCode": ("opencodeModel", "opencodeMode"),
}


def check_stored(session: Session) -> None:
    """Raises `Bad` with the first reason why a stored ``session`` cannot be right."""
    for key in _REQUIRED.get(session.agent, ()):
        if not _is_set(session, key):
            raise Bad(f"{key} is missing")
    for key, owner in _OWNERS.items():
        if owner != session.agent and _is_set(session, key):
            raise Bad(f"{key} is set, a setting of {owner}")
    if session.agent == "Codex":
        _check_codex(session)
    if session.agent == "OpenCode":
        _check_opencode(session)


def _check_codex(session: Session) -> None:
    if (session.codex_thread_state is UNSET) != (session.external_session_id is UNSET):
        raise Bad("codexThreadState and externalSessionId must both be there or both be absent")


def _check_opencode(session: Session) -> None:
    for key in ("opencodeModel", "opencodeEffort", "opencodeMode", "opencodeCurrentEffort", "opencodeCurrentMode"):
        value = getattr(session, _FIELDS[key])
        limit = MODEL_CHARS if key == "opencodeModel" else MODE_CHARS
        if isinstance(value, str) and (len(value) > limit or _has_control(value)):
            raise Bad(f"{key} is too long or has control characters")


def _is_set(session: Session, key: str) -> bool:
    value = getattr(session, _FIELDS[key])
    return value is not None and value is not UNSET and value is not False


def _has_control(text: str) -> bool:
    return any(ord(character) < 32 or ord(character) == 127 for character in text)
