"""Real agents whose provider is in trouble or whose session may only read; and the files that they change."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from termal.wire.turns import ApprovalAsked, FileChanged, ToolEnded
from tests.agents.kit import Scene, require, shell
from tests.agents.recorder import AGENT_LIMIT_S
from tests.agents.scenario import option, prompt
from tests.support.scripted_requests import Json
from tests.support.waiting import wait_until
from workers.runtime.adapter import Adapter

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]

RETRYING = ("Gemini", "OpenCode")
"""They ask again and again without a word; the others give up, which their own tests show."""
AFTER_A_CUT = {"Claude": "completed", "Codex": "completed", "Gemini": "failed", "OpenCode": "completed"}


def drive(
    scene: Scene, agent: str, scenario: Callable[[Adapter], Coroutine[Any, Any, None]], **changes: object
) -> None:
    require(agent)

    async def run() -> None:
        adapter = scene.agents().make(agent)
        try:
            await adapter.start(scene.spec(agent, **changes))
            await scenario(adapter)
        finally:
            await adapter.close()

    asyncio.run(run())


@pytest.mark.parametrize("agent", RETRYING)
def test_a_provider_that_always_fails_is_asked_again_until_the_turn_is_stopped(scene: Scene, agent: str) -> None:
    outage: Json = {"error": {"status": 500, "message": "scripted outage"}}
    scene.model.play(
        [{"match": "and now$", "turns": [[{"text": "better"}]]}, {"match": "broken$", "turns": [[outage]]}]
    )

    def tries() -> int:
        return sum(bool(entry["tools"]) for entry in scene.model.asked())

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "broken")
        await asyncio.to_thread(wait_until, lambda: tries() > 1, "another try", AGENT_LIMIT_S)
        await adapter.interrupt()
        assert (await turn.end()).outcome == "interrupted"
        assert adapter.alive
        second = await prompt(adapter, "and now")
        assert (await second.end()).outcome == "completed"
        assert second.text() == "better"

    drive(scene, agent, scenario)


@pytest.mark.parametrize("agent", AFTER_A_CUT)
def test_a_connection_that_is_cut_in_the_middle_of_an_answer_costs_no_more_than_the_turn(
    scene: Scene, agent: str
) -> None:
    scene.model.play([{"match": "break$", "turns": [[{"text": "half"}, {"gate": "break"}, {"disconnect": True}]]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "break")
        await turn.until(lambda: "half" in turn.text(), "the broken text")
        scene.model.play([{"match": "", "turns": [[{"text": "whole"}]]}])
        scene.model.gate("break").opened.set()
        assert (await turn.end()).outcome == AFTER_A_CUT[agent]
        assert "half" in turn.text()
        assert ("whole" in turn.text()) is (AFTER_A_CUT[agent] == "completed")
        following = await prompt(adapter, "next")
        assert (await following.end()).outcome == "completed"
        assert following.text() == "whole"

    drive(scene, agent, scenario)


@pytest.mark.parametrize("agent", ["Gemini", "OpenCode"])
def test_a_read_only_session_runs_no_command_and_asks_nobody(scene: Scene, agent: str) -> None:
    scene.model.play([{"match": "run it$", "turns": [[shell("touch made.txt")], [{"text": "after"}]]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "run it")
        assert (await turn.end()).outcome == "completed"
        assert not turn.of(ApprovalAsked)
        assert not (scene.work / "made.txt").exists()
        assert "after" in turn.text()

    drive(scene, agent, scenario, read_only=True)


WRITES: dict[str, Json] = {
    "Gemini": {"tool": "write_file", "args": {"file_path": "a.txt", "content": "one\n"}},
    "OpenCode": {"tool": "write", "args": {"filePath": "a.txt", "content": "one\n"}},
}


@pytest.mark.parametrize(
    ("agent", "decision"), [("Gemini", "accepted"), ("Gemini", "rejected"), ("OpenCode", "accepted")]
)
def test_a_file_is_written_when_a_person_allows_it_and_shown_as_a_diff(scene: Scene, agent: str, decision: str) -> None:
    call = WRITES[agent]
    where = {key: str(scene.work / "a.txt") for key in ("file_path", "filePath") if key in call["args"]}
    scene.model.play(
        [{"match": "write$", "turns": [[{**call, "args": {**call["args"], **where}}], [{"text": "done"}]]}]
    )

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "write")
        asked = await turn.question()
        assert "+one" in asked.detail
        assert not (scene.work / "a.txt").exists()
        await adapter.answer(asked.request, option(asked, decision))
        assert (await turn.end()).outcome in ("completed", "interrupted")
        written = decision == "accepted"
        assert (scene.work / "a.txt").exists() is written
        assert [card.status for card in turn.of(ToolEnded)] == ["success" if written else "error"]
        changes = turn.of(FileChanged)
        assert [change.path for change in changes] == (["a.txt"] if written else [])
        if written:
            assert "+one" in changes[0].diff

    drive(scene, agent, scenario)
