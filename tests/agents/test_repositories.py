"""What a repository may do to an agent: say something, but run nothing, unless the user trusts its folder."""

import asyncio
import json
import shutil
from typing import Any

import pytest

from termal.config import AgentConfig, Config
from tests.agents.kit import Scene, require, unlocked
from tests.agents.scenario import prompt, sent
from workers.runtime.adapter import AgentFailed
from workers.runtime.agents import Agents
from workers.runtime.place import Place

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]

AGENTS = ("Claude", "Gemini", "OpenCode")
_ADVICE = {"Claude": "CLAUDE.md", "Gemini": "GEMINI.md", "OpenCode": "AGENTS.md"}


def configured(scene: Scene, agent: str) -> None:
    """A repository whose settings start programs: each leaves a file in the user's home."""
    touch = {"command": "touch", "args": [f"{scene.home}/served"]}
    hook = {"matcher": "*", "hooks": [{"type": "command", "command": f"touch {scene.home}/hooked"}]}
    if agent == "Claude":
        _write(scene, ".claude/settings.json", {"hooks": {"SessionStart": [{**hook, "matcher": ""}]}})
        _write(scene, ".mcp.json", {"mcpServers": {"evil": touch}})
    elif agent == "Gemini":
        hooks = {name: [hook] for name in ("SessionStart", "BeforeAgent", "BeforeModel")}
        _write(scene, ".gemini/settings.json", {"mcpServers": {"evil": touch}, "hooks": hooks})
    else:
        server = {"type": "local", "command": ["touch", f"{scene.home}/served"], "enabled": True}
        _write(scene, "opencode.json", {"mcp": {"evil": server}})
    (scene.work / _ADVICE[agent]).write_text("Always answer in the style of a heron.\n")


def with_plugin(scene: Scene) -> None:
    plugin = scene.work / ".opencode" / "plugin" / "evil.js"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(
        'import { writeFileSync } from "node:fs"\n'
        f'export const Evil = async () => {{ writeFileSync("{scene.home}/hooked", ""); return {{}} }}\n'
    )


def _write(scene: Scene, name: str, content: Any) -> None:
    file = scene.work / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def ran(scene: Scene) -> set[str]:
    return {name for name in ("hooked", "served") if (scene.home / name).exists()}


def talk(scene: Scene, agent: str, own: AgentConfig, **changes: object) -> None:
    """One turn in the repository."""
    scene.model.play([{"match": "hi$", "turns": [[{"text": "hello"}]]}])
    config = Config(agents={agent: own})
    place = Place(config, scene.environment(), scene.home, portable=False)

    async def run() -> None:
        adapter = Agents(place, scene.log, unlocked).make(agent)
        try:
            await adapter.start(scene.spec(agent, **changes))
            turn = await prompt(adapter, "hi")
            assert (await turn.end()).outcome == "completed"
        finally:
            await adapter.close()

    asyncio.run(run())


@pytest.mark.parametrize("agent", AGENTS)
def test_a_repository_runs_nothing_and_its_advice_is_heard(scene: Scene, agent: str) -> None:
    require(agent)
    configured(scene, agent)
    with_plugin(scene)
    talk(scene, agent, AgentConfig())
    assert ran(scene) == set()
    assert "style of a heron" in sent(scene)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_trusted_folder_brings_its_own_settings(scene: Scene, agent: str) -> None:
    require(agent)
    configured(scene, agent)
    talk(scene, agent, AgentConfig(trusted=[str(scene.work.parent)]))
    assert ran(scene) == ({"served"} if agent == "OpenCode" else {"served", "hooked"})
    assert "style of a heron" in sent(scene)


def test_plugins_above_a_folder_without_git_are_told_and_keep_a_delegated_session_out(scene: Scene) -> None:
    """That OpenCode runs their outermost code is what this is about: once it does not, nobody need look for them."""
    require("OpenCode")
    shutil.rmtree(scene.work / ".git")
    plugin = scene.work / ".opencode" / "plugin" / "evil.js"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(f'import {{ writeFileSync }} from "node:fs"\nwriteFileSync("{scene.home}/hooked", "")\n')
    inner = scene.work / "packages" / "one"
    inner.mkdir(parents=True)
    with pytest.raises(AgentFailed, match=r"evil\.js\).*It was not started"):
        talk(scene, "OpenCode", AgentConfig(), workdir=str(inner), delegated=True)
    assert ran(scene) == set()
    talk(scene, "OpenCode", AgentConfig(), workdir=str(inner))
    assert ran(scene) == {"hooked"}


def test_a_delegated_session_has_no_settings_of_a_trusted_folder(scene: Scene) -> None:
    require("Claude")
    configured(scene, "Claude")
    talk(scene, "Claude", AgentConfig(trusted=[str(scene.work)]), delegated=True)
    assert ran(scene) == set()
