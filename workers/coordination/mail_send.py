"""One send from its request to its receipt: who takes part, the append, the notice, the outcome.

Each step is a callback on the loop's thread; nothing is held while a send waits for somebody.
"""

from typing import NamedTuple

from termal.bus.server import Request
from termal.model.ids import new_mailbox_message_id
from termal.model.mail import UNWOKEN, Receipt
from termal.rules.mail import check_class, check_mail, refused_parties
from termal.rules.verdicts import Refused
from termal.wire.codec import encode_json
from termal.wire.errors import InvalidRequest, TermalError
from termal.wire.mail_operations import SendMail, Unread
from termal.wire.session_operations import Eligibility
from termal.wire.turns import JsonReply
from termal.wire.verdict_errors import error_of
from workers.coordination.admission import Admission
from workers.coordination.mail_clock import now_text
from workers.coordination.mail_desk import Desk, limit_of, refuse
from workers.coordination.mail_lists import Changed
from workers.coordination.mail_notices import Notice, Notices
from workers.coordination.mail_pending import Pending
from workers.coordination.mail_refusal import storage_error
from workers.coordination.mail_store import Mail, MailStore, Stored


class SendParts(NamedTuple):
    """What a send goes through; ``changed`` runs after each commit of a new message."""

    desk: Desk
    admission: Admission
    store: MailStore
    pending: Pending
    notices: Notices
    changed: Changed


class Send:
    """The handler of ``mailbox.send``."""

    def __init__(self, parts: SendParts) -> None:
        self._parts = parts

    def send(self, request: Request, body: SendMail) -> None:
        try:
            check_class(body.kind)
        except Refused as refused:
            raise error_of(refused) from refused
        _Sending(self._parts, request, body).start()


class _Sending:
    __slots__ = ("_body", "_limit_s", "_mail", "_parts", "_request")

    def __init__(self, parts: SendParts, request: Request, body: SendMail) -> None:
        self._parts = parts
        self._request = request
        self._body = body
        self._limit_s = limit_of(request)
        self._mail: Mail | None = None

    def start(self) -> None:
        parties = (self._body.session_id, self._body.target_session_id)
        self._parts.desk.parties.ask(parties, self._limit_s, self._known)

    def _known(self, answers: list[Eligibility] | None, error: TermalError | None) -> None:
        if answers is None:
            assert error is not None
            refuse(self._request, error)
            return
        sender, target = answers
        refused, target_alone = refused_parties(sender.verdict, target.verdict)
        if refused is not None:
            if target_alone:
                self._look_up(error_of(refused), sender)
            else:
                self._request.refuse(error_of(refused))
        elif sender.session_id == target.session_id:
            self._request.refuse(InvalidRequest("a message must go to a different session", reason="sameSession"))
        else:
            ids = (sender.session_id, target.session_id)
            self._parts.desk.repair(self._request, ids, self._limit_s, lambda: self._append(sender, target))

    def _append(self, sender: Eligibility, target: Eligibility) -> None:
        body = self._body
        try:
            check_mail(body.target_session_id, body.idempotency_key, body.message, body.topic, body.state_stamp)
        except Refused as refused:
            self._request.refuse(error_of(refused))
            return
        mail = self._mail = self._as_mail(sender, target.name)
        parts = self._parts
        parts.pending.begin(mail.message_id)
        parts.admission.submit(
            lambda connection: parts.store.append(connection, mail), self._appended, deadline_s=self._limit_s
        )

    def _appended(self, stored: Stored | TermalError | None, error: Exception | None) -> None:
        mail = self._mail
        assert mail is not None
        if not isinstance(stored, Stored):
            self._parts.pending.release(mail.message_id, None)
            self._request.refuse(stored if stored is not None else storage_error(error))
        elif stored.duplicate:
            self._parts.pending.release(mail.message_id, None)
            self._replay(stored)
        else:
            self._fresh(stored, mail)

    def _fresh(self, stored: Stored, mail: Mail) -> None:
        """The original is the first that waits for its outcome: what ends the wait of a repeat ends its own."""
        parts = self._parts
        parts.changed(stored.mailbox_id, (mail.sender_id, mail.target_id))
        self._wait(stored)
        unread = Unread(
            mailbox_id=stored.mailbox_id,
            session_id=mail.target_id,
            message_id=stored.message_id,
            sequence=stored.sequence,
            unread_count=stored.unread_depth,
            sender_id=mail.sender_id,
            sender_name=mail.sender_name,
        )
        parts.notices.put(Notice(stored.row, unread, self._limit_s))

    def _look_up(self, refusal: TermalError, sender: Eligibility) -> None:
        """The receiver is gone: a message that was stored before that still has its receipt."""
        mail = self._as_mail(sender, "")
        store = self._parts.store

        def found(stored: Stored | TermalError | None, error: Exception | None) -> None:
            if isinstance(stored, Stored):
                self._replay(stored)
            else:
                self._request.refuse(refusal if error is None else storage_error(error))

        self._parts.admission.submit(lambda connection: store.find(connection, mail), found, deadline_s=self._limit_s)

    def _replay(self, stored: Stored) -> None:
        if stored.outcome is not None or not self._wait(stored):
            self._answer(stored, stored.outcome)

    def _wait(self, stored: Stored) -> bool:
        def ended(outcome: str | None, error: TermalError | None) -> None:
            if error is not None:
                self._request.refuse(error)
            else:
                self._answer(stored, outcome)

        return self._parts.pending.wait(stored.message_id, self._limit_s, ended)

    def _answer(self, stored: Stored, outcome: str | None) -> None:
        receipt = Receipt(
            mailbox_id=stored.mailbox_id,
            message_id=stored.message_id,
            sequence=stored.sequence,
            unread_depth=stored.unread_depth,
            notification_disposition=outcome or UNWOKEN,
            duplicate=stored.duplicate,
        )
        self._request.reply(JsonReply(encode_json(receipt)))

    def _as_mail(self, sender: Eligibility, target_name: str) -> Mail:
        body = self._body
        return Mail(
            message_id=new_mailbox_message_id(),
            created_at=now_text(),
            sender_id=body.session_id,
            sender_name=sender.name,
            target_id=body.target_session_id,
            target_name=target_name,
            key=body.idempotency_key,
            body=body.message,
            topic=body.topic,
            stamp=body.state_stamp,
        )
