"""The floor's gateway for reads: Falcon under the same gunicorn worker, one route, one hop, the worker's bytes out."""

import os
import time
from typing import Any

import falcon
import falcon.asgi

from termal.bus.aio import AioLoop
from termal.bus.ask import ask
from termal.bus.client import Client
from termal.wire.session_operations import SESSION_HISTORY, SESSION_OVERVIEW, ReadHistory, ReadOverview


class Life:
    client: Client

    async def process_startup(self, _scope: Any, _event: Any) -> None:
        Life.client = Client(AioLoop(), os.environ["FLOOR_RUN"], "floor", "gateway")


class Page:
    async def on_get(self, request: falcon.asgi.Request, response: falcon.asgi.Response, session: str) -> None:
        wanted = ReadHistory(session_id=session, around=request.get_param_as_int("around", required=True))
        reply = await ask(Life.client, SESSION_HISTORY, wanted, deadline_s=time.monotonic() + 2)
        response.data = reply.json
        response.content_type = "application/json"


class Overview:
    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response, session: str) -> None:
        wanted = ReadOverview(session, 512)
        reply = await ask(Life.client, SESSION_OVERVIEW, wanted, deadline_s=time.monotonic() + 2)
        response.data = reply.json
        response.content_type = "application/json"


app = falcon.asgi.App(middleware=[Life()])
app.add_route("/api/sessions/{session}/history", Page())
app.add_route("/api/sessions/{session}/overview", Overview())
