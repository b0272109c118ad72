"""A conversation over an agent of the test's own: whatever is begun while an agent ends, none is left in no table."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from termal.wire.runtime_operations import SESSIONS_CLOSE, CloseSessions, ModelList, StartTurn
from termal.wire.session_operations import PromptImage
from termal.wire.thread_operations import ThreadCommand, ThreadDone
from termal.wire.turns import AnyTurnEvent, ModelsKnown, Notice, SessionSpec, TurnConfirmed, TurnEnded
from termal.worker.stats import Stats
from workers.runtime import conversation as module
from workers.runtime.adapter import AgentFailed, CommandRefused, Emit, Started
from workers.runtime.conversation import Conversation
from workers.runtime.reporter import Link
from workers.runtime.service import Service

SPEC = SessionSpec("session-1", "Codex", "/work", "")
OFFERED: list[tuple[str, str, str | None]] = [("big", "Big", None)]


class Agent:
    """Its ends wait for ``may_end``. It ends no turn that it is to interrupt."""

    def __init__(self, house: "House") -> None:
        self._house = house
        self.alive = False
        self.prompts: list[str] = []

    @property
    def pid(self) -> int | None:
        return None

    async def start(self, spec: SessionSpec) -> Started:
        assert not any(agent.alive for agent in self._house.agents), "one agent at a time"
        self.alive = True
        return Started("thread-1", models=OFFERED)

    async def prompt(self, text: str, images: list[PromptImage], emit: Emit) -> None:
        self.prompts.append(text)
        if text == "end":
            emit(TurnEnded("completed"))
        elif text == "fail":
            raise AgentFailed("it takes none")

    async def interrupt(self) -> None:
        raise AgentFailed("it does not listen")

    async def answer(self, request: str, option: str) -> None:
        raise AgentFailed("nothing is open")

    async def apply(self, spec: SessionSpec) -> bool:
        return self.alive

    async def close(self) -> None:
        self._house.ending += 1
        await self._house.may_end.wait()
        self.alive = False

    async def thread(self, command: ThreadCommand, begun: Callable[[Started], None]) -> ThreadDone:
        if not self.alive:
            begun(await self.start(command.spec))
        if command.action == "compact":
            raise CommandRefused("not now")
        return ThreadDone()


class House:
    """Everything around the conversation; made inside the loop."""

    def __init__(self) -> None:
        self.agents: list[Agent] = []
        self.ending = 0
        self.closing: asyncio.Task[None] | None = None
        self.may_end = asyncio.Event()
        self.reported: list[AnyTurnEvent] = []
        self._asked: list[tuple[str, Callable[..., None]]] = []
        log: Any = SimpleNamespace(info=_ignore, error=_ignore, repeating=_ignore)
        state: Any = SimpleNamespace(call=self._call)
        loop: Any = SimpleNamespace(later=_ignore)
        self.link = Link(loop, state, "runtime-codex/1", log)
        self.service = Service(self.link, self.make, Stats(), log)
        self.conversation = Conversation(
            self.link, "session-1", self.make, log, on_confirmed=lambda: None, starts=self.service.starts
        )

    def make(self, _: str) -> Agent:
        self.agents.append(Agent(self))
        return self.agents[-1]

    def begin(self, number: int, text: str = "work", spec: SessionSpec = SPEC) -> None:
        self.conversation.begin(StartTurn(spec, f"turn-{number}", text))

    def tell(self, number: int) -> None:
        """Have the turn say something while its agent is not there yet."""
        self.conversation._turns[f"turn-{number}"].emit(Notice("soon"))

    def forget(self, number: int) -> None:
        """State says that nobody waits for this turn."""
        turn_id = f"turn-{number}"
        answer = next(answer for asked, answer in self._asked if asked == turn_id)
        answer(TurnConfirmed(turn_id, 0, known=False), None)

    @property
    def ends(self) -> list[AnyTurnEvent]:
        """The ends of turns that were reported so far."""
        return [event for event in self.reported if isinstance(event, TurnEnded)]

    @property
    def busy(self) -> bool:
        return self.conversation.running is not None

    @property
    def alive(self) -> int:
        return sum(agent.alive for agent in self.agents)

    def _call(self, _: object, report: Any, answer: Callable[..., None], *, trace: str) -> Any:
        self.reported += report.events
        self._asked.append((trace, answer))
        return SimpleNamespace(cancel=_ignore)


def _ignore(*_: object, **__: object) -> None:
    """Nothing comes of it."""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 0.0)


def run(scenario: Callable[[House], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(5):
            await scenario(House())

    asyncio.run(bounded())


async def rest() -> None:
    """Let everything that can go on do so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def _stopped(house: House) -> None:
    await house.conversation.stop("turn-1")


