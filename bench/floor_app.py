"""The floor's gateway: Falcon under the same gunicorn worker, one route, one hop, the worker's bytes out."""

import os
import time
from typing import Any

import falcon
import falcon.asgi
import msgspec

from termal.bus.aio import AioLoop
from termal.bus.ask import ask
from termal.bus.client import Client
from termal.wire.session_operations import PROMPT_SEND, SendPrompt


class Body(msgspec.Struct):
    text: str


class Life:
    client: Client

    async def process_startup(self, _scope: Any, _event: Any) -> None:
        Life.client = Client(AioLoop(), os.environ["FLOOR_RUN"], "floor", "gateway")


class Messages:
    async def on_post(self, request: falcon.asgi.Request, response: falcon.asgi.Response, session: str) -> None:
        body = msgspec.json.decode(await request.stream.read(), type=Body)
        reply = await ask(
            Life.client,
            PROMPT_SEND,
            SendPrompt(key="k", session_id=session, text=body.text),
            deadline_s=time.monotonic() + 5,
        )
        response.status = "202 Accepted"
        response.data = reply.json
        response.content_type = "application/json"


app = falcon.asgi.App(middleware=[Life()])
app.add_route("/api/sessions/{session}/messages", Messages())
