"""``GET /api/state``: everything but transcripts, as state made it."""

from falcon.asgi import Request, Response

from termal.gateway.context import Gateway
from termal.gateway.reply import send_json
from termal.gateway.route import trace_of
from termal.wire.session_operations import STATE_SNAPSHOT
from termal.wire.turns import Anything


class State:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_get(self, req: Request, resp: Response) -> None:
        snapshot = await self._gateway.ask("state", STATE_SNAPSHOT, Anything(), trace=trace_of(req))
        await send_json(req, resp, snapshot.json)
