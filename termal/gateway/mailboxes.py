"""Mail between sessions: send, list, read, follow up, acknowledge. Shapes are checked here, what they say elsewhere."""

from typing import Annotated

import msgspec
from falcon.asgi import Request, Response

from termal.gateway.bodies import Body, read_body
from termal.gateway.query import Query
from termal.gateway.resource import Resource
from termal.rules.mail import PAGE_ROWS
from termal.wire.mail_operations import (
    MAILBOX_ACKNOWLEDGE,
    MAILBOX_LIST,
    MAILBOX_MESSAGE,
    MAILBOX_READ,
    MAILBOX_SEND,
    MAILBOX_SENT,
    AboutSession,
    AcknowledgeMail,
    ListSent,
    ReadMailbox,
    ReadMessage,
    SendMail,
)

ROWS = 50
_MOST = (1 << 63) - 1
"""Beyond it there is no sequence: a page after it is empty."""
Whole = Annotated[int, msgspec.Meta(ge=0)]


class MailBody(Body, frozen=True):
    target_session_id: str
    message: str
    idempotency_key: str
    topic: str | None = None
    state_stamp: str | None = None
    kind: str | None = msgspec.field(name="class", default=None)


class PageBody(Body, frozen=True):
    after_sequence: Whole = 0
    limit: Whole = ROWS


class AcknowledgeBody(Body, frozen=True):
    expected_processed_through: Whole
    processed_through: Whole


class _MailRoute(Resource):
    worker = "coordination"


class SendMessage(_MailRoute):
    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        body = await read_body(req, MailBody)
        request = SendMail(
            session_id=session_id,
            target_session_id=body.target_session_id,
            message=body.message,
            idempotency_key=body.idempotency_key,
            topic=body.topic,
            state_stamp=body.state_stamp,
            kind=body.kind,
        )
        await self.forward(req, resp, MAILBOX_SEND, request, 202)


class Mailboxes(_MailRoute):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, MAILBOX_LIST, AboutSession(session_id))


class SentMessages(_MailRoute):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        query = Query(req, "sent messages")
        limit = query.count("limit", 1, PAGE_ROWS, default=ROWS)
        request = ListSent(session_id, state=query.words("state"), limit=limit, before=query.words("before"))
        await self.forward(req, resp, MAILBOX_SENT, request)


class MailboxPage(_MailRoute):
    async def on_post(self, req: Request, resp: Response, session_id: str, mailbox_id: str) -> None:
        body = await read_body(req, PageBody)
        request = ReadMailbox(session_id, mailbox_id, min(body.after_sequence, _MOST), min(body.limit, PAGE_ROWS))
        await self.forward(req, resp, MAILBOX_READ, request)


class AcknowledgeMailbox(_MailRoute):
    async def on_post(self, req: Request, resp: Response, session_id: str, mailbox_id: str) -> None:
        body = await read_body(req, AcknowledgeBody)
        request = AcknowledgeMail(session_id, mailbox_id, body.expected_processed_through, body.processed_through)
        await self.forward(req, resp, MAILBOX_ACKNOWLEDGE, request)


class MailboxMessage(_MailRoute):
    async def on_get(self, req: Request, resp: Response, session_id: str, message_id: str) -> None:
        request = ReadMessage(session_id, message_id)
        await self.forward(req, resp, MAILBOX_MESSAGE, request)
