"""The real agents as tests use them: where they are, how they are pointed at the scripted model, what their tools are.

Every test has a home and a work folder of its own; nothing of the developer's is read and nothing leaves the machine.
"""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from termal.config import Config
from termal.log import Log
from termal.wire.turns import SessionSpec
from tests.agents.install import PROGRAMS
from tests.support.scripted_model import ScriptedModel
from tests.support.scripted_requests import Json
from workers.runtime.agents import Agents
from workers.runtime.place import Place

REQUIRED = "TERMAL_AGENTS_REQUIRED"
"""Set to 1: an agent that is not there fails its tests, which are skipped otherwise."""
_SHELL = {"anthropic": "Bash", "chat": "bash", "gemini": "run_shell_command", "responses": "exec_command"}
_PACKAGES = {"Claude": ("claude_agent_sdk", "_bundled/claude"), "Codex": ("codex_cli_bin", "bin/codex")}
_CODEX = """\
model_provider = "scripted"
check_for_update_on_startup = false
[features]
plugins = false
apps = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 1
stream_max_retries = 2
"""


class Scene(msgspec.Struct, frozen=True):
    """What one test has: its folders, and a ``model`` that answers whatever the agent asks.

    Nothing listens on ``closed_port``: it is the proxy for everything that is not on this machine.
    """

    home: Path
    work: Path
    model: ScriptedModel
    log: Log
    closed_port: int

    def spec(self, agent: str, **changes: object) -> SessionSpec:
        modes = {"approvalPolicy": "on-request", "sandboxMode": "workspace-write"} if agent == "Codex" else {}
        spec = SessionSpec("session-1", agent, str(self.work), _MODELS[agent], modes=modes)
        return msgspec.structs.replace(spec, **changes)

    def agents(self, **environ: str) -> Agents:
        """Makes adapters as a runtime worker does; ``environ`` is added to the daemon's environment."""
        environment = {**self.environment(), "TERMAL_RUNTIME": f"test-{self.home.parent.name}", **environ}
        place = Place(Config(), environment, self.home, portable=False)
        return Agents(place, self.log, unlocked)

    @property
    def codex_home(self) -> Path:
        return self.home / ".codex"

    def environment(self) -> dict[str, str]:
        """What the agents get: each takes its own family of names."""
        url = self.model.url
        proxy = f"http://127.0.0.1:{self.closed_port}"
        self.codex_home.mkdir(exist_ok=True)
        config = self.codex_home / "config.toml"
        if not config.exists():
            config.write_text(_CODEX.format(url=url), "utf-8")
        path = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", os.defpath)])
        return {
            "PATH": path,
            "HOME": str(self.home),
            "HTTP_PROXY": proxy,
            "HTTPS_PROXY": proxy,
            "NO_PROXY": "127.0.0.1,localhost",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
            "GEMINI_API_KEY": "scripted",
            "GOOGLE_GEMINI_BASE_URL": url,
            "OPENCODE_CONFIG_CONTENT": msgspec.json.encode(_opencode(url)).decode(),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "SCRIPTED_KEY": "scripted",
            "TERMAL_CODEX_APPROVAL": "on-request",
        }


async def unlocked(_: str) -> bool:
    """No read-only delegation looks at any folder."""
    return False


_MODELS = {"Claude": "sonnet", "Gemini": "gemini-2.5-flash", "OpenCode": "scripted/scripted-1", "Codex": "gpt-5.5"}


def shell(command: str) -> Json:
    """The part of a script that makes any of the agents run ``command``, with a question where it asks at all."""
    arguments = {"command": command, "description": "a command of the test"}
    escalated = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "the test"}
    return {"tool": _SHELL, "args": arguments, "args_for": {"responses": escalated}}


def program_of(agent: str) -> str | None:
    """The agent's program, None where it is not installed."""
    if agent not in _PACKAGES:
        return shutil.which(agent.lower(), path=str(PROGRAMS))
    package, program = _PACKAGES[agent]
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return None
    bundled = Path(found.origin).parent / program
    return str(bundled) if bundled.exists() else None


def require(agent: str) -> None:
    """Skip the test, or fail it where agents are required, when ``agent`` is not installed."""
    if program_of(agent) is not None:
        return
    text = f"{agent} is not installed: python -m tests.agents.install"
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(text)
    pytest.skip(text)


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folder


def _opencode(url: str) -> Json:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "scripted"},
        "models": {"scripted-1": {}, "scripted-2": {}},
    }
    return {
        "model": "scripted/scripted-1",
        "small_model": "scripted/scripted-1",
        "enabled_providers": ["scripted"],
        "provider": {"scripted": provider},
    }
