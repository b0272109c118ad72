"""Commands for an agent's thread start the agent as prompts do: ends count, pauses hold, a success ends both."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from termal.wire.thread_operations import ThreadAction, ThreadCommand, ThreadDone
from termal.wire.turns import SessionSpec
from workers.runtime.adapter import AgentFailed, Started
from workers.runtime.conversation import Conversation
from workers.runtime.starts import MOST_EXITS, Starts

SPEC = SessionSpec("session-1", "Codex", "/work", "default", external_session_id="thread-1")


class Threads:
    """An adapter whose agent is up after a command that did not fail. ``failure``: what the next commands raise."""

    failure: AgentFailed | None = None
    asked = 0

    def __init__(self) -> None:
        self.pid = None
        self.alive = False

    async def thread(self, command: ThreadCommand, begun: Any) -> ThreadDone:
        Threads.asked += 1
        if Threads.failure is not None:
            raise Threads.failure
        if command.action != "archive":
            self.alive = True
            begun(Started("thread-1"))
        return ThreadDone()

    async def close(self) -> None:
        self.alive = False


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Threads, "failure", None)
    monkeypatch.setattr(Threads, "asked", 0)


class Clock:
    at_s = 100.0

    def __call__(self) -> float:
        return self.at_s


def conversation(starts: Starts) -> Conversation:
    link: Any = None
    log: Any = SimpleNamespace(info=lambda *_, **__: None)
    make: Any = lambda _: Threads()  # noqa: E731 - as short as a stand-in may be
    return Conversation(link, "session-1", make, log, on_confirmed=lambda: None, starts=starts)


async def order(one: Conversation, action: ThreadAction) -> ThreadDone:
    return await one.thread(ThreadCommand(SPEC, action))


def test_ends_at_the_start_for_a_command_count_and_park() -> None:
    clock = Clock()
    starts = Starts(clock)
    Threads.failure = AgentFailed("it ended at once", exited=True)

    async def scenario() -> None:
        one = conversation(starts)
        for number in range(1, MOST_EXITS + 1):
            clock.at_s += 60.0
            with pytest.raises(AgentFailed, match="it ended at once"):
                await order(one, "fork")
            assert starts.troubles["Codex"].exits == number
            with pytest.raises(AgentFailed, match="it ended at once"):
                await order(one, "servers")
            assert Threads.asked == number, "a pause holds for commands too"

    asyncio.run(scenario())
    assert starts.troubles["Codex"].parked


@pytest.mark.parametrize("action", ["fork", "archive"])
def test_a_command_that_brings_the_agent_up_ends_its_trouble(action: ThreadAction) -> None:
    clock = Clock()
    starts = Starts(clock)
    starts.exited("Codex", "session-1", "it ended", began_s=clock())
    clock.at_s += 60.0
    assert asyncio.run(order(conversation(starts), action)) == ThreadDone()
    assert starts.troubles == {}


def test_another_failure_of_a_command_counts_for_nothing() -> None:
    starts = Starts(Clock())
    Threads.failure = AgentFailed("it says nothing")
    with pytest.raises(AgentFailed, match="it says nothing"):
        asyncio.run(order(conversation(starts), "fork"))
    assert starts.troubles == {}
