"""After a start: turns that a runtime worker still holds go on, all others end as cut off by the restart."""

from collections.abc import Callable, Sequence

from termal.log import Log
from termal.model.message import Text
from termal.model.session import LiveActivity
from termal.rules.closing import is_pending
from termal.rules.wording import restart_notice
from termal.wire.errors import Internal, TermalError
from termal.wire.runtime_operations import AGENT_TREES, SESSIONS_CLOSE, TURN_HELD, AgentTrees, CloseSessions
from termal.wire.turns import Anything, Held
from workers.state.change import Book, Change
from workers.state.delegation_waits import unsent_again
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord
from workers.state.turn import Turn
from workers.state.turns import Turns


class Recovery:
    def __init__(self, book: Book, turns: Turns, runtimes: Runtimes, log: Log) -> None:
        self._book = book
        self._turns = turns
        self._runtimes = runtimes
        self._log = log
        self.on_known: list[Callable[[], None]] = []
        """Run once every turn that goes on is known again after a restart of this worker alone."""
        self._asked: set[str] = set()
        self._inherited: set[str] = set()

    def boot(self, change: Change) -> None:
        """The daemon starts: no turn is held by anybody."""
        self._book.registry.starts += 1
        for record in self._book.registry.sessions.values():
            if record.turn is not None and record.turn.phase == "ended":
                self._turns.retire(record, record.turn)
            if record.busy and not record.remote:
                self._settle(change, record)

    def replacement(self, change: Change) -> None:
        """This worker alone was restarted: ask every runtime worker that runs which turns it holds."""
        for record in self._book.registry.sessions.values():
            turn = record.turn
            if record.busy and not record.remote and (turn is None or turn.worker not in self._runtimes.running):
                self._lose(change, record)
            elif record.busy and turn is not None:
                self._inherited.add(turn.id)
                self._relive(record, turn)

    def ask(self) -> None:
        """After the start is stored: ask, and do what an end before the restart had left to do."""
        for record in list(self._book.registry.sessions.values()):
            turn = record.turn
            if turn is not None and turn.phase == "ended":
                self._turns.mail.before(record, self._following(record, turn))
        for worker in sorted(self._runtimes.running):
            self._asked.add(worker)
            client = self._runtimes.client(worker)
            client.call(TURN_HELD, Anything(), self._answered(worker))
            client.call(AGENT_TREES, Anything(), self._agents(worker))
        self._known()

    def _following(self, record: SessionRecord, turn: Turn) -> Callable[[], None]:
        return lambda: self._turns.follow(record, turn, workflow_only=False)

    def peers(self, running: Sequence[str]) -> None:
        """A worker that was asked is gone and will not answer."""
        for worker in sorted(self._asked - set(running)):
            self._asked.discard(worker)
            self._compare(worker, Held("", []))
            self._known()

    def _known(self) -> None:
        if not self._asked:
            for callback in self.on_known:
                callback()

    def _agents(self, worker: str) -> Callable[[AgentTrees | None, TermalError | None], None]:
        def done(trees: AgentTrees | None, error: TermalError | None) -> None:
            if trees is not None:
                self._end_strangers(worker, [session for agent in trees.agents for session in agent.session_ids])

        return done

    def _end_strangers(self, worker: str, sessions: Sequence[str]) -> None:
        """A session was removed, and its agent was to be ended when the last state worker was."""
        registry = self._book.registry
        gone = sorted({session for session in sessions if session not in registry.sessions} - registry.quarantined)
        if gone:
            self._log.info("session.agents_ended", worker=worker, sessions=gone)
            self._runtimes.client(worker).call(SESSIONS_CLOSE, CloseSessions(gone), lambda reply, error: None)

    def _answered(self, worker: str) -> Callable[[Held | None, TermalError | None], None]:
        def done(held: Held | None, error: TermalError | None) -> None:
            if worker in self._asked:
                self._asked.discard(worker)
                self._compare(worker, held or Held("", []))
                self._known()

        return done

    def _compare(self, worker: str, held: Held) -> None:
        self._end_strangers(worker, [entry.session_id for entry in held.turns])
        turns = {entry.turn_id for entry in held.turns}
        for record in list(self._book.registry.sessions.values()):
            turn = record.turn
            if turn is None or turn.worker != worker or turn.id not in self._inherited:
                continue
            self._inherited.discard(turn.id)
            if turn.id in turns:
                self._log.info("turn.taken_up", sessionId=record.id, turnId=turn.id, lastEvent=turn.last_event)
                self._turns.took(record, turn)
            elif turn.phase == "held":
                change = self._book.change()
                if held.runtime:
                    unsent_again(self._book.registry, record, turn)
                self._lose(change, record)
                change.commit()
            elif turn.phase == "running":
                # It was reported on after this worker's start, and its own worker has ended since.
                self._turns.lost(record, turn)

    @staticmethod
    def _relive(record: SessionRecord, turn: Turn) -> None:
        """The live activity is not stored; its prompt is in the transcript."""
        position = record.positions.get(turn.prompt_id)
        message = record.at(position) if position is not None else None
        record.live = LiveActivity(prompt=message.text if isinstance(message, Text) else "")

    def _lose(self, change: Change, record: SessionRecord) -> None:
        """Nobody holds the turn of ``record``; a wake that started it waits again."""
        if record.turn is not None:
            self._turns.woken.lost(record, record.turn)
        self._settle(change, record)

    def _settle(self, change: Change, record: SessionRecord) -> None:
        """Close what was open, say what happened, keep the queue; nothing is sent to the agent again."""
        request_open = any(is_pending(message) for message in record.messages)
        change.close(record, "restart")
        self._turns.say(change, record, restart_notice(request_open=request_open, queued=len(record.queue)))
        record.status = "error"
        record.live = None
        change.summary(record)
        turn, record.turn = record.turn, None
        for hook in self._turns.on_closed:
            hook(change, record, None)
        if turn is not None:
            cut_off = Internal("the daemon was restarted before the agent took the prompt", reason="restarted")
            turn.taken(cut_off)
