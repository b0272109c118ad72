"""The operations of a runtime worker: takes turns, stops them, says what it holds, ends agents. Persists nothing."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import structs

from termal.bus.server import Handler, Request
from termal.faults import fault
from termal.log import Log
from termal.wire.agent_operations import AGENT_FORGIVE, AgentTrouble, OneAgent
from termal.wire.errors import Conflict, Internal, InvalidRequest, TermalError
from termal.wire.facts import OperationCount
from termal.wire.runtime_operations import (
    AGENT_TREES,
    INTERACTION_ANSWER,
    MODELS_LIST,
    SESSIONS_CLOSE,
    SETTINGS_APPLY,
    TURN_HELD,
    TURN_START,
    TURN_STOP,
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
from termal.wire.thread_operations import CODEX_THREAD, ThreadCommand, ThreadDone
from termal.wire.turns import AgentTree, Anything, Held, SessionSpec, TurnEnded
from termal.worker.stats import Stats
from workers.runtime.adapter import AgentFailed, CommandRefused
from workers.runtime.conversation import Conversation, MakeAdapter
from workers.runtime.reporter import Link
from workers.runtime.starts import Starts

REMEMBERED_TURNS = 1024
"""Turns that are over and may still be asked for again."""


class Service:
    """Made and used on the worker's loop. ``complete`` adds what this worker knows to what state says of a session."""

    def __init__(
        self,
        link: Link,
        make: MakeAdapter,
        stats: Stats,
        log: Log,
        complete: Callable[[SessionSpec], SessionSpec] = lambda spec: spec,
    ) -> None:
        self.starts = Starts()
        self._complete = complete
        self._link = link
        self._make = make
        self._stats = stats
        self._log = log
        self._conversations: dict[str, Conversation] = {}
        self._taken: OrderedDict[str, None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet = asyncio.Event()

    @property
    def handlers(self) -> dict[str, Handler]:
        return {
            TURN_START.name: self._start,
            TURN_STOP.name: self._answering(self._stop),
            TURN_HELD.name: self._held,
            SESSIONS_CLOSE.name: self._answering(self._close),
            INTERACTION_ANSWER.name: self._answering(self._answer),
            AGENT_TREES.name: self._trees,
            SETTINGS_APPLY.name: self._answering(self._apply),
            MODELS_LIST.name: self._answering(self._models),
            CODEX_THREAD.name: self._answering(self._thread),
            AGENT_FORGIVE.name: self._forgive,
        }

    @property
    def running_turns(self) -> int:
        return sum(1 for conversation in self._conversations.values() if conversation.running is not None)

    @property
    def held_turns(self) -> int:
        return sum(len(conversation.held()) for conversation in self._conversations.values())

    @property
    def troubles(self) -> list[AgentTrouble]:
        """The agents that ended right after their last start, and the sessions in which they run all the same."""
        alive: dict[str, list[str]] = {}
        for conversation in self._conversations.values():
            if conversation.agent is not None:
                alive.setdefault(conversation.agent[0], []).append(conversation.session_id)
        return [
            AgentTrouble(
                agent, trouble.exits, trouble.parked, trouble.until_s, trouble.text, alive.get(agent, []), trouble.only
            )
            for agent, trouble in self.starts.troubles.items()
        ]

    async def interrupt_all(self) -> None:
        """End every running turn because the daemon stops.

        Reported as lost and not as interrupted: nothing may start after it, and what is queued stays queued.
        """
        running = [
            conversation.stop(turn.id, TurnEnded("lost", "the daemon was stopped while the turn ran"))
            for conversation in self._conversations.values()
            if (turn := conversation.running) is not None
        ]
        await asyncio.gather(*running)

    async def all_confirmed(self) -> None:
        """Return when no turn is held any more."""
        self._quiet.clear()
        self._confirmed()
        await self._quiet.wait()

    async def close_all(self) -> None:
        await asyncio.gather(*(conversation.close() for conversation in self._conversations.values()))

    def _confirmed(self) -> None:
        if not self.held_turns:
            self._quiet.set()

    # ------------------------------------------------------------------ operations

    def _start(self, request: Request, start: StartTurn) -> None:
        session_id = start.spec.session_id
        if start.turn_id not in self._taken:
            start = structs.replace(start, spec=self._complete(start.spec))
            conversation = self._conversation(session_id)
            if (reason := conversation.why_not(start.spec.agent)) is not None:
                raise Conflict(reason, reason="agentExits")
            conversation.begin(start)
            self._taken[start.turn_id] = None
            if len(self._taken) > REMEMBERED_TURNS:
                self._taken.popitem(last=False)
            fault("runtime.after_turn_taken_before_reply")
        request.reply(TurnTaken(self._link.runtime))

    def _conversation(self, session_id: str) -> Conversation:
        conversation = self._conversations.get(session_id)
        if conversation is None:
            conversation = Conversation(
                self._link, session_id, self._make, self._log, on_confirmed=self._confirmed, starts=self.starts
            )
            self._conversations[session_id] = conversation
        return conversation

    async def _apply(self, order: ApplySettings) -> SettingsApplied:
        conversation = self._conversations.get(order.spec.session_id)
        if conversation is None:
            return SettingsApplied()
        try:
            live = await conversation.settle(self._complete(order.spec))
            return SettingsApplied(live, conversation.modes)
        except AgentFailed as error:
            if error.unanswered:
                raise Internal(error.text, reason="agentFailed") from error
            raise Conflict(error.text, reason="agentRefused") from error

    async def _models(self, ask: ListModels) -> ModelList:
        try:
            return await self._conversation(ask.spec.session_id).models(self._complete(ask.spec))
        except AgentFailed as error:
            raise Internal(error.text, reason="agentFailed") from error

    async def _thread(self, command: ThreadCommand) -> ThreadDone:
        command = structs.replace(command, spec=self._complete(command.spec))
        try:
            return await self._conversation(command.spec.session_id).thread(command)
        except CommandRefused as error:
            raise InvalidRequest(str(error), reason="agentRefused") from error
        except AgentFailed as error:
            raise Internal(error.text, reason="agentFailed") from error

    def _held(self, request: Request, _: Anything) -> None:
        turns = [turn for conversation in self._conversations.values() for turn in conversation.held()]
        request.reply(Held(self._link.runtime, turns))

    def _forgive(self, request: Request, body: OneAgent) -> None:
        self.starts.forgive(body.agent)
        request.reply(Anything())

    def _trees(self, request: Request, _: Anything) -> None:
        sessions: dict[tuple[str, int], list[str]] = {}
        for conversation in self._conversations.values():
            if conversation.agent is not None:
                sessions.setdefault(conversation.agent, []).append(conversation.session_id)
        trees = [AgentTree(agent, pid, ids) for (agent, pid), ids in sessions.items()]
        counts = [OperationCount(op, outcome, count) for (op, outcome), count in self._stats.counts.items()]
        request.reply(AgentTrees(trees, counts))

    async def _stop(self, stop: StopTurn) -> TurnStopped:
        conversation = self._conversations.get(stop.session_id)
        lost = conversation is not None and await conversation.stop(stop.turn_id)
        return TurnStopped(conversation_lost=lost)

    async def _close(self, close: CloseSessions) -> Anything:
        found = [self._conversations[number] for number in close.session_ids if number in self._conversations]
        await asyncio.gather(*(conversation.close() for conversation in found))
        for conversation in found:
            # What began during the end belongs to it, and must be found when it is to be stopped.
            if self._conversations.get(conversation.session_id) is conversation and not conversation.in_use:
                del self._conversations[conversation.session_id]
            if self._link.watches is not None:
                self._link.watches.closed(conversation.session_id)
        return Anything()

    async def _answer(self, answer: AnswerInteraction) -> Anything:
        conversation = self._conversations.get(answer.session_id)
        if conversation is None:
            raise Conflict("the turn that asked this is over", reason="notOpen")
        await conversation.answer(answer.turn_id, answer.request, answer.option, answer.payload)
        return Anything()

    def _answering(self, work: Callable[[Any], Coroutine[Any, Any, object]]) -> Handler:
        """A handler that answers when ``work`` is done."""

        async def carry_out(request: Request, record: object) -> None:
            try:
                request.reply(await work(record))
            except TermalError as error:
                request.refuse(error)
            except Exception as error:  # noqa: BLE001 - the border of the bus: our own fault, answered and logged
                self._log.error("operation.failed", operation=request.op.name, error=repr(error))
                request.refuse(Internal("a fault inside the daemon; its log has more"))

        def handle(request: Request, record: object) -> None:
            task = asyncio.create_task(carry_out(request, record))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return handle
