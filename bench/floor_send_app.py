"""The gateway of a send's floor: Falcon under the same gunicorn worker, one route, one hop, the worker's bytes out."""

import os
import time
from typing import Any

import falcon
import falcon.asgi
import msgspec

from termal.bus.aio import AioLoop
from termal.bus.ask import ask
from termal.bus.client import Client
from termal.gateway.mailboxes import MailBody
from termal.wire.mail_operations import MAILBOX_SEND, SendMail


class Life:
    client: Client

    async def process_startup(self, _scope: Any, _event: Any) -> None:
        Life.client = Client(AioLoop(), os.environ["FLOOR_RUN"], "floor", "gateway")


class Messages:
    async def on_post(self, request: falcon.asgi.Request, response: falcon.asgi.Response, session: str) -> None:
        body = msgspec.json.decode(await request.stream.read(), type=MailBody)
        mail = SendMail(
            session_id=session,
            target_session_id=body.target_session_id,
            message=body.message,
            idempotency_key=body.idempotency_key,
        )
        reply = await ask(Life.client, MAILBOX_SEND, mail, deadline_s=time.monotonic() + 5)
        response.status = "202 Accepted"
        response.data = reply.json
        response.content_type = "application/json"


app = falcon.asgi.App(middleware=[Life()])
app.add_route("/api/sessions/{session}/mailboxes/send", Messages())
