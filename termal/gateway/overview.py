"""``GET /api/sessions/{id}/overview``: a transcript of any length in a few buckets, made by state."""

from falcon.asgi import Request, Response

from termal.gateway.context import Gateway
from termal.gateway.query import Query
from termal.gateway.reply import send_json
from termal.gateway.route import trace_of
from termal.rules.overview_buckets import BUCKETS, MOST_BUCKETS
from termal.wire.session_operations import SESSION_OVERVIEW, ReadOverview


class Overview:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        buckets = Query(req, "overview").number("buckets", 1, MOST_BUCKETS)
        request = ReadOverview(session_id, BUCKETS if buckets is None else buckets)
        reply = await self._gateway.ask("state", SESSION_OVERVIEW, request, trace=trace_of(req))
        await send_json(req, resp, reply.json)
