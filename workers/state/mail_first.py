"""Mail that nobody was told of goes ahead of whatever a session is about to start, and an acknowledged wake never
becomes a turn: `wake` is asked for a moment, and what waits for the answer goes on in any case.
"""

from collections.abc import Callable, Sequence
from time import monotonic

from termal.log import Log
from termal.wire.errors import TermalError
from termal.wire.wake_operations import WAKE_PREPARE, Prepare, Prepared
from workers.state.change import Book
from workers.state.links import Links
from workers.state.session_record import SessionRecord
from workers.state.wake_entries import entry_of, held_wake, known_wake, origin_of, refresh, to_front
from workers.state.wake_reports import WakeReports

PREPARE_S = 0.25
"""How long a dispatch waits for `wake`; the link adds its grace."""
SENDING_S = 6.0
"""So long after somebody asked for a session in order to send it mail, that mail may still be stored."""

Then = Callable[[], None]


class MailFirst:
    """``running``: the names of the workers that are there."""

    def __init__(self, book: Book, links: Links, reports: WakeReports, log: Log, *, running: Sequence[str]) -> None:
        self.patience_s = 0.0
        """How long something waits for `wake` to come back: not at all while nobody is starting it."""
        self.peers(running)
        self._book = book
        self._links = links
        self._reports = reports
        self._log = log

    def peers(self, running: Sequence[str]) -> None:
        self.patience_s = PREPARE_S if "wake" in running else 0.0

    @staticmethod
    def expected(record: SessionRecord) -> None:
        """Somebody may be about to send mail to ``record``, or could not wake it."""
        record.mail_due = True
        record.mail_at_s = monotonic()

    @staticmethod
    def waits(record: SessionRecord) -> bool:
        """Whether `before` would not call back at once."""
        # PERF: a session that nobody has written to since `wake` last said that there is nothing pays no question.
        return record.asking is not None or (
            not record.remote and (record.mail_due or bool(record.queue and origin_of(record.queue[0].entry)))
        )

    def before(self, record: SessionRecord, then: Then) -> None:
        """Call ``then`` when the queue of ``record`` is as its next start should find it; callers keep their order."""
        if record.asking is not None:
            record.asking.append(then)
        elif self.waits(record):
            record.asking = [then]
            self._ask(record)
        else:
            then()

    def _ask(self, record: SessionRecord) -> None:
        origin = origin_of(record.queue[0].entry) if record.queue else None
        head = None if origin is None else (origin.mailbox_id, origin.sequence)
        asked_at_s = monotonic()

        def done(reply: Prepared | None, error: TermalError | None) -> None:
            if reply is None or not reply.asked:
                why = error.message if error is not None else "mail cannot be read at the moment"
                self._log.repeating("mail.not_asked", sessionId=record.id, error=why)
            elif not record.removed and self._apply(record, head, reply, asked_at_s):
                self._ask(record)
                return
            waiting, record.asking = record.asking or [], None
            for then in waiting:
                then()

        self._links.to("wake").call(
            WAKE_PREPARE,
            Prepare(record.id, head),
            done,
            deadline_s=asked_at_s + PREPARE_S,
            absent_s=self.patience_s,
        )

    def _apply(self, record: SessionRecord, asked: tuple[str, int] | None, reply: Prepared, at_s: float) -> bool:
        """Put what is due to the front and look at the head again, in one commit; whether to ask once more."""
        before = record.queue
        record.queue = list(before)
        again = asked is not None and self._revalidate(record, asked, reply)
        for wake in reply.wakes:
            held = held_wake(record.queue, wake.mailbox_id)
            if held is None and known_wake(record, wake.mailbox_id, wake.sequence) is not None:
                # It was offered meanwhile: its own outcome is told of by whoever offered it.
                continue
            to_front(self._book.registry, record, wake)
            self._reports.add(record.id, wake, "recovered")
        if reply.settled and record.mail_at_s + SENDING_S < at_s:
            record.mail_due = False
        if [entry.raw for entry in record.queue] == [entry.raw for entry in before]:
            record.queue = before
        else:
            change = self._book.change()
            change.summary(record)
            change.commit()
        return again and not reply.wakes

    @staticmethod
    def _revalidate(record: SessionRecord, asked: tuple[str, int], reply: Prepared) -> bool:
        """Drop the head whose mail is acknowledged, or refresh it; whether another wake is the head now."""
        origin = origin_of(record.queue[0].entry) if record.queue else None
        if origin is None or (origin.mailbox_id, origin.sequence) != asked:
            return origin is not None
        if reply.head is None:
            del record.queue[0]
            return bool(record.queue) and origin_of(record.queue[0].entry) is not None
        fresh = reply.head
        if (fresh.sequence, fresh.unread_count) != (origin.sequence, origin.unread_count):
            refresh(record.queue, 0, entry_of(fresh, ""))
        return False
