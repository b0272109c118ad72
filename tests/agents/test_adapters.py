"""Every real agent behind its adapter: what a turn says, and what happens when it is stopped, killed or refused."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import psutil
import pytest

from termal.wire.turns import (
    ApprovalWithdrawn,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
)
from tests.agents.kit import Scene, require, shell
from tests.agents.scenario import gone, kill_agent, option, prompt, sent, written_pid
from tests.support.scripted_requests import Json
from workers.runtime.adapter import Adapter, AgentFailed

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]

AGENTS = ("Claude", "Codex", "Gemini", "OpenCode")
UNKNOWN_CONVERSATION = "5e1f0c3a-0000-4000-8000-000000000001"


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    require(name)
    return name


def drive(scene: Scene, agent: str, scenario: Callable[[Adapter], Coroutine[Any, Any, None]]) -> None:
    """Run ``scenario`` with a started agent, and close it whatever happens."""

    async def run() -> None:
        adapter = scene.agents().make(agent)
        try:
            await adapter.start(scene.spec(agent))
            await scenario(adapter)
        finally:
            await adapter.close()

    asyncio.run(run())


def test_text_and_thoughts_arrive_in_pieces_and_the_turn_completes(scene: Scene, agent: str) -> None:
    scene.model.play([{"match": "say hi$", "turns": [[{"thinking": ["think", "ing"]}, {"text": ["Hel", "lo", "."]}]]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "say hi")
        end = await turn.end()
        assert (end.outcome, end.detail) == ("completed", "")
        assert turn.text() == "Hello."
        assert turn.of(TextDelta)
        assert "thinking" in "".join(thought.text for thought in turn.of(ThinkingDelta))

    drive(scene, agent, scenario)


def test_an_interrupted_answer_keeps_its_start_and_the_next_prompt_is_answered(scene: Scene, agent: str) -> None:
    scene.model.play(
        [
            {"match": "and now$", "turns": [[{"text": "second"}]]},
            {"match": "hold$", "turns": [[{"text": "first"}, {"gate": "go"}, {"text": " too late"}]]},
        ]
    )

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "hold")
        await turn.until(lambda: turn.text() == "first", "the start of the answer")
        await adapter.interrupt()
        end = await turn.end()
        assert end.outcome == "interrupted"
        assert turn.text() == "first"
        scene.model.gate("go").opened.set()
        if not adapter.alive:
            return
        second = await prompt(adapter, "and now")
        assert (await second.end()).outcome == "completed"
        assert second.text() == "second"

    drive(scene, agent, scenario)


def test_a_killed_agent_loses_its_turn_and_its_successor_remembers_the_conversation(scene: Scene, agent: str) -> None:
    scene.model.play(
        [
            {"match": "again$", "turns": [[{"text": "I remember"}]]},
            {"match": "remember blue$", "turns": [[{"text": "noted"}]]},
            {"match": "hold$", "turns": [[{"text": "working"}, {"gate": "go"}]]},
        ]
    )

    async def run() -> None:
        agents = scene.agents()
        first = agents.make(agent)
        try:
            started = await first.start(scene.spec(agent))
            assert (await (await prompt(first, "remember blue")).end()).outcome == "completed"
            turn = await prompt(first, "hold")
            await turn.until(lambda: turn.text() == "working", "the start of the answer")
            kill_agent(first)
            end = await turn.end()
            assert end.outcome == "lost"
            assert agent in end.detail
            assert not first.alive
        finally:
            await first.close()
        scene.model.gate("go").opened.set()
        second = agents.make(agent)
        try:
            resumed = await second.start(scene.spec(agent, external_session_id=started.external_session_id))
            assert resumed.external_session_id == started.external_session_id
            assert resumed.note == ""
            turn = await prompt(second, "again")
            assert (await turn.end()).outcome == "completed"
            assert turn.text() == "I remember"
            assert "remember blue" in sent(scene)
            assert "noted" in sent(scene)
        finally:
            await second.close()

    asyncio.run(run())


def test_an_unknown_conversation_is_replaced_by_a_fresh_one_and_a_note(scene: Scene, agent: str) -> None:
    scene.model.play([{"match": "hello$", "turns": [[{"text": "hi"}]]}])

    async def run() -> None:
        adapter = scene.agents().make(agent)
        try:
            started = await adapter.start(scene.spec(agent, external_session_id=UNKNOWN_CONVERSATION))
            assert started.external_session_id not in (None, UNKNOWN_CONVERSATION)
            assert started.note
            turn = await prompt(adapter, "hello")
            assert (await turn.end()).outcome == "completed"
        finally:
            await adapter.close()

    asyncio.run(run())


WRITE = [
    {"match": "run it$", "turns": [[shell("echo one > made.txt; echo said; exit 3")], [{"text": "after"}]]},
]


def test_an_allowed_command_runs_and_its_card_ends(scene: Scene, agent: str) -> None:
    scene.model.play(WRITE)

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "run it")
        asked = await turn.question()
        assert "made.txt" in asked.command + asked.detail + asked.title
        assert not (scene.work / "made.txt").exists()
        await adapter.answer(asked.request, option(asked, "accepted"))
        assert (await turn.end()).outcome == "completed"
        assert (scene.work / "made.txt").read_text() == "one\n"
        started, ended = turn.of(ToolStarted)[-1], turn.of(ToolEnded)
        assert started.kind == "execute"
        assert [card.item for card in ended] == [started.item]
        if agent != "Gemini":  # it keeps the output and the status of commands to itself
            assert ended[0].status == "error"
            assert "said" in (ended[0].output or "")
        assert turn.text() == "after"
        with pytest.raises(AgentFailed):
            await adapter.answer(asked.request, option(asked, "accepted"))

    drive(scene, agent, scenario)


def test_a_refused_command_does_not_run(scene: Scene, agent: str) -> None:
    scene.model.play(WRITE)

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "run it")
        asked = await turn.question()
        await adapter.answer(asked.request, option(asked, "rejected"))
        assert (await turn.end()).outcome in ("completed", "interrupted")
        assert not (scene.work / "made.txt").exists()
        assert [card.status for card in turn.of(ToolEnded)] == ["error"]

    drive(scene, agent, scenario)


def test_an_interrupt_takes_an_open_question_away(scene: Scene, agent: str) -> None:
    scene.model.play(WRITE)

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "run it")
        asked = await turn.question()
        await adapter.interrupt()
        assert (await turn.end()).outcome == "interrupted"
        assert [gone.request for gone in turn.of(ApprovalWithdrawn)] == [asked.request]
        assert not (scene.work / "made.txt").exists()
        with pytest.raises(AgentFailed):
            await adapter.answer(asked.request, option(asked, "accepted"))

    drive(scene, agent, scenario)


def test_a_provider_that_fails_once_costs_a_retry_only(scene: Scene, agent: str) -> None:
    failure: Json = {"error": {"status": 429, "retry_after": 0, "times": 1}}
    scene.model.play([{"match": "busy$", "turns": [[failure, {"text": "at last"}]]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "busy")
        assert (await turn.end()).outcome == "completed"
        assert turn.text() == "at last"
        if agent == "Claude":
            assert "429" in turn.of(Notice)[0].text

    drive(scene, agent, scenario)


def test_a_refused_request_fails_the_turn_and_the_next_prompt_is_answered(scene: Scene, agent: str) -> None:
    scene.model.play(
        [
            {"match": "and now$", "turns": [[{"text": "better"}]]},
            {
                "match": "bad$",
                "turns": [[{"error": {"status": 400, "type": "invalid_request_error", "message": "scripted refusal"}}]],
            },
        ]
    )

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "bad")
        end = await turn.end()
        assert end.outcome == "failed"
        assert "scripted refusal" in end.detail
        second = await prompt(adapter, "and now")
        assert (await second.end()).outcome == "completed"
        assert second.text() == "better"

    drive(scene, agent, scenario)


def test_nothing_that_a_killed_agent_started_is_left(scene: Scene, agent: str) -> None:
    marker = scene.work / "pid"
    scene.model.play([{"match": "run it$", "turns": [[shell(f"echo $$ > {marker}; exec sleep 600")]]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "run it")
        asked = await turn.question()
        await adapter.answer(asked.request, option(asked, "accepted"))
        command = psutil.Process(await written_pid(marker))
        kill_agent(adapter)
        assert (await turn.end()).outcome == "lost"
        await gone(command)

    drive(scene, agent, scenario)
