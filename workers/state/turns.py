"""The life of a turn: a prompt becomes one, its runtime worker takes it or refuses it, it ends, the queue goes on."""

from collections.abc import Callable
from time import monotonic

from msgspec import UNSET
from msgspec.structs import replace

from termal.faults import fault
from termal.log import Log
from termal.model.ids import new_turn_id
from termal.model.message import Text
from termal.model.session import LiveActivity, PendingPrompt, Session
from termal.model.stored import QueueEntry
from termal.rules import wording
from termal.rules.peer_prompt import worded
from termal.rules.queue import drains, drains_after_loss
from termal.rules.settings import modes_of, runtime_of
from termal.rules.turn_end import Ending, Verdict, end_of_turn
from termal.wire.errors import Busy, Conflict, Internal, NotFound, NotImplementedYet, OutcomeUnknown, TermalError
from termal.wire.operation import WRITE_S
from termal.wire.runtime_operations import TURN_START, TURN_STOP, StartTurn, StopTurn, TurnTaken
from termal.wire.session_operations import PromptImage
from termal.wire.turns import SessionSpec, TurnEnded
from workers.state.change import Book, Change
from workers.state.clock import now_text
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord
from workers.state.turn import Turn
from workers.state.wake_entries import started
from workers.state.woken_turns import WokenTurns
from workers.state.workspace import NO_END, add_files
from workers.state.write_lock import restricted

REPLY_S = 0.3
"""Kept of a request's deadline for the answer that a turn could not be started."""
START_S = 1.0
"""A runtime worker answers within this time; who waits for less does not end the turn by going away."""
Closed = Callable[[Change, SessionRecord, Verdict | None], None]
_EXITS = "agentExits"
_NOT_THERE = "the worker that runs this agent is not there; see `termal status`"


