"""Turns that a mailbox wake started: that they were taken is reported, and a wake that came to nothing waits again."""

from collections.abc import Callable
from time import monotonic

from termal.log import Log
from termal.model.stored import QueueEntry
from termal.wire.errors import TermalError
from termal.wire.mail_operations import UnreadOf
from termal.wire.wake_operations import WAKE_REBUILD, Rebuilt
from workers.state.change import Book
from workers.state.links import Links
from workers.state.mail_first import MailFirst
from workers.state.session_record import SessionRecord
from workers.state.turn import Turn
from workers.state.wake_entries import back_after_loss, entry_of, origin_of, put_back
from workers.state.wake_reports import WakeReports

REBUILD_S = 0.25
"""How long a refused wake waits to be worded anew; without that it goes back as it was."""


class WokenTurns:
    def __init__(self, book: Book, links: Links, mail: MailFirst, reports: WakeReports, log: Log) -> None:
        self.mail = mail
        self._book = book
        self._links = links
        self._reports = reports
        self._log = log

    def taken(self, record: SessionRecord, turn: Turn) -> None:
        """A runtime worker holds ``turn``: the mailboxes hear of it once, whatever dies meanwhile."""
        origin = None if turn.wake is None else origin_of(turn.wake)
        if origin is not None and not turn.reported:
            turn.reported = True
            self._book.journal.touch(record)
            self._reports.add(record.id, origin, "accepted")

    def lost(self, record: SessionRecord, turn: Turn) -> None:
        """The worker of ``turn`` is gone: its wake waits again, once for its messages; the caller commits."""
        origin = None if turn.wake is None else origin_of(turn.wake)
        if turn.wake is None or origin is None:
            return
        if not turn.reported:
            # Nobody has said that it was taken: its mail counts as never woken.
            put_back(self._book.registry, record, turn.wake)
            self.mail.expected(record)
        elif back_after_loss(self._book.registry, record, turn.wake):
            self._reports.add(record.id, origin, "lost")

    def worded(self, record: SessionRecord, turn: Turn, then: Callable[[QueueEntry | None], None]) -> None:
        """Call ``then`` with what goes back into the queue for the refused ``turn``: a wake as its mail is now, None
        when all of that is read meanwhile. Nothing is called when the turn was taken after all."""
        origin = None if turn.entry is None else origin_of(turn.entry)
        if origin is None:
            then(turn.entry)
            return

        def done(reply: Rebuilt | None, error: TermalError | None) -> None:
            if record.removed or record.turn is not turn or turn.phase != "starting":
                return
            entry = turn.entry
            if reply is not None:
                entry = None if reply.wake is None else entry_of(reply.wake, "")
            elif error is not None:
                self._log.repeating("wake.not_rebuilt", sessionId=record.id, error=error.message)
            then(entry)

        self._links.to("wake").call(
            WAKE_REBUILD,
            UnreadOf(record.id, origin.mailbox_id),
            done,
            deadline_s=monotonic() + REBUILD_S,
            absent_s=self.mail.patience_s,
        )

    def given_back(self, record: SessionRecord, entry: QueueEntry) -> None:
        """``entry`` was refused and waits again, in front; the caller commits."""
        put_back(self._book.registry, record, entry)
        origin = origin_of(entry)
        if origin is not None:
            self._reports.add(record.id, origin, "requeued")
