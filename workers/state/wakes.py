"""Wakes that the wake worker offers, takes back, or puts into queues at a start. What they say of mail is not ours."""

from collections.abc import Mapping
from typing import Literal

from termal.bus.server import Handler, Request
from termal.model.stored import PROMPT_KEYS, PromptKey
from termal.rules.wake_queue import place_wake
from termal.wire.errors import TermalError
from termal.wire.queue_operations import Materialized, MaterializeWakes, OfferWake, RetractWakes, Wake, WakeOffered
from termal.wire.turns import Anything
from workers.state.change import Book
from workers.state.rows import queued, remembered
from workers.state.session_record import SessionRecord
from workers.state.turns import Turns
from workers.state.wake_entries import entry_of, held_wake, origin_of, refresh

_QUEUED = WakeOffered("queuedBehindActiveTurn")
_DELIVERED = WakeOffered("deliveredToIdleSession")


class Wakes:
    def __init__(self, book: Book, turns: Turns) -> None:
        self._book = book
        self._turns = turns

    def table(self) -> Mapping[str, Handler]:
        return {
            "queue.offer": self.offer,
            "queue.retract": self.retract,
            "queue.materialize": self.materialize,
        }

    # ----------------------------------------------------------------------- offer

    def offer(self, request: Request, body: OfferWake) -> None:
        """The handler of ``queue.offer``: answered once its outcome is stored, for a started turn once it is taken."""
        record = self._book.registry.sessions.get(body.session_id)
        reason = self._unwakeable(record)
        if record is None or reason:
            request.reply(_not_woken(reason))
            return
        known = remembered(record.prompt_keys, _key(body.wake))
        if known is None:
            self._place(request, record, body.wake)
        elif known.queued:
            self._book.journal.stored(lambda: request.reply(_QUEUED))
        else:
            self._started(request, record, known.prompt_id)

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
        key = PromptKey(key=_key(wake), prompt_id=prompt_id, queued=not starts)
        record.prompt_keys = [*record.prompt_keys, key][-PROMPT_KEYS:]
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
            # The wake is in the queue again and may be offered once more: that is no repeat.
            record.prompt_keys = [key for key in record.prompt_keys if key.prompt_id != prompt_id]
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
        changed = [self._to_front(record, wake) for wake in body.wakes]
        if any(changed):
            change = self._book.change()
            change.summary(record)
            change.commit()
        self._book.journal.stored(lambda: request.reply(Materialized(known=True)))

    def _to_front(self, record: SessionRecord, wake: Wake) -> bool:
        """Whether the queue is another one now: the same pass twice changes nothing."""
        held = held_wake(record.queue, wake.mailbox_id)
        if held is None:
            entry = entry_of(wake, self._book.registry.new_message_id())
            record.queue = [queued(entry), *record.queue]
            return True
        origin = origin_of(record.queue[held].entry)
        if origin is None or (origin.sequence, origin.unread_count) == (wake.sequence, wake.unread_count):
            return False
        return refresh(record.queue, held, entry_of(wake, ""))


def _key(wake: Wake) -> str:
    """Among the keys of prompts; those of clients hold no line break."""
    return f"wake\n{wake.mailbox_id}\n{wake.sequence}"


def _covered(record: SessionRecord, place: int, through: int) -> bool:
    origin = origin_of(record.queue[place].entry)
    return origin is not None and origin.sequence <= through


def _not_woken(reason: str) -> WakeOffered:
    outcome: Literal["durableButNotWoken"] = "durableButNotWoken"
    return WakeOffered(outcome, reason)
