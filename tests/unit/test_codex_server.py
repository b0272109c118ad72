"""What the shared process of Codex says to nobody in particular."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from workers.runtime import codex_server
from workers.runtime.adapter import AgentFailed
from workers.runtime.codex_server import AppServer, SharedCodex


def test_a_request_that_nobody_here_listens_to_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    log: Any = SimpleNamespace(repeating=lambda event, **_: logged.append(event))
    server = AppServer(log)
    refused: list[tuple[object, ...]] = []
    monkeypatch.setattr(server.lines, "refuse", lambda *answer: refused.append(answer))
    server.asked(7, "item/tool/call", {"threadId": "nobody's"})
    server.asked("a", "account/refresh", {})
    assert refused == [
        (7, -32601, "nobody here answers item/tool/call"),
        ("a", -32601, "nobody here answers account/refresh"),
    ]
    assert logged == ["agent.refused_request"] * 2


class Ending:
    """A process that ends right after each start. ``begun`` counts; the first ``cancelled`` starts are."""

    begun = 0
    cancelled = 0

    def __init__(self, _: object) -> None:
        self.lines = SimpleNamespace(alive=False)

    async def start(self, _: object, __: str) -> None:
        Ending.begun += 1
        number = Ending.begun
        await asyncio.sleep(0)
        if number <= Ending.cancelled:
            raise asyncio.CancelledError
        raise AgentFailed(f"end {number}", exited=True)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> SharedCodex:
    monkeypatch.setattr(codex_server, "AppServer", Ending)
    monkeypatch.setattr(Ending, "begun", 0)
    monkeypatch.setattr(Ending, "cancelled", 0)
    place: Any = SimpleNamespace(run_dir="/nowhere")
    log: Any = None
    return SharedCodex(lambda: place, log)


async def together(shared: SharedCodex, count: int) -> list[str]:
    ends = await asyncio.gather(*(shared.use(object()) for _ in range(count)), return_exceptions=True)
    return [end.text if isinstance(end, AgentFailed) and end.exited else repr(end) for end in ends]


def test_sessions_that_wait_together_share_a_start_that_fails(shared: SharedCodex) -> None:
    async def scenario() -> None:
        assert await together(shared, 10) == ["end 1"] * 10
        assert Ending.begun == 1
        assert shared._users == set()
        assert await together(shared, 2) == ["end 2"] * 2, "whoever comes later makes an attempt of its own"

    asyncio.run(scenario())


def test_a_start_that_was_cancelled_says_nothing_of_the_next(
    shared: SharedCodex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ending, "cancelled", 1)
    said = asyncio.run(together(shared, 3))
    assert (said[0].startswith("CancelledError"), said[1:], Ending.begun) == (True, ["end 2"] * 2, 2)
