"""What is done to an agent while it is at work: other settings, and an interrupt of its commands."""

import asyncio

import psutil
import pytest

from tests.agents.kit import Scene, require, shell
from tests.agents.scenario import gone, option, prompt, written_pid
from workers.runtime.adapter import AgentFailed

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]

CHANGES = {
    "Gemini": ({"geminiApprovalMode": "plan"}, "gemini-2.5-pro"),
    "OpenCode": ({"opencodeMode": "plan"}, "scripted/scripted-2"),
}


@pytest.mark.parametrize("agent", CHANGES)
def test_mode_and_model_change_in_the_middle_of_a_turn(scene: Scene, agent: str) -> None:
    require(agent)
    modes, model = CHANGES[agent]
    scene.model.play(
        [
            {"match": "next$", "turns": [[{"text": "second"}]]},
            {"match": "hold$", "turns": [[{"text": "first"}, {"gate": "go"}]]},
        ]
    )

    async def scenario() -> None:
        adapter = scene.agents().make(agent)
        try:
            await adapter.start(scene.spec(agent))
            turn = await prompt(adapter, "hold")
            await turn.until(lambda: turn.text() == "first", "the start of the answer")
            changed = scene.spec(agent, modes=modes, model=model)
            assert await adapter.apply(changed)
            if agent == "OpenCode":
                with pytest.raises(AgentFailed, match="no-such-mode"):
                    await adapter.apply(scene.spec(agent, modes={"opencodeMode": "no-such-mode"}, model=model))
            scene.model.gate("go").opened.set()
            assert (await turn.end()).outcome == "completed"
            assert await adapter.apply(changed)
            following = await prompt(adapter, "next")
            assert (await following.end()).outcome == "completed"
            assert following.text() == "second"
            asked = [entry["model"] for entry in scene.model.asked() if entry["tools"]]
            assert model.removeprefix("scripted/") in str(asked[-1])
        finally:
            await adapter.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("agent", ["Claude", *CHANGES])
def test_an_interrupt_ends_what_a_command_started(scene: Scene, agent: str) -> None:
    require(agent)
    file = scene.work / "pid"
    command = shell(f"tail -f /dev/null & echo $! > {file}; wait")
    scene.model.play([{"match": "run it$", "turns": [[command], [{"text": "over"}]]}])

    async def scenario() -> None:
        adapter = scene.agents().make(agent)
        try:
            await adapter.start(scene.spec(agent))
            turn = await prompt(adapter, "run it")
            asked = await turn.question()
            await adapter.answer(asked.request, option(asked, "accepted"))
            running = psutil.Process(await written_pid(file))
            await adapter.interrupt()
            assert (await turn.end()).outcome == "interrupted"
            await gone(running)
        finally:
            await adapter.close()

    asyncio.run(scenario())
