"""Structured review results in the mailbox of a child and its parent: appended and found for state alone, never mail.

Both go through the line of the one writer, so a search sees everything that was accepted before it.
"""

from typing import Any

from termal.bus.server import Handler, Request
from termal.model.ids import new_mailbox_message_id
from termal.model.mail import CONTROL_TOPIC, UNWOKEN
from termal.rules.delegation_review import ENVELOPE_BYTES, idempotency_key, stamp
from termal.store.connection import Cursorlike
from termal.wire.errors import Conflict, InvalidRequest, TermalError
from termal.wire.review_operations import (
    REVIEW_APPEND,
    REVIEW_FIND,
    AppendReview,
    FindReview,
    FoundReview,
    ReviewReceipt,
)
from workers.coordination.admission import Admission
from workers.coordination.mail_clock import now_text
from workers.coordination.mail_desk import Repairs, limit_of, refuse
from workers.coordination.mail_lists import Changed
from workers.coordination.mail_refusal import storage_error
from workers.coordination.mail_store import Mail, MailStore, Stored

_FIND = (
    "SELECT rowid, id, target_session_id, topic, state_stamp, body, dispatch_outcome FROM mailbox_messages"
    " WHERE sender_session_id = ? AND idempotency_key = ?"
)
_NOT_FOUND = FoundReview(found=False)


class Reviews:
    """``changed`` runs after each commit of a new row, with its mailbox and both sessions."""

    def __init__(self, admission: Admission, store: MailStore, changed: Changed, repairs: Repairs) -> None:
        self._admission = admission
        self._store = store
        self._changed = changed
        self._repairs = repairs

    def handlers(self) -> dict[str, Handler]:
        return {REVIEW_APPEND.name: self.append, REVIEW_FIND.name: self.find}

    def append(self, request: Request, body: AppendReview) -> None:
        """The handler of ``review.append``. Who may submit has been decided by state."""
        mail = _as_mail(body)
        parties = (body.child_session_id, body.parent_session_id)

        def ended(stored: Stored | TermalError | None, error: Exception | None) -> None:
            if not isinstance(stored, Stored):
                request.refuse(_conflict(stored) if stored is not None else storage_error(error))
                return
            if not stored.duplicate:
                self._changed(stored.mailbox_id, parties)
            request.reply(_receipt(stored))

        limit_s = limit_of(request)

        def repaired(error: TermalError | None) -> None:
            if error is not None:
                refuse(request, error)
                return
            self._admission.submit(lambda connection: self._append(connection, mail), ended, deadline_s=limit_s)

        self._repairs.repair(body.parent_session_id, limit_s, repaired)

    def find(self, request: Request, body: FindReview) -> None:
        """The handler of ``review.find``."""

        def ended(found: FoundReview | None, error: Exception | None) -> None:
            if found is not None:
                request.reply(found)
            else:
                request.refuse(storage_error(error))

        self._admission.submit(lambda connection: self._find(connection, body), ended, deadline_s=limit_of(request))

    # ------------------------------------------------------------- on the writer's thread

    def _append(self, connection: Cursorlike, mail: Mail) -> Stored | TermalError:
        stored = self._store.append(connection, mail)
        if isinstance(stored, Stored) and stored.outcome is None:
            self._store.finalize(connection, [(stored.row, stored.message_id, UNWOKEN)])
        return stored

    def _find(self, connection: Cursorlike, body: FindReview) -> FoundReview:
        key = idempotency_key(body.delegation_id, body.attempt)
        columns: Any = connection.execute(_FIND, (body.child_session_id, key)).fetchone()
        if columns is None:
            return _NOT_FOUND
        row, message_id, target, topic, state_stamp, text, outcome = columns
        if outcome is None and topic == CONTROL_TOPIC:
            # An older build may have ended before it recorded that nobody was to be woken.
            self._store.finalize(connection, [(row, message_id, UNWOKEN)])
        return FoundReview(True, target, topic, state_stamp, text)


def _as_mail(body: AppendReview) -> Mail:
    """The row that a submission stands for: all of it follows from the delegation. Raises `InvalidRequest`."""
    if len(body.body.encode()) > ENVELOPE_BYTES:
        raise InvalidRequest(f"the whole review must be no larger than {ENVELOPE_BYTES} bytes", reason="reviewTooLarge")
    return Mail(
        message_id=new_mailbox_message_id(),
        created_at=now_text(),
        sender_id=body.child_session_id,
        sender_name=body.child_name,
        target_id=body.parent_session_id,
        target_name=body.parent_name,
        key=idempotency_key(body.delegation_id, body.attempt),
        body=body.body,
        topic=CONTROL_TOPIC,
        stamp=stamp(body.delegation_id, body.attempt),
        outcome=UNWOKEN,
    )


def _conflict(error: TermalError) -> TermalError:
    if isinstance(error, Conflict):
        return Conflict("another review was submitted for this attempt", reason="reviewConflict")
    return error


def _receipt(stored: Stored) -> ReviewReceipt:
    return ReviewReceipt(
        mailbox_id=stored.mailbox_id,
        message_id=stored.message_id,
        sequence=stored.sequence,
        unread_depth=stored.unread_depth,
        duplicate=stored.duplicate,
    )
