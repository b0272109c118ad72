"""Many sessions of Codex in the one app-server, their turns side by side."""

import asyncio
from collections.abc import Callable

import psutil
import pytest

from termal.wire.turns import TextDelta
from tests.agents.kit import Scene, require
from tests.agents.recorder import Recorder
from tests.agents.scenario import prompt
from tests.support.scripted_requests import Json
from workers.runtime.adapter import Adapter

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]

CROWD = 20
RESIDENT_MB = 600
"""The app-server with all of them; it has about 160 with a few."""


def script() -> list[Json]:
    """Each prompt has an answer of its own, in two halves around one gate for all."""
    first = [
        {
            "match": f"number {number}!$",
            "turns": [[{"text": f"one {number}"}, {"gate": "go"}, {"text": f", two {number}"}]],
        }
        for number in range(CROWD)
    ]
    return [*first, {"match": "again", "turns": [[{"text": "still here"}]]}]


def halves(turn: Recorder, number: int) -> Callable[[], bool]:
    return lambda: turn.text() == f"one {number}"


def test_twenty_turns_at_once_share_one_process_and_nothing_else(scene: Scene) -> None:
    require("Codex")
    scene.model.play(script())

    async def begun(adapter: Adapter, number: int) -> Recorder:
        await adapter.start(scene.spec("Codex", session_id=f"session-{number}"))
        turn = await prompt(adapter, f"number {number}!")
        # All are in the middle of their answers before one of them may end.
        await turn.until(halves(turn, number), f"the first half of {number}")
        return turn

    async def scenario() -> None:
        agents = scene.agents()
        adapters = [agents.make("Codex") for _ in range(CROWD)]
        try:
            turns = await asyncio.gather(*(begun(adapter, number) for number, adapter in enumerate(adapters)))
            assert len({adapter.pid for adapter in adapters}) == 1
            (server,) = psutil.Process(adapters[0].pid).children()
            resident_mb = server.memory_info().rss >> 20
            assert resident_mb < RESIDENT_MB
            # One is stopped in the midst of the others, and they are not disturbed.
            await adapters[7].interrupt()
            assert (await turns[7].end()).outcome == "interrupted"
            scene.model.gate("go").opened.set()
            for number, turn in enumerate(turns):
                if number != 7:
                    assert (await turn.end()).outcome == "completed"
                    assert turn.text().split("\n") == [f"one {number}", f", two {number}"]
                    assert turn.of(TextDelta)
            assert turns[7].text() == "one 7"
            following = await asyncio.gather(*(prompt(adapter, "again") for adapter in adapters[5:9]))
            for turn in following:
                assert (await turn.end()).outcome == "completed"
        finally:
            await asyncio.gather(*(adapter.close() for adapter in adapters))
        assert not server.is_running()

    asyncio.run(scenario())
    # Nobody's model was told of anybody else's prompt.
    for entry in scene.model.asked():
        text = str(entry["body"]["input"])
        assert sum(f"number {number}!" in text for number in range(CROWD)) == 1
