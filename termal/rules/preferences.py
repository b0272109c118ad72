"""Defaults of new sessions and the list of other daemons: what may be stored, and what a new session gets of it."""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, get_args

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from termal.model.session import ApprovalPolicy, ClaudeApprovalMode, ClaudeEffort, ReasoningEffort, SandboxMode
from termal.model.stored import LOCAL_REMOTE, THIS_DAEMON, Preferences, Remote
from termal.rules.settings import checked_model
from termal.rules.verdicts import Bad

OWN_DEFAULT = "default"
"""As a default model: whatever the agent takes by itself."""
REMOTES = 64
ID_CHARS = 64
TEXT_CHARS = 255
_REMOTE_ID = re.compile(r"[A-Za-z0-9._-]+")
_ADDRESS = re.compile(r"[^\s\x00-\x1f\x7f@/-][^\s\x00-\x1f\x7f@/]*")
"""A host or a user name: nothing that a command line could take for an option or for two words."""


class _Model(NamedTuple):
    agent: str
    field: str


class _Choice(NamedTuple):
    agent: str
    field: str
    setting: str
    values: tuple[str, ...]


_MODELS = {
    "defaultCodexModel": _Model("Codex", "default_codex_model"),
    "defaultClaudeModel": _Model("Claude", "default_claude_model"),
    "defaultCursorModel": _Model("Cursor", "default_cursor_model"),
    "defaultGeminiModel": _Model("Gemini", "default_gemini_model"),
    "defaultOpenCodeModel": _Model("OpenCode", "default_open_code_model"),
}
_CHOICES = {
    "defaultCodexSandboxMode": _Choice("Codex", "default_codex_sandbox_mode", "sandboxMode", get_args(SandboxMode)),
    "defaultCodexApprovalPolicy": _Choice(
        "Codex", "default_codex_approval_policy", "approvalPolicy", get_args(ApprovalPolicy)
    ),
    "defaultCodexReasoningEffort": _Choice(
        "Codex", "default_codex_reasoning_effort", "reasoningEffort", get_args(ReasoningEffort)
    ),
    "defaultClaudeApprovalMode": _Choice(
        "Claude", "default_claude_approval_mode", "claudeApprovalMode", get_args(ClaudeApprovalMode)
    ),
    "defaultClaudeEffort": _Choice("Claude", "default_claude_effort", "claudeEffort", get_args(ClaudeEffort)),
}
SEEDS = {
    "TERMAL_CODEX_SANDBOX": "sandboxMode",
    "TERMAL_CODEX_APPROVAL": "approvalPolicy",
    "TERMAL_CODEX_REASONING_EFFORT": "reasoningEffort",
}
"""Environment variables that stand in for Codex defaults which nobody has stored."""


def changed(
    preferences: Preferences,
    values: Mapping[str, str],
    remotes: list[Remote] | None,
    in_use: Collection[str],
) -> Preferences:
    """``preferences`` with all that is asked for. ``in_use``: ids of remotes that something refers to. Raises `Bad`."""
    fields: dict[str, Any] = {}
    for key, value in values.items():
        if key in _MODELS:
            fields[_MODELS[key].field] = _default_model(_MODELS[key].agent, value)
        elif key in _CHOICES:
            if value not in _CHOICES[key].values:
                raise Bad(f"{key} must be one of {', '.join(_CHOICES[key].values)}")
            fields[_CHOICES[key].field] = value
        else:
            raise Bad(f"{key} is no preference")
    if remotes is not None:
        fields["remotes"] = _checked_remotes(remotes, in_use)
    return replace(preferences, **fields)


def defaults_of(preferences: Preferences, agent: str, environ: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """Model (None: the agent's own) and settings of a new session. What does not validate any more is left out."""
    model: str | UnsetType = UNSET
    for row in _MODELS.values():
        if row.agent == agent:
            model = getattr(preferences, row.field)
    settings: dict[str, str] = {}
    for choice in _CHOICES.values():
        if choice.agent != agent:
            continue
        value = getattr(preferences, choice.field)
        seed = next((environ.get(name) for name, setting in SEEDS.items() if setting == choice.setting), None)
        if value is UNSET:
            value = seed
        if value in choice.values:
            settings[choice.setting] = value
    return None if model is UNSET else _usable(agent, model), settings


def _usable(agent: str, model: str) -> str | None:
    try:
        text = _default_model(agent, model)
    except Bad:
        return None
    return None if text == OWN_DEFAULT else text


def _default_model(agent: str, value: str) -> str:
    text = checked_model(agent, value)
    return OWN_DEFAULT if text.lower() == OWN_DEFAULT else text


def _checked_remotes(remotes: list[Remote], in_use: Collection[str]) -> list[Remote]:
    """This daemon first, whether or not it was named; then the others in their order."""
    if len(remotes) > REMOTES:
        raise Bad(f"at most {REMOTES} remotes")
    ids = [remote.id for remote in remotes]
    if len(set(ids)) != len(ids):
        raise Bad("two remotes have one id", reason="duplicateRemote")
    others = [_checked_remote(remote) for remote in remotes if remote.id != LOCAL_REMOTE]
    for remote_id in in_use:
        if remote_id not in (LOCAL_REMOTE, *ids):
            raise Bad(f"the remote {remote_id} is in use", reason="remoteInUse")
    return [THIS_DAEMON, *others]


def _checked_remote(remote: Remote) -> Remote:
    if len(remote.id) > ID_CHARS or not _REMOTE_ID.fullmatch(remote.id):
        raise Bad(f"the id of a remote has 1 to {ID_CHARS} letters, digits, '.', '_' and '-'")
    if remote.transport != "ssh":
        raise Bad(f"only {LOCAL_REMOTE!r} is local; the remote {remote.id} needs transport ssh")
    if remote.host is UNSET or not _is_address(remote.host):
        raise Bad(f"the remote {remote.id} needs a host name or an address")
    if remote.user is not UNSET and not _is_address(remote.user):
        raise Bad(f"the user of the remote {remote.id} is no user name")
    if remote.port is not UNSET and not 1 <= remote.port <= 65535:
        raise Bad(f"the port of the remote {remote.id} must be 1 to 65535")
    name = remote.name.strip() or remote.id
    if len(name) > TEXT_CHARS:
        raise Bad(f"the name of a remote has at most {TEXT_CHARS} characters")
    return replace(remote, name=name)


def _is_address(text: str) -> bool:
    return len(text) <= TEXT_CHARS and _ADDRESS.fullmatch(text) is not None