async def _forgotten(house: House) -> None:
    house.forget(1)


async def _closed(house: House) -> None:
    house.closing = asyncio.create_task(house.conversation.close())


ENDS = [
    pytest.param(_stopped, id="a-stop-that-fails"),
    pytest.param(_forgotten, id="a-turn-that-state-forgot"),
    pytest.param(_closed, id="a-close"),
]
Step = Callable[[House], Coroutine[Any, Any, None]]


def _begin(house: House) -> list[Coroutine[Any, Any, object]]:
    house.begin(2)
    return []


def _ask(house: House) -> list[Coroutine[Any, Any, object]]:
    return [house.conversation.models(SPEC)]


def _order(house: House) -> list[Coroutine[Any, Any, object]]:
    return [house.conversation.thread(ThreadCommand(SPEC, "servers"))]


WAITING = [
    pytest.param([_begin], id="a-turn"),
    pytest.param([_ask], id="a-question"),
    pytest.param([_order], id="a-command"),
    pytest.param([_ask, _begin], id="a-turn-behind-a-question"),
    pytest.param([_order, _begin], id="a-turn-behind-a-command"),
]


@pytest.mark.parametrize("waiting", WAITING)
@pytest.mark.parametrize("end", ENDS)
def test_a_close_ends_what_waits_for_the_end_of_the_old_agent(
    end: Step, waiting: list[Callable[[House], list[Coroutine[Any, Any, object]]]]
) -> None:
    async def scenario(house: House) -> None:
        house.begin(1)
        await rest()
        await end(house)
        await rest()
        tasks = []
        for wait in waiting:
            tasks += [asyncio.create_task(step) for step in wait(house)]
            await rest()
        assert (len(house.agents), house.ending) == (1, 1)
        close = asyncio.create_task(house.conversation.close())
        await rest()
        assert not close.done(), "the old agent is still there"
        house.may_end.set()
        await close
        await rest()
        assert house.alive == 0
        assert [agent.prompts for agent in house.agents if agent.prompts] == [["work"]]
        assert (house.conversation.held(), house.conversation.in_use) == ([], False)
        told = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, AgentFailed) for answer in told)

    run(scenario)


async def _reported_and_forgotten(house: House) -> None:
    house.tell(2)
    house.forget(2)


@pytest.mark.parametrize("second", [_reported_and_forgotten, _closed], ids=["forgotten", "closed"])
def test_a_turn_waits_for_every_agent_that_is_being_ended(second: Step) -> None:
    async def scenario(house: House) -> None:
        house.begin(1)
        await rest()
        await _stopped(house)
        house.begin(2)
        await rest()
        await second(house)
        await rest()
        house.begin(3)
        await rest()
        assert [agent.prompts for agent in house.agents] == [["work"]], "its agent has not ended"
        house.may_end.set()
        await rest()
        assert [(agent.alive, agent.prompts) for agent in house.agents] == [(False, ["work"]), (True, ["work"])]
        await house.conversation.close()
        assert house.alive == 0

    run(scenario)


def test_an_interrupt_that_fails_beside_a_close_does_not_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(house: House) -> None:
        go_on = asyncio.Event()

        async def interrupt(_: Agent) -> None:
            await go_on.wait()
            raise AgentFailed("it does not listen")

        monkeypatch.setattr(Agent, "interrupt", interrupt)
        house.begin(1)
        await rest()
        stop = asyncio.create_task(house.conversation.stop("turn-1"))
        await rest()
        close = asyncio.create_task(house.conversation.close())
        await rest()
        go_on.set()
        await stop
        house.begin(2)
        await rest()
        assert len(house.agents) == 1, "the first agent has not ended"
        house.may_end.set()
        await close
        await rest()
        assert [agent.alive for agent in house.agents] == [False, True]
        await house.conversation.close()

    run(scenario)


