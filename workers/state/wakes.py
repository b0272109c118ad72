"""Wakes that the wake worker offers, takes back, or puts into queues at a start. What they say of mail is not ours."""

from collections.abc import Mapping
from typing import Literal

from termal.bus.server import Handler, Request
from termal.model.stored import WakeKey
from termal.rules.wake_queue import place_wake
from termal.wire.errors import TermalError
from termal.wire.queue_operations import (
    Materialized,
    MaterializeWakes,
    OfferWake,
    QueuedWakes,
    RetractWakes,
    Wake,
    WakeOffered,
)
from termal.wire.turns import Anything
from workers.state.change import Book
from workers.state.prompts import Again
from workers.state.rows import queued
from workers.state.session_record import SessionRecord
from workers.state.turns import Turns
from workers.state.wake_entries import entry_of, held_wake, known_wake, origin_of, refresh, remember, to_front
from workers.state.wake_reports import WakeReports

_QUEUED = WakeOffered("queuedBehindActiveTurn")
_DELIVERED = WakeOffered("deliveredToIdleSession")


class Wakes:
    def __init__(self, book: Book, turns: Turns, reports: WakeReports, again: Again) -> None:
        self._book = book
        self._turns = turns
        self._reports = reports
        self._again = again

    def table(self) -> Mapping[str, Handler]:
        return {
            "queue.offer": self.offer,
            "queue.retract": self.retract,
            "queue.materialize": self.materialize,
            "queue.wakes": self.waiting,
        }

    # ----------------------------------------------------------------------- offer

    def offer(self, request: Request, body: OfferWake) -> None:
        """The handler of ``queue.offer``: answered once its outcome is stored, for a started turn once it is taken."""
        record = self._book.registry.sessions.get(body.session_id)
        mail = self._turns.mail
        if record is not None and self._starts_another(record, body.wake) and mail.waits(record):
            mail.before(record, lambda: self._again(self._offer, request, body))
        else:
            self._offer(request, body)

    def _offer(self, request: Request, body: OfferWake) -> None:
        record = self._book.registry.sessions.get(body.session_id)
        reason = self._unwakeable(record)
        if record is None or reason:
            if record is not None:
                self._turns.mail.expected(record)
            request.reply(_not_woken(reason))
            return
        wake = body.wake
        known = known_wake(record, wake.mailbox_id, wake.sequence)
        if known is None or (not record.busy and held_wake(record.queue, wake.mailbox_id) is not None):
            # What waits at a session where nothing runs is started, by a repeat as well.
            self._place(request, record, wake)
        elif known.started != wake.sequence:
            self._book.journal.stored(lambda: request.reply(_QUEUED))
        else:
            self._started(request, record, known.prompt_id)

    @staticmethod
    def _starts_another(record: SessionRecord, wake: Wake) -> bool:
        """An offer of ``wake`` would start what waits before it: that is looked at first."""
        if record.busy or not record.queue:
            return False
        origin = origin_of(record.queue[0].entry)
        return origin is None or origin.mailbox_id != wake.mailbox_id

    def _place(self, request: Request, record: SessionRecord, wake: Wake) -> None:
        held = held_wake(record.queue, wake.mailbox_id)
        sources = [waiting.entry.source for waiting in record.queue]
        placement = place_wake(sources, held, busy=record.busy, blocked=record.blocked)
        queue = list(record.queue)
        if held is not None:
            prompt_id = queue[held].entry.pending_prompt.id
            refresh(queue, held, entry_of(wake, prompt_id))
        else:
            prompt_id = self._book.registry.new_message_id()
            queue.append(queued(entry_of(wake, prompt_id)))
        record.queue = [queue[place] for place in placement.order]
        starts = placement.start and record.queue[0].entry.pending_prompt.id == prompt_id
        key = WakeKey(
            mailbox_id=wake.mailbox_id,
            sequence=wake.sequence,
            prompt_id=prompt_id,
            started=wake.sequence if starts else 0,
        )
        remember(record, key)
        change = self._book.change()
        if placement.start:
            self._turns.dispatch_head(change, record)
        else:
            change.summary(record)
        change.commit()
        if starts:
            self._started(request, record, prompt_id)
        else:
            self._book.journal.after(lambda: request.reply(_QUEUED))

    def _started(self, request: Request, record: SessionRecord, prompt_id: str) -> None:
        """The wake of ``prompt_id`` became a turn: its worker's word on it is the outcome."""
        turn = record.turn
        if turn is None or turn.prompt_id != prompt_id or turn.phase not in ("starting", "held"):
            self._book.journal.stored(lambda: request.reply(_DELIVERED))
            return

        def taken(error: TermalError | None) -> None:
            if error is None:
                request.reply(_DELIVERED)
                return
            request.reply(_not_woken(error.reason or "dispatchFailed"))

        turn.on_taken.append(taken)

    def _unwakeable(self, record: SessionRecord | None) -> str:
        """Why mail cannot wake this session now, as one word; "" when it can."""
        if record is None or not record.committed:
            return "unknown"
        if record.remote:
            return "remote"
        if self._book.registry.is_child(record):
            return "delegated"
        problem = self._turns.problem(record)
        return (problem.reason or "dispatchFailed") if problem is not None else ""

    # ----------------------------------------------------------- retract, materialize

    def retract(self, request: Request, body: RetractWakes) -> None:
        """The handler of ``queue.retract``: answered when the acknowledged wake is out of the stored queue."""
        record = self._book.registry.sessions.get(body.session_id)
        held = None if record is None else held_wake(record.queue, body.mailbox_id)
        if record is None or held is None or not _covered(record, held, body.through):
            self._book.journal.stored(lambda: request.reply(Anything()))
            return
        record.queue = [*record.queue[:held], *record.queue[held + 1 :]]
        change = self._book.change()
        change.summary(record)
        change.commit(after=lambda: request.reply(Anything()))

    def materialize(self, request: Request, body: MaterializeWakes) -> None:
        """The handler of ``queue.materialize``: each wake to the front, or in place of an older one; nothing starts."""
        record = self._book.registry.sessions.get(body.session_id)
        if record is None or record.remote or self._book.registry.is_child(record):
            request.reply(Materialized(known=False))
            return
        registry = self._book.registry
        if record.started_in and record.started_in == registry.starts:
            request.reply(Materialized(known=False, started=True))
            return
        # The same pass twice changes nothing.
        changed = [to_front(registry, record, wake) for wake in body.wakes]
        if any(changed):
            change = self._book.change()
            change.summary(record)
            change.commit()
        # What was reported of these wakes before is older than what their sender marks next.
        self._reports.when_none(
            record.id, lambda: self._book.journal.stored(lambda: request.reply(Materialized(known=True)))
        )

    def waiting(self, request: Request, _: Anything) -> None:
        """The handler of ``queue.wakes``."""
        wakes = [
            (record.id, origin.mailbox_id, origin.sequence)
            for record in self._book.registry.sessions.values()
            for waiting in record.queue
            if (origin := origin_of(waiting.entry)) is not None
        ]
        request.reply(QueuedWakes(wakes))


def _covered(record: SessionRecord, place: int, through: int) -> bool:
    origin = origin_of(record.queue[place].entry)
    return origin is not None and origin.sequence <= through


def _not_woken(reason: str) -> WakeOffered:
    outcome: Literal["durableButNotWoken"] = "durableButNotWoken"
    return WakeOffered(outcome, reason)
