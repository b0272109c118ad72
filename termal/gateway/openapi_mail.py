"""Rows of the interface description for mail between sessions."""

from termal.gateway.mailboxes import ROWS, AcknowledgeBody, MailBody, PageBody
from termal.gateway.openapi_doc import SESSION, Doc, choice, number, words
from termal.model.mail import LIFECYCLES, UNDELIVERABLE, MailboxSummary, MailMessage, Receipt, SentPage
from termal.rules.mail import PAGE_ROWS

_MAILBOXES = f"{SESSION}/mailboxes"

MAIL_DOCS: dict[tuple[str, str], Doc] = {
    ("POST", f"{_MAILBOXES}/send"): Doc(
        operation="sendMail",
        tag="mail",
        summary="Send a message to another session",
        description=(
            "It is stored before its receiver is told of it. The same `idempotencyKey` with the same message is "
            "answered with the first receipt, whatever has become of the message since."
        ),
        body=MailBody,
        reply=Receipt,
        status=202,
        refusals=(409,),
        example={"targetSessionId": "session-2", "message": "ready for review", "idempotencyKey": "ready-1"},
        gives={"mailbox_id": "/mailboxId"},
    ),
    ("GET", _MAILBOXES): Doc(
        operation="listMailboxes",
        tag="mail",
        summary="All mailboxes of a session, newest mail first",
        reply=list[MailboxSummary],
    ),
    ("GET", f"{_MAILBOXES}/sent"): Doc(
        operation="listSentMail",
        tag="mail",
        summary="What became of the messages that a session sent, newest first",
        query=(
            choice("state", "Only those in this state", *LIFECYCLES, UNDELIVERABLE),
            number("limit", "How many messages", 1, PAGE_ROWS, default=ROWS),
            words("before", "The `nextBefore` of the page before", pattern=r"^[0-9]{1,18}$"),
        ),
        reply=SentPage,
    ),
    ("POST", f"{_MAILBOXES}/{{mailbox_id}}/read"): Doc(
        operation="readMailbox",
        tag="mail",
        summary="A page of a mailbox, ascending; nothing is marked as read",
        description="A `limit` outside 1 to 200 acts as the nearest one of these.",
        body=PageBody,
        reply=list[MailMessage],
        example={"afterSequence": 0, "limit": 50},
    ),
    ("POST", f"{_MAILBOXES}/{{mailbox_id}}/acknowledge"): Doc(
        operation="acknowledgeMail",
        tag="mail",
        summary="Move the session's cursor forward",
        description=(
            "`expectedProcessedThrough` is the cursor that the caller saw in its own entry of the list. What is "
            "reached already is 200 and changes nothing."
        ),
        body=AcknowledgeBody,
        reply=MailboxSummary,
        refusals=(409,),
        example={"expectedProcessedThrough": 0, "processedThrough": 1},
    ),
    ("GET", f"{SESSION}/mailbox-messages/{{message_id}}"): Doc(
        operation="readMailMessage",
        tag="mail",
        summary="One message",
        reply=MailMessage,
    ),
}