def test_what_is_asked_during_the_end_of_a_session_leaves_its_agent_in_the_table() -> None:
    async def scenario(house: House) -> None:
        conversation = house.service._conversation("session-1")
        house.may_end.set()
        await conversation.models(SPEC)
        house.may_end.clear()
        replies: list[object] = []
        request: Any = SimpleNamespace(op=SESSIONS_CLOSE, reply=replies.append, refuse=replies.append)
        house.service.handlers[SESSIONS_CLOSE.name](request, CloseSessions(["session-1"]))
        await rest()
        question = asyncio.create_task(conversation.models(SPEC))
        await rest()
        house.may_end.set()
        assert await question == ModelList(OFFERED)
        await rest()
        assert len(replies) == 1
        assert house.alive == 1
        assert house.service._conversation("session-1") is conversation
        await house.service.close_all()
        assert house.alive == 0

    run(scenario)


@pytest.mark.parametrize("action", ["servers", "compact"], ids=["answered", "refused"])
def test_an_agent_that_a_command_started_tells_its_models(action: Any) -> None:
    async def scenario(house: House) -> None:
        house.may_end.set()
        try:
            await house.conversation.thread(ThreadCommand(SPEC, action))
        except CommandRefused:
            assert action == "compact"
        assert await house.conversation.models(SPEC) == ModelList(OFFERED)
        house.begin(1, "end")
        await rest()
        assert [event.options for event in house.reported if isinstance(event, ModelsKnown)] == [OFFERED]
        assert len(house.agents) == 1
        await house.conversation.close()

    run(scenario)


CHILD = SessionSpec("session-1", "Codex", "/work", "", delegated=True, ends_with_turn=True)


async def _by_itself(house: House) -> None:
    house.begin(1, "end", CHILD)


async def _by_a_stop(house: House) -> None:
    house.begin(1, spec=CHILD)
    await rest()
    house.closing = asyncio.create_task(_stopped(house))


async def _by_a_start_that_fails(house: House) -> None:
    house.begin(1, "fail", CHILD)


@pytest.mark.parametrize("end", [_by_itself, _by_a_stop, _by_a_start_that_fails])
def test_the_end_of_a_childs_turn_is_told_when_its_agent_is_gone(end: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupt(_: Agent) -> None:
        """It will be closed under its turn."""

    async def scenario(house: House) -> None:
        await end(house)
        await rest()
        assert (house.ending, house.ends, len(house.conversation.held())) == (1, [], 1)
        assert house.busy, "nothing may begin in it"
        assert house.closing is None or not house.closing.done()
        house.may_end.set()
        await rest()
        assert house.alive == 0
        assert len(house.ends) == 1
        assert house.closing is None or house.closing.done()
        assert not house.busy

    monkeypatch.setattr(Agent, "interrupt", interrupt)
    run(scenario)


def test_an_agent_that_does_not_go_holds_the_end_of_its_turn_up_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(house: House) -> None:
        monkeypatch.setattr(module, "AGENT_END_S", 0.0)
        house.begin(1, "end", CHILD)
        await rest()
        assert house.ends == [TurnEnded("completed")]
        house.may_end.set()
        await house.conversation.close()

    run(scenario)


def test_a_daemon_that_stops_does_not_wait_for_a_childs_agent_to_tell_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupt(_: Agent) -> None:
        """It will be closed under its turn."""

    async def scenario(house: House) -> None:
        house.begin(1, spec=CHILD)
        await rest()
        await house.conversation.stop("turn-1", TurnEnded("lost", "stopped"))
        assert house.ends == [TurnEnded("lost", "stopped")]
        house.may_end.set()
        await house.conversation.close()

    monkeypatch.setattr(Agent, "interrupt", interrupt)
    run(scenario)
