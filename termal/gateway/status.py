"""``GET /api/status``: the daemon's processes, databases, agents and counts as one object."""

from falcon.asgi import Request, Response

from termal.gateway.census import Census
from termal.gateway.reply import send_json
from termal.gateway.route import trace_of
from termal.wire.codec import encode_json


class Status:
    def __init__(self, census: Census) -> None:
        self._census = census

    async def on_get(self, req: Request, resp: Response) -> None:
        figures = await self._census.take(trace_of(req))
        await send_json(req, resp, encode_json(figures.status))
