"""What a client ends: a running turn (stop), or a session with everything that it delegated (kill)."""

from collections.abc import Callable
from typing import Protocol

from msgspec import UNSET

from termal.bus.loop import Loop
from termal.bus.server import Request
from termal.log import Log
from termal.rules.queue import drains
from termal.rules.turn_end import end_of_turn
from termal.wire.errors import Conflict, Internal, NotFound, TermalError
from termal.wire.runtime_operations import SESSIONS_CLOSE, TURN_STOP, CloseSessions, StopTurn, TurnStopped
from termal.wire.session_operations import OneSession
from termal.wire.turns import Anything, JsonReply, TurnConfirmed
from workers.state.change import Book, Change
from workers.state.clock import sooner
from workers.state.codex_links import leave_thread
from workers.state.departures import Departures, Leaving
from workers.state.reports import Reports, confirm_all
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord
from workers.state.turn import Turn
from workers.state.turns import Turns
from workers.state.workspace import end_among

KILL_WAIT_S = 0.05
"""A kill waits this long for the agents' processes to be gone."""
DEPART_WAIT_S = 0.5
"""And this long for the mailboxes to know of it."""
_MAILBOXES = "mailboxes"
STOP_REPLY_S = 0.5
"""Kept of a stop's deadline for the reply that it failed."""
NotReady = Callable[[str], str | None]
"""Why no session of an agent can run here now, None when it can."""


class Asker(Protocol):
    """Who wants a turn to be stopped: a request, or a part of this worker."""

    deadline_s: float | None
    trace: str

    def reply(self, value: object) -> None: ...

    def refuse(self, error: TermalError) -> None: ...


