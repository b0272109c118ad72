"""Sub-agents of Codex: what they ask is put to the session that began them, and they end with its turn."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import psutil
import pytest

from termal.wire.turns import ApprovalAsked, ApprovalWithdrawn
from tests.agents.kit import Scene, require, shell
from tests.agents.recorder import AGENT_LIMIT_S
from tests.agents.scenario import gone, option, prompt, written_pid
from tests.support.scripted_requests import Json
from tests.support.waiting import wait_until
from workers.runtime.adapter import Adapter, AgentFailed

pytestmark = [pytest.mark.agents, pytest.mark.timeout(120)]

MODEL = "gpt-5.4"
"""Codex gives a model that it does not know the tools for sub-agents at once."""
SPAWN: Json = {"tool": "~spawn_agent", "args": {"message": "below"}}


@pytest.fixture(autouse=True)
def _required() -> None:
    require("Codex")


def drive(scene: Scene, scenario: Callable[[Adapter], Coroutine[Any, Any, None]], **changes: object) -> None:
    async def run() -> None:
        adapter = scene.agents().make("Codex")
        try:
            await adapter.start(scene.spec("Codex", model=MODEL, **changes))
            await scenario(adapter)
        finally:
            await adapter.close()

    asyncio.run(run())


def play(scene: Scene, command: str, *more: Json) -> None:
    """A prompt ``above`` begins a sub-agent that runs ``command``, and goes on when the gate is opened."""
    scene.model.play(
        [
            {"match": "below$", "turns": [[shell(command)], [{"text": "done below"}]]},
            {"match": "above$", "turns": [[SPAWN], [{"text": "waiting"}, {"gate": "go"}, {"text": " over"}]]},
            *more,
        ]
    )


def went_on(scene: Scene) -> bool:
    """The model of the sub-agent was told what became of its command."""
    for entry in scene.model.asked():
        items = entry["body"]["input"]
        said = [part["text"] for item in items if item.get("role") == "user" for part in item["content"]]
        if said[-1] == "below" and items[-1]["type"] == "function_call_output":
            return True
    return False


async def until_it_goes_on(scene: Scene) -> None:
    await asyncio.to_thread(wait_until, lambda: went_on(scene), "the sub-agent to go on", AGENT_LIMIT_S)


@pytest.mark.parametrize("decision", ["accepted", "rejected"])
def test_a_command_of_a_sub_agent_waits_for_a_person(scene: Scene, decision: str) -> None:
    play(scene, "touch made.txt")

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "above")
        asked = await turn.question()
        assert asked.title == "Sub-agent: Codex wants to run a command"
        assert asked.command == "touch made.txt"
        assert not (scene.work / "made.txt").exists()
        await adapter.answer(asked.request, option(asked, decision))
        await until_it_goes_on(scene)
        assert (scene.work / "made.txt").exists() is (decision == "accepted")
        scene.model.gate("go").opened.set()
        assert (await turn.end()).outcome == "completed"
        assert " over" in turn.text()

    drive(scene, scenario)


def test_a_question_of_a_sub_agent_does_not_outlive_the_turn_that_shows_it(scene: Scene) -> None:
    play(scene, "touch made.txt", {"match": "next$", "turns": [[{"text": "second"}]]})

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "above")
        asked = await turn.question()
        scene.model.gate("go").opened.set()
        assert (await turn.end()).outcome == "completed"
        assert [event.request for event in turn.of(ApprovalWithdrawn)] == [asked.request]
        with pytest.raises(AgentFailed):
            await adapter.answer(asked.request, option(asked, "accepted"))
        # Refused, so that it does not wait for ever.
        await until_it_goes_on(scene)
        following = await prompt(adapter, "next")
        assert (await following.end()).outcome == "completed"
        assert not (scene.work / "made.txt").exists()

    drive(scene, scenario)


def test_a_sub_agent_of_a_read_only_session_is_refused_and_nobody_asked(scene: Scene) -> None:
    play(scene, "touch made.txt")

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "above")
        await until_it_goes_on(scene)
        scene.model.gate("go").opened.set()
        assert (await turn.end()).outcome == "completed"
        assert not turn.of(ApprovalAsked)
        assert not (scene.work / "made.txt").exists()

    drive(scene, scenario, read_only=True)


@pytest.mark.parametrize("by", ["interrupt", "close"])
def test_a_sub_agent_and_its_command_end_with_the_turn(scene: Scene, by: str) -> None:
    file = scene.work / "pid"
    play(scene, f"echo $$ > {file}; exec sleep 600")

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "above")
        asked = await turn.question()
        await adapter.answer(asked.request, option(asked, "accepted"))
        command = psutil.Process(await written_pid(file))
        if by == "interrupt":
            await adapter.interrupt()
            assert (await turn.end()).outcome == "interrupted"
        else:
            await adapter.close()
        await gone(command)

    drive(scene, scenario)
