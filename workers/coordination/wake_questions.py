"""What `wake` asks and reports of mail: questions on reader threads, marks on the writer, none of them bounded by the
other; and the figures of mail for status.
"""

from collections.abc import Callable
from typing import TypeVar

from termal.bus.server import Handler, Request
from termal.faults import fault
from termal.model.status import MailboxCounts
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.store.writer import Writer
from termal.wire.mail_operations import (
    MAILBOX_MARK,
    MAILBOX_STALE,
    MAILBOX_UNREAD,
    MAILBOX_UNREAD_OF,
    MAILBOX_UNWOKEN,
    AskStale,
    AskUnwoken,
    ListUnread,
    Marks,
    MaybeUnread,
    UnreadOf,
)
from termal.wire.turns import Anything
from workers.coordination import marks, unread
from workers.coordination.mail_refusal import storage_error
from workers.coordination.unread import Pending

T = TypeVar("T")

_FAILED = "mail could not be read or marked"


class WakeQuestions:
    """``pending``: the messages whose first dispatch is under way; nobody else wakes for them meanwhile."""

    def __init__(self, reader: Callable[[], Reader], writer: Callable[[], Writer], pending: Pending) -> None:
        self._reader = reader
        self._writer = writer
        self._pending = pending

    def table(self) -> dict[str, Handler]:
        return {
            MAILBOX_UNWOKEN.name: self._unwoken,
            MAILBOX_UNREAD.name: self._page,
            MAILBOX_UNREAD_OF.name: self._unread_of,
            MAILBOX_STALE.name: self._stale,
            MAILBOX_MARK.name: self._mark,
        }

    def counts(self, request: Request, answer: Callable[[MailboxCounts], None]) -> None:
        """Call ``answer`` with the figures of mail, or refuse ``request``."""
        self._read(request, unread.counts, answer)

    def _unwoken(self, request: Request, body: AskUnwoken) -> None:
        pending = self._pending
        self._read(request, lambda connection: unread.unwoken(connection, body, pending), request.reply)

    def _page(self, request: Request, body: ListUnread) -> None:
        pending = self._pending
        self._read(request, lambda connection: unread.unread_page(connection, body, pending), request.reply)

    def _unread_of(self, request: Request, body: UnreadOf) -> None:
        self._read(
            request,
            lambda connection: MaybeUnread(unread.unread_of(connection, body.session_id, body.mailbox_id)),
            request.reply,
        )

    def _stale(self, request: Request, body: AskStale) -> None:
        self._read(request, lambda connection: unread.stale(connection, body), request.reply)

    def _mark(self, request: Request, body: Marks) -> None:
        """Answered after COMMIT, whenever that is: its sender repeats it until then."""
        fault("coordination.before_mark")

        def done(_: None, error: Exception | None) -> None:
            if error is None:
                request.reply(Anything())
            else:
                request.refuse(storage_error(error, _FAILED))

        self._writer().submit(lambda connection: marks.apply(connection, body.marks), done)

    def _read(self, request: Request, job: Callable[[Cursorlike], T], answer: Callable[[T], None]) -> None:
        def done(value: T | None, error: Exception | None) -> None:
            if error is not None:
                request.refuse(storage_error(error, _FAILED))
            else:
                assert value is not None
                answer(value)

        self._reader().submit(job, done, deadline_s=request.deadline_s)
