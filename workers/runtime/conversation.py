"""One session of this worker: at most one agent and one running turn, and the turns that state has still to confirm."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from msgspec import structs

from termal.wire.errors import Conflict
from termal.wire.runtime_operations import ModelList, StartTurn
from termal.wire.thread_operations import ThreadCommand, ThreadDone
from termal.wire.turns import HeldTurn, ModesKnown, SessionSpec, TurnEnded
from workers.runtime.adapter import (
    Adapter,
    AgentFailed,
    CommandRefused,
    HasModes,
    HasThreads,
    HoldsBack,
    Started,
    TakesAnswers,
)
from workers.runtime.introduction import introduce
from workers.runtime.reporter import Link
from workers.runtime.starts import Starts
from workers.runtime.turn import Turn

INTERRUPT_S = 10.0
"""An adapter ends a turn within its own, shorter limits; beyond this one its agent is closed under it."""
CLOSE_S = 2.5
AGENT_END_S = 8.0
"""An agent that must be gone before its turn's end is told, and is not gone by then, is not waited for."""
STOP_S = INTERRUPT_S + CLOSE_S
STOPPED = "the turn was stopped"

T = TypeVar("T")
MakeAdapter = Callable[[str], Adapter]
"""Raises `AgentFailed` when there is no such agent or it is not installed."""


class Journal(Protocol):
    """Takes log lines (`termal.log.Log`)."""

    def info(self, event: str, **keys: Any) -> None: ...
    def error(self, event: str, **keys: Any) -> None: ...
    def repeating(self, event: str, **keys: Any) -> None: ...


