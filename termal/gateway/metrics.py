"""``GET /metrics``: the figures of ``/api/status`` and of this process for Prometheus."""

import asyncio

from falcon.asgi import Request, Response

from termal.gateway.census import Census, Figures
from termal.gateway.context import Gateway
from termal.gateway.meters import Sample
from termal.gateway.route import trace_of


class Metrics:
    def __init__(self, gateway: Gateway, census: Census) -> None:
        self._gateway = gateway
        self._census = census

    async def on_get(self, req: Request, resp: Response) -> None:
        figures = await self._census.take(trace_of(req))
        hub = self._gateway.hub
        sample = self._gateway.meters.sample(streams=len(hub), lagged=hub.lagged)
        resp.data, resp.content_type = await asyncio.to_thread(_expose, figures, sample)


def _expose(figures: Figures, sample: Sample) -> tuple[bytes, str]:
    # Its library takes 40 ms to import: only who is scraped pays for it, and not on the event loop.
    from termal.gateway.exposition import expose  # noqa: PLC0415

    return expose(figures, sample)
