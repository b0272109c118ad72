"""``GET /api/search``: which messages hold some words. State answers; this checks the shape of the query."""

from falcon.asgi import Request, Response

from termal.gateway.context import Gateway
from termal.gateway.query import Query
from termal.gateway.reply import send_json
from termal.gateway.route import trace_of
from termal.wire import transcript_operations as ops

LIMIT = 64
HITS = 20


class Search:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_get(self, req: Request, resp: Response) -> None:
        query = Query(req, "search")
        words = query.words("q")
        if words is None:
            raise query.refusal("q is missing")
        limit = query.number("limit", 1, LIMIT)
        request = ops.Search(
            query=words,
            session_id=query.words("sessionId"),
            limit=HITS if limit is None else limit,
            cursor=query.words("cursor"),
        )
        reply = await self._gateway.ask("state", ops.SEARCH, request, trace=trace_of(req))
        await send_json(req, resp, reply.json)
