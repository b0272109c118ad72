"""Mail between sessions: send, list, read, follow up, acknowledge. Shapes are checked here, what they say elsewhere."""

from typing import Annotated

import msgspec
from falcon.asgi import Request, Response

from termal.gateway.bodies import Body, read_body
from termal.gateway.context import Gateway
from termal.gateway.query import Query
from termal.gateway.reply import send_json
from termal.gateway.route import trace_of
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


class SendMessage:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

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
        reply = await self._gateway.ask("coordination", MAILBOX_SEND, request, trace=trace_of(req))
        await send_json(req, resp, reply.json, 202)


class Mailboxes:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        reply = await self._gateway.ask("coordination", MAILBOX_LIST, AboutSession(session_id), trace=trace_of(req))
        await send_json(req, resp, reply.json)


class SentMessages:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        query = Query(req, "sent messages")
        limit = query.number("limit", 1, PAGE_ROWS)
        request = ListSent(
            session_id,
            state=query.words("state"),
            limit=ROWS if limit is None else limit,
            before=query.words("before"),
        )
        reply = await self._gateway.ask("coordination", MAILBOX_SENT, request, trace=trace_of(req))
        await send_json(req, resp, reply.json)


class MailboxPage:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_post(self, req: Request, resp: Response, session_id: str, mailbox_id: str) -> None:
        body = await read_body(req, PageBody)
        request = ReadMailbox(session_id, mailbox_id, min(body.after_sequence, _MOST), min(body.limit, PAGE_ROWS))
        reply = await self._gateway.ask("coordination", MAILBOX_READ, request, trace=trace_of(req))
        await send_json(req, resp, reply.json)


class AcknowledgeMailbox:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_post(self, req: Request, resp: Response, session_id: str, mailbox_id: str) -> None:
        body = await read_body(req, AcknowledgeBody)
        request = AcknowledgeMail(session_id, mailbox_id, body.expected_processed_through, body.processed_through)
        reply = await self._gateway.ask("coordination", MAILBOX_ACKNOWLEDGE, request, trace=trace_of(req))
        await send_json(req, resp, reply.json)


class MailboxMessage:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_get(self, req: Request, resp: Response, session_id: str, message_id: str) -> None:
        request = ReadMessage(session_id, message_id)
        reply = await self._gateway.ask("coordination", MAILBOX_MESSAGE, request, trace=trace_of(req))
        await send_json(req, resp, reply.json)
