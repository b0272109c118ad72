"""``GET /api/state``: everything but transcripts, as state made it."""

import asyncio

from falcon.asgi import Request, Response

from termal.gateway.context import Gateway
from termal.gateway.reply import send_json
from termal.gateway.route import trace_of, visit_of
from termal.gateway.scope import seen_by
from termal.wire.session_operations import STATE_SNAPSHOT
from termal.wire.turns import Anything


class State:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_get(self, req: Request, resp: Response) -> None:
        snapshot = await self._gateway.ask("state", STATE_SNAPSHOT, Anything(), trace=trace_of(req))
        session_id = visit_of(req).holder.session_id
        # With the token of a session only: nobody else pays for taking the state apart.
        body = snapshot.json if session_id is None else await asyncio.to_thread(seen_by, session_id, snapshot.json)
        await send_json(req, resp, body)
