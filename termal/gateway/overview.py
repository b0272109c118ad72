"""``GET /api/sessions/{id}/overview``: a transcript of any length in a few buckets, made by state."""

from falcon.asgi import Request, Response

from termal.gateway.query import Query
from termal.gateway.resource import Resource
from termal.rules.overview_buckets import BUCKETS, MOST_BUCKETS
from termal.wire.session_operations import SESSION_OVERVIEW, ReadOverview


class Overview(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        buckets = Query(req, "overview").count("buckets", 1, MOST_BUCKETS, default=BUCKETS)
        await self.forward(req, resp, SESSION_OVERVIEW, ReadOverview(session_id, buckets))
