"""``GET /api/search``: which messages hold some words. State answers; this checks the shape of the query."""

from falcon.asgi import Request, Response

from termal.gateway.query import Query
from termal.gateway.resource import Resource
from termal.wire import transcript_operations as ops

LIMIT = 64
HITS = 20


class Search(Resource):
    async def on_get(self, req: Request, resp: Response) -> None:
        query = Query(req, "search")
        words = query.words("q")
        if words is None:
            raise query.refusal("q is missing")
        limit = query.count("limit", 1, LIMIT, default=HITS)
        request = ops.Search(
            query=words,
            session_id=query.words("sessionId"),
            limit=limit,
            cursor=query.words("cursor"),
        )
        await self.forward(req, resp, ops.SEARCH, request)
