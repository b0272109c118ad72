"""``GET /api/health``: one small answer for scripts and load balancers; 503 while nothing can be read or written."""

from falcon.asgi import Request, Response
from msgspec import UNSET, UnsetType

import termal
from termal.gateway.census import Census
from termal.gateway.context import Gateway
from termal.gateway.reply import send_json
from termal.gateway.report import judge, read_report
from termal.gateway.route import trace_of
from termal.model.message import Record
from termal.model.status import DaemonState, ProcessState
from termal.wire.codec import encode_json


class HealthReply(Record, frozen=True):
    """``workers``: the state of each process by its name."""

    ok: bool
    state: DaemonState
    version: str
    server_instance_id: str
    workers: dict[str, ProcessState]
    reason: str | UnsetType = UNSET


class Health:
    def __init__(self, gateway: Gateway, census: Census) -> None:
        self._gateway = gateway
        self._census = census

    async def on_get(self, req: Request, resp: Response) -> None:
        report = read_report(self._gateway.home)
        verdict = judge(report, self._gateway.is_up)
        alive = verdict.state != "down"
        body = HealthReply(
            ok=alive,
            state=verdict.state,
            version=report.version if report is not None else termal.__version__,
            server_instance_id=await self._census.instance_id(trace_of(req)),
            workers={row.name: row.state for row in report.processes} if report is not None else {},
            reason=UNSET if verdict.reason is None else verdict.reason,
        )
        await send_json(req, resp, encode_json(body), 200 if alive else 503)
