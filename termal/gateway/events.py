"""``GET /api/events``: one client's stream of server-sent events. What it carries and in which order is the hub's."""

import asyncio

from falcon.asgi import Request, Response

from termal.gateway.context import Gateway
from termal.gateway.door import Visit
from termal.gateway.hub import Hub
from termal.gateway.route import visit_of
from termal.gateway.stream import Stream


class Events:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_get(self, req: Request, resp: Response) -> None:
        resp.content_type = "text/event-stream"
        resp.set_header("Cache-Control", "no-cache")
        visit = visit_of(req)
        visit.streamed = True
        hub = self._gateway.hub
        if hub.draining:
            resp.data = b""
            return
        resp.stream = EventBody(hub, hub.open(), visit)


class EventBody:
    """The body of the reply: ends with its stream, and ends its stream when the client leaves."""

    def __init__(self, hub: Hub, stream: Stream, visit: Visit) -> None:
        self._hub = hub
        self._stream = stream
        self._visit = visit
        self._watch: asyncio.Task[None] | None = None

    def __aiter__(self) -> "EventBody":
        # A client may leave while nothing is sent to it: only the receiving side tells.
        self._watch = asyncio.create_task(self._until_gone())
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._stream.next()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._hub.leave(self._stream)

    async def _until_gone(self) -> None:
        await self._visit.disconnected()
        self._stream.close()
        self._hub.leave(self._stream)
