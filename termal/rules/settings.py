"""The settings of each agent: defaults at creation, what a request may set, what a stored record must have."""

from collections.abc import Mapping
from typing import Any, get_args

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.session import (
    ApprovalPolicy,
    ClaudeApprovalMode,
    ClaudeEffort,
    CursorMode,
    GeminiApprovalMode,
    ModelOption,
    ReasoningEffort,
    SandboxMode,
    Session,
)
from termal.rules.verdicts import Bad, Stale

NAME_CHARS = 200
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
_OFFERED = {"opencodeEffort": "opencode_effort_options", "opencodeMode": "opencode_mode_options"}
_CHANGEABLE = frozenset({*_VALUES, *_OFFERED, "codexFastMode"})
_FAST_TIERS = frozenset({"fast", "priority"})


def setting_names(*, new: bool) -> frozenset[str]:
    """Everything that can be set, whatever agent it belongs to; ``new``: together with the session's creation."""
    return _AT_CREATION if new else _CHANGEABLE


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


def changed(
    session: Session, *, name: str | None = None, model: str | None = None, requested: Mapping[str, str | bool]
) -> Session:
    """``session`` with what a request asks for, all of it. Raises `Bad`, and `Stale` for what is no longer offered."""
    fields: dict[str, Any] = {}
    if name is not None:
        fields["name"] = checked_name(name)
    if model is not None:
        fields["model"] = checked_model(session.agent, model)
        if session.agent == "OpenCode":
            fields["opencode_model"] = fields["model"]
    # Which efforts another model has only its agent knows.
    offering = session if model is None else replace(session, opencode_effort_options=UNSET)
    for key, value in requested.items():
        field = _field(session, key)
        fields[field] = _checked(offering, key, value)
    new = replace(session, **fields)
    if model is not None or requested:
        _check_model(new)
    return new


def checked_name(name: str) -> str:
    """``name`` as it is stored. Raises `Bad`."""
    text = name.strip()
    if not text:
        raise Bad("the name must not be blank")
    if len(text) > NAME_CHARS:
        raise Bad(f"a name must have at most {NAME_CHARS} characters")
    return text


def _field(session: Session, key: str) -> str:
    if key not in _CHANGEABLE:
        raise Bad(f"{key} is no setting that can be changed")
    if _OWNERS[key] != session.agent:
        raise Bad(f"{key} is a setting of {_OWNERS[key]}, not of {session.agent}", reason="otherAgent")
    return _FIELDS[key]


def _checked(session: Session, key: str, value: str | bool) -> Any:
    if key == "codexFastMode":
        if not isinstance(value, bool):
            raise Bad(f"{key} must be true or false")
        return value or UNSET
    if not isinstance(value, str):
        raise Bad(f"{key} must be text")
    if key in _OFFERED:
        return _checked_offer(session, key, value)
    if value not in _VALUES[key]:
        raise Bad(f"{key} must be one of {', '.join(_VALUES[key])}")
    return value


def _checked_offer(session: Session, key: str, value: str) -> str:
    text = value.strip()
    if not is_mode(text):
        raise Bad(f"{key} must have 1 to {MODE_CHARS} characters, none of them a control character")
    options = getattr(session, _OFFERED[key])
    if options is not UNSET and text != "auto" and all(option.value != text for option in options):
        raise Stale(f"{key} {text!r} is not offered any more", reason="notOffered")
    return text


def is_mode(text: str) -> bool:
    """Whether ``text`` can be the name of an agent's mode or effort."""
    return 0 < len(text) <= MODE_CHARS and not _has_control(text)


def _check_model(session: Session) -> None:
    """What the agent said of the chosen model, if it said anything, allows effort and Fast mode. Raises `Bad`."""
    options = [] if session.model_options is UNSET else session.model_options
    chosen = next((option for option in options if option.value == session.model), None)
    if session.codex_fast_mode is True and not (chosen is not None and _is_fast(chosen)):
        if not options:
            raise Bad("Fast mode needs the model list: refresh it first", reason="modelsUnknown")
        raise Bad(f"the model {session.model} has no Fast mode", reason="noFastMode")
    if chosen is None:
        return
    for effort, efforts in (
        (session.reasoning_effort, chosen.supported_reasoning_efforts),
        (session.claude_effort, chosen.supported_claude_effort_levels),
    ):
        if effort not in (UNSET, "default") and efforts is not UNSET and effort not in efforts:
            raise Bad(f"the model {session.model} has no effort {effort}", reason="effortNotSupported")


def _is_fast(option: ModelOption) -> bool:
    return option.service_tiers is not UNSET and any(tier.id.lower() in _FAST_TIERS for tier in option.service_tiers)


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


def answers_by_itself(session: Session) -> bool:
    """Whether the mode of ``session`` has its agent's requests allowed without asking a person."""
    return session.claude_approval_mode == "auto-approve" or (
        session.approval_policy == "never" and session.sandbox_mode == "danger-full-access"
    )


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
