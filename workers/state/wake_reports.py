"""What became of wakes, for the mailboxes: each report is committed with the fact that it tells of, then sent through
`wake` until it is confirmed, in order for each session.
"""

from collections.abc import Callable
from typing import Final, Literal

from termal.bus.client import Client
from termal.bus.loop import Loop
from termal.faults import fault
from termal.log import Log
from termal.model.message import MailboxOrigin
from termal.model.stored import WakeReport
from termal.wire.mail_operations import Mark, Marks
from termal.wire.queue_operations import Wake
from termal.wire.wake_operations import WAKE_REPORT
from workers.state.change import Book
from workers.state.links import Links
from workers.state.outbox import Ended, Outbox

Fact = Literal["accepted", "recovered", "requeued", "lost"]
_EVENTS: dict[Fact, Literal["delivered", "recovered", "rewoken"]] = {
    "accepted": "delivered",
    "recovered": "recovered",
    "requeued": "recovered",
    "lost": "rewoken",
}

_PENDING: Final = "pending_wake_reports"


class WakeReports:
    def __init__(self, book: Book, loop: Loop, links: Links, log: Log) -> None:
        self._book = book
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._outbox: Outbox[WakeReport] = Outbox(
            loop,
            lambda: links.to("wake"),
            name="wakeReports",
            lane=lambda report: report.session_id,
            send=_send,
            confirmed=self._confirmed,
            log=log,
        )

    def begin(self) -> None:
        """The start is stored: go on with what an earlier life has committed."""
        self._outbox.put(*self._pending)

    def add(self, session_id: str, origin: MailboxOrigin | Wake, fact: Fact) -> None:
        """Report ``fact`` of the wake that ``origin`` names: part of the commit of everything that is marked now."""
        report = WakeReport(session_id=session_id, mailbox_id=origin.mailbox_id, sequence=origin.sequence, fact=fact)
        self._set([*self._pending, report])
        self._book.journal.touch_metadata()
        self._book.journal.after(lambda: self._outbox.put(report))

    def when_none(self, session_id: str, callback: Callable[[], None]) -> None:
        """Run ``callback`` once every report on this session is confirmed, at once if there is none."""
        if any(report.session_id == session_id for report in self._pending):
            self._waiting.setdefault(session_id, []).append(callback)
        else:
            callback()

    @property
    def _pending(self) -> list[WakeReport]:
        return self._book.registry.pending(_PENDING)

    def _set(self, reports: list[WakeReport]) -> None:
        self._book.registry.set_pending(_PENDING, reports)

    def _confirmed(self, report: WakeReport) -> None:
        fault("state.wake_report_confirmed_before_commit")
        left = list(self._pending)
        if report in left:
            left.remove(report)
        self._set(left)
        self._book.journal.touch_metadata()
        if not any(other.session_id == report.session_id for other in left):
            for callback in self._waiting.pop(report.session_id, ()):
                callback()


def _send(client: Client, report: WakeReport, ended: Ended) -> object:
    mark = Mark(report.session_id, report.mailbox_id, report.sequence, _EVENTS[report.fact])
    return client.call(WAKE_REPORT, Marks([mark]), ended)
