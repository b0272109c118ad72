"""What distinguishes one ACP agent from another: its start, and habits that the protocol does not tell."""

import json
from collections.abc import Mapping

import msgspec

from termal.config import AgentConfig
from termal.wire.turns import SessionSpec
from workers.runtime.opencode_plugins import plugin_in
from workers.runtime.repository import advice_files, is_trusted

_OPENCODE_CONFIG = "OPENCODE_CONFIG_CONTENT"
_OPENCODE_ASKS = {"edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask"}
"""By itself OpenCode runs commands and edits files without a question."""
_OPENCODE_DENIES = {"edit": "deny", "bash": "deny", "task": "deny", "external_directory": "deny"}
_OPENCODE_ADVICE = ("AGENTS.md", "CLAUDE.md")
_GEMINI_TRUST = "--skip-trust"
_GEMINI_MODES = {"default": "default", "auto_edit": "autoEdit", "yolo": "yolo", "plan": "plan"}


class AcpAgent(msgspec.Struct, frozen=True, kw_only=True):
    """``environment`` is laid over what passes from the daemon's own; ``unwanted`` arguments are left out."""

    name: str
    environment: dict[str, str] = {}
    unwanted: frozenset[str] = frozenset()
    subject_thoughts: bool = False
    """Each thought begins with its subject between double asterisks."""
    silent_commands: bool = False
    """The output of commands goes to the model alone."""
    answers_in_order: bool = False
    """Open permission requests must be answered in the order in which they came."""
    load_needs_new_minute: bool = False
    """Loading a conversation in the minute of its last start destroys its stored history."""
    mode: str | None = None
    """The session mode that the configuration wants, None for the agent's own choice."""
    auth_method: str = ""
    """What it is to be signed in with before a conversation, where it offers that; the user has signed in before."""
    foreign_code: str = ""
    """A file by which the agent would run code of the repository, though it is not trusted."""
    read_only_mode: str | None = None
    """The session mode that keeps the agent from writing, None where there is none."""


def acp_agent(name: str, own: AgentConfig, spec: SessionSpec, given: Mapping[str, str]) -> AcpAgent:
    """The agent of this name for ``spec``. ``given``: the environment that passes to it by itself; an OpenCode
    configuration in it is kept and added to.
    """
    if name == "Gemini":
        agent = _gemini(spec, trusted=is_trusted(own, spec))
    elif name == "OpenCode":
        agent = _opencode(spec, given, trusted=is_trusted(own, spec))
    elif name == "Cursor":
        agent = AcpAgent(name=name, auth_method="cursor_login", read_only_mode="plan")
    else:
        agent = AcpAgent(name=name)
    return msgspec.structs.replace(agent, mode=own.mode, read_only_mode=own.read_only_mode or agent.read_only_mode)


def session_mode(agent: AcpAgent, spec: SessionSpec) -> str | None:
    """The mode that the session should be in, None for the agent's own choice."""
    if spec.read_only and agent.read_only_mode is not None:
        return agent.read_only_mode
    if agent.name == "Gemini":
        return _GEMINI_MODES.get(spec.modes.get("geminiApprovalMode", "default"))
    if agent.name == "Cursor":
        return spec.modes.get("cursorMode")
    if agent.name == "OpenCode":
        return _chosen(spec.modes.get("opencodeMode"))
    return agent.mode


def session_effort(agent: AcpAgent, spec: SessionSpec) -> str | None:
    return _chosen(spec.modes.get("opencodeEffort")) if agent.name == "OpenCode" else None


def _chosen(value: str | None) -> str | None:
    return None if value in (None, "", "auto") else value


def _gemini(spec: SessionSpec, *, trusted: bool) -> AcpAgent:
    return AcpAgent(
        name="Gemini",
        environment={"GEMINI_CLI_TRUST_WORKSPACE": "true"} if trusted else {},
        # The flag lets MCP servers work in a folder that is not trusted; the mode of a read-only session has none.
        unwanted=frozenset({_GEMINI_TRUST}) if spec.read_only else frozenset(),
        subject_thoughts=True,
        silent_commands=True,
        load_needs_new_minute=True,
        read_only_mode="plan",
    )


def _opencode(spec: SessionSpec, given: Mapping[str, str], *, trusted: bool) -> AcpAgent:
    # A repository's own configuration could take the questions away, and its plugins run at the start.
    closed = {} if trusted else {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}
    heard = [] if trusted else [str(file) for file in advice_files(spec.workdir, *_OPENCODE_ADVICE)]
    return AcpAgent(
        name="OpenCode",
        environment={
            **closed,
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            _OPENCODE_CONFIG: _opencode_config(given.get(_OPENCODE_CONFIG, ""), heard, read_only=spec.read_only),
        },
        answers_in_order=True,
        foreign_code="" if trusted else plugin_in(spec.workdir, given.get("HOME", "")),
    )


def _opencode_config(given: str, heard: list[str], *, read_only: bool) -> str:
    try:
        config = json.loads(given) if given else {}
    except ValueError:
        config = None
    if not isinstance(config, dict):
        # Broken by the user: OpenCode itself says so best, unless it must not write.
        if not read_only:
            return given
        config = {}
    if read_only:
        config["permission"] = _OPENCODE_DENIES
    else:
        config.setdefault("permission", _OPENCODE_ASKS)
    instructions = config.get("instructions")
    if heard and isinstance(instructions, list | None):
        config["instructions"] = [*(instructions or []), *heard]
    return json.dumps(config)
