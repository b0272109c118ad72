"""Which coding agents this machine has: their command lines and whether they can be used. Starts none to find out."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import UNSET, UnsetType

from termal.config import AgentConfig, Config
from termal.model.message import Record
from termal.model.session import BUILT_IN_AGENTS
from termal.procs.environment import agent_environment, codex_home, config_of

Source = Literal["configured", "path", "bundled"]
_VERSION_BYTES = 200


class Command(NamedTuple):
    """``argv`` starts the agent as we speak to it (ACP agents: with their ACP arguments); ``path`` is its program."""

    argv: list[str]
    path: str
    source: Source


class Readiness(Record, frozen=True):
    """Whether an agent can be used. ``detail`` says to people what to do; ``blocking``: no new session of it."""

    agent: str
    status: Literal["ready", "missing", "needsSetup"]
    blocking: bool
    detail: str
    warning_detail: str | UnsetType = UNSET
    command_path: str | UnsetType = UNSET


class _BuiltIn(NamedTuple):
    program: str
    arguments: tuple[str, ...]
    install: str
    package: str = ""
    """The Python package whose wheel brings the program."""
    bundled: str = ""
    """Where in that package."""


_PROGRAMS = {
    "Claude": _BuiltIn("claude", (), "pip install 'termal[claude]'", "claude_agent_sdk", "_bundled/claude"),
    "Codex": _BuiltIn("codex", (), "pip install 'termal[codex]'", "codex_cli_bin", "bin/codex"),
    "Gemini": _BuiltIn("gemini", ("--acp", "--skip-trust"), "npm i -g @google/gemini-cli"),
    "OpenCode": _BuiltIn("opencode", ("acp",), "npm i -g opencode-ai"),
    "Cursor": _BuiltIn("cursor-agent", ("acp",), "see https://cursor.com/cli"),
}


def agent_names(config: Config) -> list[str]:
    """The built-in agents, then those that only the configuration knows."""
    built_in = {name.lower() for name in BUILT_IN_AGENTS}
    return [*BUILT_IN_AGENTS, *(name for name in config.agents if name.lower() not in built_in)]


def find_command(agent: str, config: Config, environ: Mapping[str, str]) -> Command | None:
    """The user's setting, else the program on PATH (it is what the user signed in with), else a bundled one."""
    own = config_of(agent, config)
    if own.command:
        path = _which(own.command[0], environ)
        return Command([path, *own.command[1:]], path, "configured") if path else None
    if agent == "Demo":
        return Command([sys.executable, "-P", "-m", "termal.demo_agent"], sys.executable, "bundled")
    built_in = _PROGRAMS.get(agent)
    if built_in is None:
        return None
    if path := _which(built_in.program, environ):
        return Command([path, *built_in.arguments], path, "path")
    if path := _bundled(built_in):
        return Command([path, *built_in.arguments], path, "bundled")
    return None


def readiness(agent: str, config: Config, environ: Mapping[str, str]) -> Readiness:
    """Looks at files alone: milliseconds, nothing is started."""
    command = find_command(agent, config, environ)
    if command is None:
        return _without_command(agent, config_of(agent, config))
    if agent == "Claude" and not _has_package("claude_agent_sdk"):
        detail = "Claude Code is installed, its Python SDK is not: pip install 'termal[claude]'."
        return Readiness(agent=agent, status="needsSetup", blocking=True, detail=detail, command_path=command.path)
    return Readiness(
        agent=agent,
        status="ready",
        blocking=False,
        detail=f"{agent} is ready ({_WHERE[command.source]}).",
        warning_detail=_warning(agent, config_of(agent, config), environ),
        command_path=command.path,
    )


def version(agent: str, config: Config, environ: Mapping[str, str], *, timeout_s: float = 5.0) -> str | None:
    """Starts the program: the first line of what it says to ``--version``; None when it says nothing in time."""
    import signal  # noqa: PLC0415 - for people who ask, not for workers
    import subprocess  # noqa: PLC0415

    command = find_command(agent, config, environ)
    if command is None or agent == "Demo" or _LAUNCHER.fullmatch(Path(command.path).name):
        # What runs a program says its own version.
        return None
    try:
        started = subprocess.Popen(
            [command.path, "--version"],
            env=agent_environment(agent, config, environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    with started:
        try:
            said, _ = started.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            return None
    lines = said[:_VERSION_BYTES].decode(errors="replace").splitlines()
    return lines[0].strip() or None if lines and started.returncode == 0 else None


_LAUNCHER = re.compile(r"(python|node|npx|npm|pnpm|bun|bunx|deno|uv|uvx|pipx|env|sh|bash|docker|ssh)[0-9.]*")
_WHERE: dict[Source, str] = {"configured": "as configured", "path": "found on PATH", "bundled": "bundled"}


def _without_command(agent: str, own: AgentConfig) -> Readiness:
    if own.command:
        detail = f"config.toml names {own.command[0]} for {agent}, which is no program that can be run."
        return Readiness(agent=agent, status="needsSetup", blocking=True, detail=detail)
    built_in = _PROGRAMS.get(agent)
    if built_in is None:
        detail = f"{agent} has no command: give one under [agents.{agent}] in config.toml."
        return Readiness(agent=agent, status="needsSetup", blocking=True, detail=detail)
    detail = f"{agent} is not installed: {built_in.install}."
    return Readiness(agent=agent, status="missing", blocking=True, detail=detail)


def _warning(agent: str, own: AgentConfig, environ: Mapping[str, str]) -> str | UnsetType:
    if agent == "Codex":
        return _codex_warning(own, environ)
    if agent != "Gemini" or any(name.startswith(("GEMINI_", "GOOGLE_")) for name in (*environ, *own.env)):
        return UNSET
    folder = Path(environ.get("HOME", "/")) / ".gemini"
    if any((folder / name).exists() for name in ("oauth_creds.json", "settings.json", ".env")):
        return UNSET
    return "No sign-in of Gemini was found: run gemini once in a terminal, or set GEMINI_API_KEY."


def _codex_warning(own: AgentConfig, environ: Mapping[str, str]) -> str | UnsetType:
    if any(name in ("OPENAI_API_KEY", "CODEX_API_KEY") for name in (*environ, *own.env)):
        return UNSET
    folder = codex_home(environ)
    try:
        if (folder / "auth.json").exists() or "model_provider" in (folder / "config.toml").read_text("utf-8"):
            return UNSET
    except (OSError, ValueError):
        # No configuration, or one that Codex itself will complain of.
        pass
    return "No sign-in of Codex was found: run `codex login` once in a terminal."


def _which(program: str, environ: Mapping[str, str]) -> str | None:
    import shutil  # noqa: PLC0415 - 5 ms, and most workers ask for no agent

    return shutil.which(os.path.expanduser(program), path=environ.get("PATH", os.defpath))  # noqa: PTH111


def _has_package(name: str) -> bool:
    return _package_folder(name) is not None


def _package_folder(name: str) -> Path | None:
    import importlib.util  # noqa: PLC0415 - finds the package without running a line of it

    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _bundled(built_in: _BuiltIn) -> str | None:
    folder = _package_folder(built_in.package) if built_in.package else None
    path = folder / built_in.bundled if folder else None
    return str(path) if path is not None and os.access(path, os.X_OK) else None
