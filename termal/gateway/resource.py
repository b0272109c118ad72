"""What most routes are: a request made into one for a worker, whose reply is passed on unread."""

from typing import ClassVar, TypeVar

from falcon.asgi import Request, Response

from termal.gateway.context import Gateway
from termal.gateway.reply import send_json
from termal.gateway.route import trace_of
from termal.wire.operation import Operation
from termal.wire.turns import JsonReply

RequestT = TypeVar("RequestT")


class Resource:
    """``worker`` answers."""

    worker: ClassVar[str] = "state"

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def forward(
        self,
        req: Request,
        resp: Response,
        op: Operation[RequestT, JsonReply],
        request: RequestT,
        status: int = 200,
    ) -> None:
        """Answer with the worker's reply. Raises its `TermalError`."""
        reply = await self._gateway.ask(self.worker, op, request, trace=trace_of(req))
        await send_json(req, resp, reply.json, status)