class Conversation:
    """Everything here runs on the worker's loop. ``on_confirmed`` runs when a turn has nothing left to keep."""

    def __init__(
        self,
        link: Link,
        session_id: str,
        make: MakeAdapter,
        log: Journal,
        *,
        on_confirmed: Callable[[], None],
        starts: Starts,
    ) -> None:
        self.session_id = session_id
        self._starts = starts
        self._on_confirmed = on_confirmed
        self._link = link
        self._make = make
        self._log = log
        self._adapter: Adapter | None = None
        self._agent = ""
        self._models: ModelList = ModelList([])
        self._untold: Started | None = None
        self._told_modes: ModesKnown | None = None
        self._turns: dict[str, Turn] = {}
        self._current: Turn | None = None
        self._task: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._stops: dict[str, asyncio.Task[bool]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._closed_work: frozenset[asyncio.Task[None]] = frozenset()
        self._ends: set[asyncio.Future[None]] = set()
        self._wanted: SessionSpec | None = None
        self._settling = asyncio.Lock()

    @property
    def running(self) -> Turn | None:
        return self._current if self._current is not None and not self._current.ended.is_set() else None

    @property
    def agent(self) -> tuple[str, int] | None:
        """Name and pid of the agent's process, None without one."""
        pid = self._adapter.pid if self._adapter is not None else None
        return None if pid is None else (self._agent, pid)

    def why_not(self, agent: str) -> str | None:
        """A sentence when a turn of ``agent`` would have to start it, and it must not be started now."""
        return None if self._is_up and self._agent == agent else self._starts.why_not(agent, self.session_id)

    @property
    def _is_up(self) -> bool:
        return self._adapter is not None and self._adapter.alive

    @property
    def modes(self) -> ModesKnown | None:
        """The modes of its agent as they are now, None without one that has any."""
        adapter: object = self._adapter
        return adapter.modes if isinstance(adapter, HasModes) else None

    def held(self) -> list[HeldTurn]:
        return [turn.held for turn in self._turns.values()]

    @property
    def in_use(self) -> bool:
        """Whether it holds a turn, has an agent, or is at work for a turn or a question: an agent may come of it."""
        return bool(self._turns or self._work) or self._adapter is not None

    def begin(self, start: StartTurn) -> None:
        """Take a turn and start it. Raises `Conflict` while another one runs."""
        if self.running is not None:
            raise Conflict("another turn of this session is running", reason="turnRunning")
        turn = Turn(
            self._link,
            self.session_id,
            start.turn_id,
            hold_back=self._hold_back,
            on_over=self._over,
            before_end=self._end_before if start.spec.ends_with_turn else None,
        )
        turn.watch = self._link.watches.begin(start) if self._link.watches is not None else None
        self._wanted = start.spec
        self._turns[turn.id] = self._current = turn
        self._begin_work(self._run(turn, start, self._task))

    async def stop(self, turn_id: str, ending: TurnEnded | None = None) -> bool:
        """Return when the turn has ended. A turn that is not running has. ``ending``: see `Turn.stop`.

        True: the agent did not end it, and may still be at work in its conversation.
        """
        turn = self._turns.get(turn_id)
        if turn is None or turn.ended.is_set():
            return False
        task = self._stops.get(turn_id)
        if task is None:
            task = self._stops[turn_id] = asyncio.create_task(self._interrupt(turn, ending))
            task.add_done_callback(lambda _: self._stops.pop(turn_id, None))
        return await asyncio.shield(task)

    async def settle(self, spec: SessionSpec) -> bool:
        """Tell the running agent the settings of ``spec``, in the middle of a turn too. Raises `AgentFailed`.

        False: none runs that could take them, or newer ones came meanwhile; the next turn begins with what it is given.
        """
        self._wanted = spec
        if self._task is not None:
            await asyncio.wait([self._task])
        async with self._settling:
            adapter = self._adapter
            if self._wanted is not spec or adapter is None or not adapter.alive or self._agent != spec.agent:
                return False
            return await adapter.apply(spec)

    async def models(self, spec: SessionSpec) -> ModelList:
        """What the agent offered when it began; it is started when it does not run. Raises `AgentFailed`.

        A turn that is starting is waited for, and a turn that is begun meanwhile waits for this.
        """
        if self.running is None and not self._is_up:
            task = self._begin_work(self._start_idle(spec, self._task))
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        elif self._task is not None:
            # Whatever comes of it is told to whoever began it.
            await asyncio.wait([self._task])
        if not self._is_up:
            raise AgentFailed("the agent did not come up")
        return structs.replace(self._models, modes=self.modes)

    async def thread(self, command: ThreadCommand) -> ThreadDone:
        """What a person wants of the agent's thread, between turns. Raises `Conflict`, `CommandRefused`,
        `AgentFailed`. A turn that is begun meanwhile waits for it."""
        if self.running is not None:
            raise Conflict("a turn of this session is running", reason="turnRunning")
        done: list[ThreadDone] = []
        task = self._begin_work(self._carry_out(command, self._task, done))
        await asyncio.wait([task])
        if task.cancelled():
            raise AgentFailed("the session was closed meanwhile")
        if (error := task.exception()) is not None:
            raise error
        return done[0]

    async def _carry_out(
        self, command: ThreadCommand, before: "asyncio.Task[None] | None", done: list[ThreadDone]
    ) -> None:
        await self._settled(before)
        if not (was_up := self._is_up):
            self._check_start(command.spec.agent)
        if self._adapter is None:
            self._adapter, self._agent = self._make(command.spec.agent), command.spec.agent
        adapter: object = self._adapter
        if not isinstance(adapter, HasThreads):
            raise CommandRefused(f"{command.spec.agent} has no threads")
        try:
            done.append(await self._counted(adapter.thread(command, self._note_start)))
            if not was_up:
                # Some commands start the agent and begin no conversation.
                self._starts.came_up(self._agent)
        finally:
            if not self._is_up:
                await self._close_adapter()

    async def answer(self, turn_id: str, request: str, option: str, payload: bytes | None = None) -> None:
        """Raises `Conflict` when the turn or the request is not open any more."""
        turn = self.running
        if turn is None or turn.id != turn_id or self._adapter is None:
            raise Conflict("the turn that asked this is over", reason="notOpen")
        adapter: object = self._adapter
        try:
            if payload is None:
                await self._adapter.answer(request, option)
            elif isinstance(adapter, TakesAnswers):
                await adapter.answer_with(request, option, payload)
            else:
                raise Conflict("this agent takes no such answer", reason="notOpen")
        except AgentFailed as error:
            raise Conflict(error.text, reason="notOpen") from error

    async def close(self) -> None:
        """Drop every turn, reporting nothing, and end the agent. Safe to repeat; every caller waits for the end."""
        for turn in self._turns.values():
            turn.drop()
        self._turns.clear()
        self._current = None
        if self._closing is None or self._closing.done() or not self._work <= self._closed_work:
            self._begin_end(frozenset(self._work))
        assert self._closing is not None
        await asyncio.shield(self._closing)

    # ------------------------------------------------------------------- one turn

    def _begin_work(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    async def _run(self, turn: Turn, start: StartTurn, before: "asyncio.Task[None] | None") -> None:
        try:
            await self._settled(before)
            adapter = await self._ready(start.spec)
            if self._untold is not None:
                introduce(turn, start.spec, self._untold)
                self._untold = None
            if (modes := self.modes) is not None and modes != self._told_modes:
                self._told_modes = modes
                turn.emit(modes)
            await adapter.prompt(start.prompt, start.images, turn.emit)
        except AgentFailed as error:
            # The death of an agent, unlike a failure that it reports, must not use up the session's queue.
            turn.end("lost" if error.exited else "failed", error.text)
        except asyncio.CancelledError:
            turn.end("interrupted", STOPPED)
            raise
        except Exception as error:  # noqa: BLE001 - the border of the agents: an adapter's own fault ends its turn only
            self._log.error("turn.adapter_failed", sessionId=self.session_id, error=repr(error))
            turn.end("failed", "a fault inside the runtime worker; its log has more")

    async def _settled(self, before: "asyncio.Task[None] | None") -> None:
        """A stop or a drop of the turn before may still be ending its agent, a question may be starting one."""
        for task in (before, *self._stops.values(), self._closing):
            if task is not None:
                await asyncio.wait([task])

    async def _start_idle(self, spec: SessionSpec, before: "asyncio.Task[None] | None") -> None:
        await self._settled(before)
        if not self._is_up:
            await self._ready(spec)

    async def _ready(self, spec: SessionSpec) -> Adapter:
        """The agent, running and with this session's settings."""
        adapter = self._adapter
        if adapter is not None:
            async with self._settling:
                fits = adapter.alive and self._agent == spec.agent and await adapter.apply(spec)
            if fits:
                return adapter
            await self._close_adapter()
        self._check_start(spec.agent)
        adapter = self._make(spec.agent)
        self._adapter, self._agent = adapter, spec.agent
        self._note_start(await self._counted(adapter.start(spec)))
        return adapter

    def _check_start(self, agent: str) -> None:
        if (reason := self._starts.why_not(agent, self.session_id)) is not None:
            raise AgentFailed(reason, exited=True)

    async def _counted(self, start: Coroutine[Any, Any, T]) -> T:
        """What comes of ``start``, which may start the agent: an end of it right then counts."""
        began_s = self._starts.now()
        try:
            return await start
        except AgentFailed as error:
            if not error.exited:
                raise
            text = self._starts.exited(self._agent, self.session_id, error.text, began_s=began_s)
            raise AgentFailed(text, exited=True) from error

    def _note_start(self, started: Started) -> None:
        self._log.info("agent.started", sessionId=self.session_id, agent=self._agent, version=started.version)
        self._starts.came_up(self._agent)
        self._untold, self._models = started, ModelList(started.models, started.details)

    async def _interrupt(self, turn: Turn, ending: TurnEnded | None) -> bool:
        if turn.ended.is_set():
            return False
        lost, give_up_at = False, asyncio.get_running_loop().time() + STOP_S
        turn.stop(ending)
        if self._task is not None and not self._task.done():
            # Still starting: there is nothing to cancel at the agent.
            self._task.cancel()
            await asyncio.wait([self._task])
            await self._close_adapter()
        elif self._adapter is not None:
            try:
                async with asyncio.timeout(INTERRUPT_S):
                    await self._adapter.interrupt()
            except (TimeoutError, AgentFailed) as error:
                self._log.error("turn.interrupt_failed", sessionId=self.session_id, error=repr(error))
                lost = isinstance(error, AgentFailed) and error.conversation_lost
                # The next turn waits for it; whoever stops this one gets an answer in any case.
                await asyncio.wait([self._begin_end()], timeout=CLOSE_S)
        turn.end("interrupted", STOPPED)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(give_up_at):
                await turn.ended.wait()
        return lost

    def _over(self, turn: Turn, known: bool) -> None:
        self._turns.pop(turn.id, None)
        self._on_confirmed()
        if known:
            return
        turn.drop()
        if turn is self._current:
            self._current = None
            self._begin_end(frozenset([self._task] if self._task is not None else []))

    # ------------------------------------------------------------------ the agent

    def _end_before(self, turn: Turn) -> None:
        """End the agent, then have the end of ``turn`` told: whatever it left running is gone by then."""
        ending = asyncio.create_task(self._ended_before(turn, self._begin_end()))
        self._ends.add(ending)
        ending.add_done_callback(self._ends.discard)

    async def _ended_before(self, turn: Turn, closing: asyncio.Task[None]) -> None:
        done, _ = await asyncio.wait([closing], timeout=AGENT_END_S)
        if not done:
            self._log.error("agent.outlives_turn", sessionId=self.session_id)
        turn.told()

    def _hold_back(self, held: bool) -> None:
        adapter: object = self._adapter
        if isinstance(adapter, HoldsBack):
            adapter.hold_back(held)

    def _begin_end(self, work: frozenset[asyncio.Task[None]] = frozenset()) -> asyncio.Task[None]:
        """Begin to end ``work`` and the agent; it is done when what was being ended already has ended too."""
        self._closed_work = work
        self._closing = asyncio.create_task(self._end_agent(work, self._closing))
        return self._closing

    async def _end_agent(self, work: frozenset[asyncio.Task[None]], before: "asyncio.Task[None] | None") -> None:
        # The work as it was: a turn that was begun since waits for this one.
        for task in work:
            task.cancel()
        for waited in (*work, before):
            if waited is not None:
                await asyncio.wait([waited])
        await self._close_adapter()

    async def _close_adapter(self) -> None:
        adapter, self._adapter = self._adapter, None
        if adapter is None:
            return
        # Whoever waits may be cancelled; a process that is half ended would be nobody's.
        closing = asyncio.ensure_future(adapter.close())
        self._ends.add(closing)
        closing.add_done_callback(self._ends.discard)
        try:
            await asyncio.shield(closing)
        except AgentFailed as error:
            # Its process is gone or will be ended with its shim; the session can have a new one.
            self._log.repeating("agent.close_failed", sessionId=self.session_id, error=error.text)
