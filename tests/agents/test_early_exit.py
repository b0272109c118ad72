"""Every adapter, with a program in its agent's place that ends right after its start."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from termal.config import AgentConfig, Config
from tests.agents.kit import Scene, require
from workers.runtime.adapter import AgentFailed

pytestmark = [pytest.mark.agents, pytest.mark.timeout(60)]


def broken(folder: Path) -> Path:
    file = folder / "broken-agent"
    file.write_text("#!/bin/sh\necho 'cannot read its settings' >&2\nexit 3\n")
    file.chmod(0o700)
    return file


@pytest.mark.parametrize("agent", ["Claude", "Codex", "Gemini", "OpenCode"])
def test_a_program_that_ends_at_once_is_told_from_every_other_failure(scene: Scene, agent: str) -> None:
    require(agent)

    def start(program: str, **changes: object) -> AgentFailed:
        agents = scene.agents()
        agents.place = msgspec.structs.replace(
            agents.place, config=Config(agents={agent: AgentConfig(command=[program])})
        )

        async def run() -> AgentFailed:
            adapter = agents.make(agent)
            try:
                with pytest.raises(AgentFailed) as failed:
                    await adapter.start(scene.spec(agent, **changes))
                assert not adapter.alive
            finally:
                await adapter.close()
            return failed.value

        return asyncio.run(run())

    ended = start(str(broken(scene.home)))
    assert ended.exited
    assert "cannot read its settings" in ended.text
    assert not start(str(scene.home / "not-there")).exited
    assert not start(str(broken(scene.home)), workdir=str(scene.home / "nowhere")).exited