class Turns:
    def __init__(self, book: Book, runtimes: Runtimes, woken: WokenTurns, log: Log) -> None:
        self.mail = woken.mail
        self.woken = woken
        self.on_closed: list[Closed] = []
        """Run within the commit that ends a turn; without a verdict where a restart ended it."""
        self._book = book
        self._runtimes = runtimes
        self._log = log
        self._held_up: set[str] = set()
        runtimes.troubles.on_over.append(self._go_on_all)

    def problem(self, record: SessionRecord) -> TermalError | None:
        """Why no turn of ``record`` can start now, whatever its prompt says."""
        if record.remote:
            return NotImplementedYet("sessions of other daemons cannot be driven from here")
        if record.session.codex_thread_state == "archived":
            return Conflict("the Codex thread is archived; unarchive it first", reason="archivedThread")
        if record.thread_busy:
            return Conflict("something is being done with the Codex thread; try again", reason="threadBusy")
        exits = self._runtimes.troubles.why_not(record.agent, record.id)
        return None if exits is None else Conflict(exits, reason=_EXITS)

    def problem_of_next(self, record: SessionRecord) -> TermalError | None:
        """The same for what follows a turn by itself. What only the agent holds up goes on when that may be started."""
        problem = self.problem(record)
        if problem is not None and problem.reason == _EXITS:
            self._held_up.add(record.id)
        return problem

    def dispatch(self, change: Change, record: SessionRecord, entry: QueueEntry) -> Turn:
        """Make ``entry`` the running turn, within ``change``; the caller commits it and calls `start` after that."""
        prompt = entry.pending_prompt
        if record.turn is not None:
            self.retire(record, record.turn)
        turn = Turn(new_turn_id(), runtime_of(record.agent), prompt.id)
        turn.entry = None if entry.source == "user" else entry
        turn.wake = entry if entry.source == "mailbox" else None
        started(record, entry)
        record.started_in = self._book.registry.starts
        record.turn = turn
        self._held_up.discard(record.id)
        record.status = "active"
        record.blocked = False
        record.live = LiveActivity(prompt=prompt.text)
        self._activate_codex(record)
        fault("state.in_dispatch")
        change.summary(record)
        change.append(
            record,
            Text(
                id=prompt.id,
                timestamp=prompt.timestamp,
                author="you",
                text=prompt.text,
                attachments=prompt.attachments,
                expanded_text=prompt.expanded_text,
                source=prompt.source,
            ),
        )
        return turn

    def start(self, record: SessionRecord, turn: Turn, entry: QueueEntry, deadline_s: float | None = None) -> None:
        """Hand a committed turn to its runtime worker, which takes it or refuses it; `Turn.on_taken` learns which."""
        if record.removed or record.turn is not turn:
            turn.taken(NotFound("the session was removed"))
            return
        now = monotonic()
        patient = deadline_s is not None and deadline_s - REPLY_S > now + START_S
        limit = deadline_s - REPLY_S if deadline_s is not None and patient else now + WRITE_S
        request = StartTurn(
            spec=restricted(self._book.registry, record, self.spec(record)),
            turn_id=turn.id,
            prompt=self._prompt(record, entry.pending_prompt),
            images=[
                PromptImage(image.data, image.metadata.media_type, image.metadata.file_name)
                for image in entry.attachments
            ],
        )

        def done(reply: TurnTaken | None, error: TermalError | None) -> None:
            fault("state.after_turn_start_sent")
            if record.turn is not turn or turn.phase != "starting":
                return
            if error is not None:
                self._refused(record, turn, error)
                return
            self.took(record, turn)

        worker = self._runtimes.wanted(turn.worker)
        turn.start_call = worker.call(TURN_START, request, done, trace=turn.id, deadline_s=limit)

    def took(self, record: SessionRecord, turn: Turn) -> None:
        """A runtime worker holds ``turn``: by its word, or because it reports events of it."""
        if turn.phase in ("starting", "held"):
            turn.phase = "running"
            turn.entry = None
            self.woken.taken(record, turn)
            turn.taken(None)

    def end(self, record: SessionRecord, turn: Turn, ending: Ending, detail: str = "", end: TurnEnded = NO_END) -> None:
        """``turn`` is over: the transcript says so in one commit, then the queue may go on. ``end``: as it was told."""
        verdict = end_of_turn(ending, record.agent, detail)
        change = self._book.change()
        self.close(change, record, verdict, end)
        if verdict.drain == "head":
            turn.phase = "ended"
        else:
            self.retire(record, turn)
        change.commit(after=lambda: self.after_end(record, turn, verdict))

    def close(self, change: Change, record: SessionRecord, verdict: Verdict, end: TurnEnded = NO_END) -> None:
        """Everything open ends, the files of ``end`` and the closing text are appended, the status is what it is after
        the turn."""
        record.status = verdict.status
        record.live = None
        record.stored = replace(
            record.stored,
            active_codex_approval_policy=None,
            active_codex_sandbox_mode=None,
            active_codex_reasoning_effort=UNSET,
        )
        change.close(record, verdict.close)
        add_files(self._book.registry, change, record, end.files, end.more_files)
        if verdict.text is not None:
            self.say(change, record, verdict.text)
        if not record.preview.strip():
            record.preview = wording.DONE
        change.summary(record)
        for hook in self.on_closed:
            hook(change, record, verdict)

    def say(self, change: Change, record: SessionRecord, text: str) -> None:
        """Append ``text`` as the assistant's."""
        registry = self._book.registry
        message = Text(id=registry.new_message_id(), timestamp=now_text(), author="assistant", text=text)
        change.append(record, message)

    def after_end(self, record: SessionRecord, turn: Turn, verdict: Verdict) -> None:
        """The end is stored: start what follows it, then confirm the end to whoever reported it."""
        fault("state.after_turn_end_before_drain")
        self.mail.before(record, lambda: self.follow(record, turn, workflow_only=verdict.drain == "workflow"))

    def follow(self, record: SessionRecord, turn: Turn, *, workflow_only: bool) -> None:
        """Start what comes after the ended ``turn``, if anything does, and forget it."""
        if record.removed:
            turn.drained()
        elif record.busy or self.drain(record, workflow_only=workflow_only):
            # What follows is decided: it, and with it the memory of this turn, is in the next commit.
            self._book.journal.after(turn.drained)
        else:
            self.retire(record, turn)
            turn.drained()

    def go_on(self, record: SessionRecord) -> None:
        """Start the queue's head, mail first, if the rules let it and nothing else has started."""

        def start() -> None:
            if not record.removed and not record.busy:
                self.drain(record, workflow_only=False)

        self.mail.before(record, start)

    def _go_on_all(self) -> None:
        """Some agent may be started again: go on with what nothing but that held up."""
        held_up, self._held_up = self._held_up, set()
        for record in [record for record in self._book.registry.sessions.values() if record.id in held_up]:
            self.go_on(record)

    def drain(self, record: SessionRecord, *, workflow_only: bool) -> bool:
        """Start the queue's head if the rules let it; whether a turn was dispatched."""
        sources = [queued.entry.source for queued in record.queue]
        rule = drains_after_loss if workflow_only else drains
        if not rule(sources, blocked=record.blocked):
            return False
        # What waits after a loss waits for a person, or goes on with the other workflow prompts.
        problem = self.problem(record) if workflow_only else self.problem_of_next(record)
        if problem is not None:
            self._log.warning("queue.waits", sessionId=record.id, error=problem.message)
            return False
        change = self._book.change()
        self.dispatch_head(change, record)
        change.commit()
        return True

    def dispatch_head(self, change: Change, record: SessionRecord) -> Turn:
        """Take the head out of the queue and make it the running turn; it starts after the commit of ``change``."""
        entry = record.queue.pop(0).entry
        record.peer_messages.pop(entry.pending_prompt.id, None)
        turn = self.dispatch(change, record, entry)
        self._book.journal.after(lambda: self.start(record, turn, entry))
        return turn

    def runtime_ended(self, worker: str) -> None:
        """The worker is gone and its agents with it: the turns that it held end; their queues wait."""
        for record in list(self._book.registry.sessions.values()):
            turn = record.turn
            if turn is not None and turn.worker == worker and turn.phase == "running":
                self.lost(record, turn)

    def lost(self, record: SessionRecord, turn: Turn) -> None:
        """The worker that held ``turn`` is gone. A wake that it was at work on waits again, in front."""
        self.woken.lost(record, turn)
        self.end(record, turn, "lost")

    def _refused(self, record: SessionRecord, turn: Turn, error: TermalError) -> None:
        self._log.warning("turn.refused", sessionId=record.id, turnId=turn.id, error=error.message)
        self.woken.worded(record, turn, lambda entry: self._give_back(record, turn, error, entry))

    def _give_back(self, record: SessionRecord, turn: Turn, error: TermalError, entry: QueueEntry | None) -> None:
        """The turn was refused: the session says so, and ``entry`` waits again, in front."""
        detail = _NOT_THERE if isinstance(error, Busy) else error.message
        verdict = end_of_turn("refused", record.agent, detail)
        change = self._book.change()
        if entry is not None:
            self.woken.given_back(record, entry)
        self.close(change, record, verdict)
        record.turn = None
        if isinstance(error, OutcomeUnknown):
            # It may have been taken all the same: nobody waits for it, and the next turn must find the agent free.
            withdrawn = StopTurn(record.id, turn.id)
            self._runtimes.client(turn.worker).call(TURN_STOP, withdrawn, _ignore, trace=turn.id)
        problem = Internal(f"the agent could not be started: {detail}", reason="runtimeRefused")
        change.commit(after=lambda: turn.taken(problem))

    def retire(self, record: SessionRecord, turn: Turn) -> None:
        """Remember ``turn`` as the last one, so that a repeated report of it is known, and free its place."""
        if record.turn is turn:
            record.turn = None
        record.last_turn = replace(turn.stored(), ended=True, items=[], requests=[], open_texts=[])

    @staticmethod
    def _activate_codex(record: SessionRecord) -> None:
        """The settings that this turn runs with; later changes are for the next one."""
        if record.agent == "Codex":
            record.stored = replace(
                record.stored,
                active_codex_approval_policy=record.session.approval_policy,
                active_codex_sandbox_mode=record.session.sandbox_mode,
                active_codex_reasoning_effort=record.session.reasoning_effort,
            )

    @staticmethod
    def spec(record: SessionRecord, session: Session | None = None) -> SessionSpec:
        """What a runtime worker needs to know of ``record`` now; ``session``: as it is to become."""
        session = session or record.session
        external = session.external_session_id
        return SessionSpec(
            session_id=session.id,
            agent=session.agent,
            workdir=session.workdir,
            model=session.model,
            external_session_id=None if external is UNSET else external,
            modes=modes_of(session),
        )

    def _prompt(self, record: SessionRecord, prompt: PendingPrompt) -> str:
        """What the agent reads: the expanded text where there is one, behind a header when a peer sent it."""
        text = prompt.text if prompt.expanded_text is UNSET else prompt.expanded_text
        source = prompt.source
        if source is UNSET or source.kind is not UNSET or source.session_id is UNSET:
            return text
        sender = self._book.registry.sessions.get(source.session_id)
        other = sender is not None and sender.session.project_id != record.session.project_id
        return worded(text, sender_id=source.session_id, sender_name=source.name, other_project=other)


def _ignore(_: object, error: TermalError | None) -> None:
    """The worker has stopped it, or has gone and the turn with it."""