class Endings:
    def __init__(
        self,
        book: Book,
        turns: Turns,
        reports: Reports,
        runtimes: Runtimes,
        departures: Departures,
        *,
        loop: Loop,
        not_ready: NotReady,
        log: Log,
    ) -> None:
        self.on_removing: list[Callable[[Change, SessionRecord, list[SessionRecord]], None]] = []
        """Run within the commit that removes a session and everything below it, before they are gone."""
        self._book = book
        self._turns = turns
        self._reports = reports
        self._runtimes = runtimes
        self._departures = departures
        self._loop = loop
        self._not_ready = not_ready
        self._log = log

    # ------------------------------------------------------------------------- stop

    def stop(self, request: Asker, body: OneSession) -> None:
        """The handler of ``session.stop``. Until the agent has stopped, everybody sees the state from before."""
        record = self._book.registry.find(body.session_id)
        turn = record.turn
        if not record.busy or turn is None:
            raise Conflict("the session is not running", reason="notRunning")
        if turn.phase == "stopping" or turn.stop_wanted:
            raise Conflict("the session is already stopping", reason="alreadyStopping")
        if turn.phase == "running":
            self._stop(request, record, turn)
            return
        turn.stop_wanted = True
        turn.on_taken.append(lambda error: self._stop_later(request, record, turn, error))

    def _stop_later(self, request: Asker, record: SessionRecord, turn: Turn, error: TermalError | None) -> None:
        turn.stop_wanted = False
        if error is not None or record.turn is not turn:
            request.refuse(Conflict("the session is not running", reason="notRunning"))
        else:
            self._stop(request, record, turn)

    def _stop(self, request: Asker, record: SessionRecord, turn: Turn) -> None:
        turn.phase = "stopping"

        def done(reply: TurnStopped | None, error: TermalError | None) -> None:
            if record.removed:
                request.refuse(NotFound("the session was removed"))
            elif record.turn is not turn or turn.phase != "stopping":
                request.refuse(Internal("the agent's worker ended during the stop", reason="runtimeEnded"))
            elif error is not None and record.agent != "Codex":
                self._stop_failed(request, turn, error)
            else:
                if reply is None or reply.conversation_lost:
                    self._let_conversation_go(record, turn)
                self._turns.mail.before(record, stopped)

        def stopped() -> None:
            if record.removed:
                request.refuse(NotFound("the session was removed"))
            elif record.turn is turn and turn.phase == "stopping":
                self._stopped(request, record, turn)

        deadline_s = sooner(request.deadline_s, STOP_REPLY_S)
        client = self._runtimes.client(turn.worker)
        stop = StopTurn(record.id, turn.id)
        call = client.call(TURN_STOP, stop, done, trace=request.trace, deadline_s=deadline_s)

        def lost() -> None:
            # The next worker of this name would have nothing to stop.
            call.cancel()
            request.refuse(Internal("the agent's worker ended during the stop", reason="runtimeEnded"))

        turn.stop_lost = lost

    def _let_conversation_go(self, record: SessionRecord, turn: Turn) -> None:
        """Its agent may still be at work there: the next turn begins another one."""
        self._log.warning("session.conversation_lost", sessionId=record.id, turnId=turn.id)
        leave_thread(self._book.registry, record)
        self._runtimes.client(turn.worker).call(SESSIONS_CLOSE, CloseSessions([record.id]), lambda _, __: None)

    def _stop_failed(self, request: Asker, turn: Turn, error: TermalError) -> None:
        turn.phase = "running"
        self._reports.replay(turn)
        request.refuse(Internal(f"the agent could not be stopped: {error.message}", reason="stopFailed"))

    def _stopped(self, request: Asker, record: SessionRecord, turn: Turn) -> None:
        """One commit: the turn is over, and its successor, if there is one that can start, is the running turn."""
        change = self._book.change()
        end = end_among(report for _, report in turn.deferred)
        self._turns.close(change, record, end_of_turn("stopped", record.agent), end)
        self._turns.retire(record, turn)
        problem = None
        if drains([queued.entry.source for queued in record.queue], blocked=record.blocked):
            problem = self._not_ready(record.agent)
            if problem is None and (refused := self._turns.problem_of_next(record)) is not None:
                problem = refused.message
            if problem is None:
                self._turns.dispatch_head(change, record)
        change.commit()
        deferred, turn.deferred = turn.deferred, []
        reply = JsonReply(self._book.projections.state(record))

        def committed() -> None:
            for late, report in deferred:
                confirm_all(late, report)
            if problem is None:
                request.reply(reply)
            else:
                request.refuse(Internal(f"the next prompt waits: {problem}", reason="successorNotStarted"))

        self._book.journal.after(committed)

    def worker_ended(self, worker: str) -> None:
        """The turns that ``worker`` held end; a stop under way has failed, what came meanwhile is applied first."""
        for record in list(self._book.registry.sessions.values()):
            turn = record.turn
            if turn is not None and turn.worker == worker and turn.phase == "stopping":
                turn.phase = "running"
                if turn.stop_lost is not None:
                    turn.stop_lost()
                self._reports.replay(turn)
        self._turns.runtime_ended(worker)

    # ------------------------------------------------------------------------- kill

    def kill(self, request: Request, body: OneSession) -> None:
        """The handler of ``session.kill``: rows first, then the agents; other sessions are not disturbed."""
        registry = self._book.registry
        root = registry.find(body.session_id)
        doomed = registry.descendants(root)
        change = self._book.change()
        for hook in self.on_removing:
            hook(change, root, doomed)
        for record in doomed:
            external = record.session.external_session_id
            if record.agent == "Codex" and not record.remote and external is not UNSET:
                registry.ignore_thread(external)
            change.remove(record)
        leaving = self._departures.add(doomed)
        change.commit(after=lambda: self._killed(request, doomed, leaving, reply))
        reply = JsonReply(self._book.projections.state())

    def _killed(self, request: Request, doomed: list[SessionRecord], leaving: Leaving, reply: JsonReply) -> None:
        """Answered when the agents are gone and the mailboxes know, in either case soon."""
        for record in doomed:
            self._let_go(record)
        agents = {client.worker for client in self._runtimes.up()}
        waiting = {*agents, _MAILBOXES}

        def ended(*names: str) -> None:
            waiting.difference_update(names)
            if not waiting:
                request.reply(reply)

        def closed(worker: str) -> Callable[[Anything | None, TermalError | None], None]:
            def done(_: Anything | None, error: TermalError | None) -> None:
                if error is not None:
                    self._log.warning("session.close_failed", worker=worker, error=error.message)
                ended(worker)

            return done

        ids = CloseSessions([record.id for record in doomed])
        for client in self._runtimes.up():
            client.call(SESSIONS_CLOSE, ids, closed(client.worker))
        self._loop.later(KILL_WAIT_S, lambda: ended(*agents))
        self._loop.later(DEPART_WAIT_S, lambda: request.reply(reply))
        self._departures.send(leaving, lambda: ended(_MAILBOXES))

    def _let_go(self, record: SessionRecord) -> None:
        """Whoever waits for the removed session or its turn gets an answer."""
        confirms, record.confirms = record.confirms, []
        for confirm in confirms:
            confirm()
        turn, record.turn = record.turn, None
        if turn is None:
            return
        if turn.start_call is not None:
            turn.start_call.cancel()
        turn.taken(NotFound("the session was removed"))
        turn.drained()
        for request, _ in turn.deferred:
            request.reply(TurnConfirmed(turn.id, 0, known=False))
