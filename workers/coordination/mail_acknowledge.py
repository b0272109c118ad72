"""Acknowledgement: compare and swap of a cursor, then the wakes that it made stale are taken back."""

import time
from collections.abc import Callable

from termal.bus.client import GRACE_S, Client
from termal.bus.server import Request
from termal.log import Log
from termal.rules.mail import check_forward
from termal.rules.verdicts import Refused
from termal.wire.codec import encode_json
from termal.wire.errors import TermalError
from termal.wire.mail_operations import AcknowledgeMail
from termal.wire.queue_operations import RetractWakes
from termal.wire.turns import Anything, JsonReply
from termal.wire.verdict_errors import error_of
from termal.wire.wake_operations import WAKE_RETRACT
from workers.coordination.admission import Admission
from workers.coordination.mail_desk import Desk, limit_of
from workers.coordination.mail_lists import Changed
from workers.coordination.mail_refusal import storage_error
from workers.coordination.mail_store import Acknowledged, MailStore

RETRACT_S = 0.5


class Acknowledge:
    """The handler of ``mailbox.acknowledge``."""

    def __init__(
        self,
        *,
        desk: Desk,
        admission: Admission,
        store: MailStore,
        wake: Callable[[], Client],
        changed: Changed,
        log: Log,
    ) -> None:
        self._desk = desk
        self._admission = admission
        self._store = store
        self._wake = wake
        self._changed = changed
        self._log = log

    def acknowledge(self, request: Request, body: AcknowledgeMail) -> None:
        limit_s = limit_of(request)
        self._desk.admit(request, body.session_id, limit_s, lambda: self._move(request, body, limit_s))

    def _move(self, request: Request, body: AcknowledgeMail, limit_s: float) -> None:
        try:
            check_forward(body.expected_processed_through, body.processed_through)
        except Refused as refused:
            request.refuse(error_of(refused))
            return

        def done(result: Acknowledged | TermalError | None, error: Exception | None) -> None:
            if not isinstance(result, Acknowledged):
                request.refuse(result if result is not None else storage_error(error))
                return
            if result.moved:
                self._changed(body.mailbox_id, tuple(one.session_id for one in result.summary.participants))
            self._retract(request, body, JsonReply(encode_json(result.summary)))

        self._admission.submit(lambda connection: self._store.acknowledge(connection, body), done, deadline_s=limit_s)

    def _retract(self, request: Request, body: AcknowledgeMail, reply: JsonReply) -> None:
        """Answered with or without it: a wake that stays is dropped before it runs."""

        def done(_: Anything | None, error: TermalError | None) -> None:
            if error is not None:
                self._log.repeating("mail.wake_not_retracted", mailbox=body.mailbox_id, error=error.message)
            request.reply(reply)

        stale = RetractWakes(body.session_id, body.mailbox_id, body.processed_through)
        limit_s = time.monotonic() + RETRACT_S - GRACE_S
        try:
            self._wake().call(WAKE_RETRACT, stale, done, deadline_s=limit_s, absent_s=RETRACT_S)
        except TermalError as error:
            done(None, error)
