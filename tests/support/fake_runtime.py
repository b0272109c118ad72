"""A runtime worker for tests of `state`: takes turns on a real bus socket, reports the events that a test gives it."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from termal.bus.client import Client
from termal.bus.loop import PollLoop
from termal.bus.server import Handler, Request, Server
from termal.log import Log
from termal.wire.agent_operations import AGENTS_TROUBLE, AgentTrouble, OneAgent, TellTroubles
from termal.wire.errors import Conflict, TermalError
from termal.wire.runtime_operations import (
    AgentTrees,
    AnswerInteraction,
    ApplySettings,
    CloseSessions,
    ListModels,
    ModelList,
    SettingsApplied,
    StartTurn,
    StopTurn,
    TurnStopped,
    TurnTaken,
)
from termal.wire.session_operations import TURN_REPORT
from termal.wire.thread_operations import ThreadCommand, ThreadDone
from termal.wire.turns import (
    AgentTree,
    Anything,
    AnyTurnEvent,
    Held,
    HeldTurn,
    ModesKnown,
    TurnConfirmed,
    TurnEnded,
    TurnReport,
)
from tests.support.waiting import wait_until

T = TypeVar("T")


class FakeTurn:
    """One taken turn: what was asked, what was reported so far, what `state` confirmed."""

    def __init__(self, start: StartTurn) -> None:
        self.start = start
        self.events: list[AnyTurnEvent] = []
        self.confirmed = 0
        self.known = True

    @property
    def id(self) -> str:
        return self.start.turn_id


class FakeRuntime:
    """Its own thread and loop. ``refuse``: the next turns are refused with this error. ``stop_error``: so are stops.
    ``refusals``: so many of the next turns are refused, each with its error.

    ``hold_stops`` and ``hold_starts``: stops and starts are answered by `release`; ``hold_turns``: so is the question
    which turns it holds.
    """

    def __init__(self, run_dir: Path, name: str = "runtime-acp") -> None:
        self.name = name
        self.run_dir = run_dir
        self.turns: list[FakeTurn] = []
        self.stops: list[StopTurn] = []
        self.answers: list[AnswerInteraction] = []
        self.closed: list[str] = []
        self.agents: list[AgentTree] = []
        self.forgiven: list[str] = []
        self.refuse: TermalError | None = None
        self.refusals: list[TermalError] = []
        self.stop_error: TermalError | None = None
        self.answer_error: TermalError | None = None
        self.models: ModelList | TermalError = ModelList([])
        self.asked_models: list[ListModels] = []
        self.applied: list[ApplySettings] = []
        self.modes: ModesKnown | None = None
        self.apply_error: TermalError | None = None
        self.hold_settings = False
        self.hold_answers = False
        self.thread: ThreadDone | TermalError = ThreadDone()
        self.commands: list[ThreadCommand] = []
        self.conversation_lost = False
        self.hold_threads = False
        self.hold_stops = False
        self.hold_starts = False
        self.hold_turns = False
        self._held: list[Callable[[], None]] = []
        self._loop = PollLoop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(5)

    # ------------------------------------------------------------- the test's side

    def turn(self, index: int) -> FakeTurn:
        """The ``index``-th turn that was taken, waited for; no negative one, for which nothing would be."""
        assert index >= 0
        wait_until(lambda: len(self.turns) > index, f"turn {index} to be started")
        return self.turns[index]

    def report(self, turn: FakeTurn, *events: AnyTurnEvent, wait: bool = True) -> None:
        """Report ``events`` after those before; wait until `state` confirmed them all."""

        def send() -> None:
            first = len(turn.events) + 1
            turn.events += events
            self._send(turn, first, list(events))

        self.on_loop(send)
        if wait:
            self.wait_confirmed(turn)

    def wait_confirmed(self, turn: FakeTurn) -> None:
        wait_until(
            lambda: turn.confirmed >= len(turn.events) or not turn.known, f"{len(turn.events)} events to be confirmed"
        )

    def send_again(
        self, turn: FakeTurn, first: int, events: Sequence[AnyTurnEvent], turn_id: str | None = None
    ) -> None:
        """Report ``events`` under given numbers, whatever was reported before."""
        self.on_loop(lambda: self._send(turn, first, list(events), turn_id))

    def end(self, turn: FakeTurn, outcome: Any = "completed", detail: str = "", *, wait: bool = True) -> None:
        self.report(turn, TurnEnded(outcome, detail), wait=wait)

    def tell_troubles(self, *troubles: AgentTrouble) -> None:
        """Say which agents end right after their start; return when `state` knows."""
        known = threading.Event()
        told = TellTroubles(self.name, list(troubles))

        def tell() -> None:
            self._client.call(AGENTS_TROUBLE, told, lambda _, __: known.set())

        self.on_loop(tell)
        assert known.wait(5)

    def release(self) -> None:
        """Answer what was held."""

        def run() -> None:
            held, self._held = self._held, []
            for answer in held:
                answer()

        self.on_loop(run)

    def forget_held(self) -> None:
        """Never answer what was held: whoever asked is gone."""
        self._held.clear()

    def on_loop(self, call: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            call()
            done.set()

        self._loop.threadsafe(run)
        assert done.wait(5)

    def close(self) -> None:
        self._loop.threadsafe(self._loop.stop)
        self._thread.join(5)
        assert not self._thread.is_alive()

    # ------------------------------------------------------------------- its thread

    def _run(self) -> None:
        handlers: dict[str, Handler] = {
            "turn.start": self._start,
            "turn.stop": self._stop,
            "turn.held": self._turn_held,
            "agent.trees": lambda request, _: request.reply(AgentTrees(self.agents)),
            "sessions.close": self._close_sessions,
            "interaction.answer": self._answer,
            "models.list": self._list_models,
            "agent.forgive": self._forgive,
            "codex.thread": self._order_thread,
            "settings.apply": self._apply,
        }
        server = Server(self._loop, self.run_dir, self.name, handlers, log=Log(self.name))
        self._client = Client(self._loop, self.run_dir, "state", self.name)
        self._ready.set()
        self._loop.run()
        self._client.close()
        server.close()
        self._loop.close()

    def _start(self, request: Request, body: StartTurn) -> None:
        if self.refuse is not None:
            raise self.refuse
        if self.refusals:
            raise self.refusals.pop(0)

        def take() -> None:
            self.turns.append(FakeTurn(body))
            request.reply(TurnTaken("fake"))

        self._now_or_held(self.hold_starts, take)

    def _stop(self, request: Request, body: StopTurn) -> None:
        self.stops.append(body)

        def answer() -> None:
            if self.stop_error is not None:
                request.refuse(self.stop_error)
            else:
                request.reply(TurnStopped(self.conversation_lost))

        self._now_or_held(self.hold_stops, answer)

    def _turn_held(self, request: Request, _: Anything) -> None:
        held = [
            HeldTurn(turn.start.spec.session_id, turn.id, len(turn.events))
            for turn in self.turns
            if turn.known
            and not (turn.events and isinstance(turn.events[-1], TurnEnded) and turn.confirmed == len(turn.events))
        ]
        self._now_or_held(self.hold_turns, lambda: request.reply(Held("fake", held)))

    def _close_sessions(self, request: Request, body: CloseSessions) -> None:
        self.closed += body.session_ids
        request.reply(Anything())

    def _answer(self, request: Request, body: AnswerInteraction) -> None:
        if self.answer_error is not None:
            raise self.answer_error
        if body.request == "gone":
            raise Conflict("no longer open")
        self.answers.append(body)
        self._now_or_held(self.hold_answers, lambda: request.reply(Anything()))

    def _forgive(self, request: Request, body: OneAgent) -> None:
        self.forgiven.append(body.agent)
        request.reply(Anything())

    def _list_models(self, request: Request, body: ListModels) -> None:
        self.asked_models.append(body)
        if isinstance(self.models, TermalError):
            raise self.models
        request.reply(self.models)

    def _apply(self, request: Request, body: ApplySettings) -> None:
        self.applied.append(body)

        def answer() -> None:
            if self.apply_error is not None:
                request.refuse(self.apply_error)
            else:
                request.reply(SettingsApplied(live=True, modes=self.modes))

        self._now_or_held(self.hold_settings, answer)

    def _order_thread(self, request: Request, body: ThreadCommand) -> None:
        self.commands.append(body)

        def answer() -> None:
            if isinstance(self.thread, TermalError):
                request.refuse(self.thread)
            else:
                request.reply(self.thread)

        self._now_or_held(self.hold_threads, answer)

    def _now_or_held(self, hold: bool, answer: Callable[[], None]) -> None:
        if hold:
            self._held.append(answer)
        else:
            answer()

    def _send(self, turn: FakeTurn, first: int, events: list[AnyTurnEvent], turn_id: str | None = None) -> None:
        report = TurnReport("fake", turn.start.spec.session_id, turn_id or turn.id, first, events)

        def done(reply: TurnConfirmed | None, error: TermalError | None) -> None:
            if reply is not None:
                turn.known = reply.known
                turn.confirmed = max(turn.confirmed, reply.through)

        self._client.call(TURN_REPORT, report, done)
