"""Waits for delegations, reviews that children hand in, and the record of who did what."""

from typing import Literal

from falcon.asgi import Request, Response
from msgspec import Raw

from termal.gateway.bodies import Body
from termal.gateway.delegations import actor_of, keyed_id, read_delegation_body
from termal.gateway.query import Query
from termal.gateway.reply import send_json
from termal.gateway.resource import Resource
from termal.gateway.route import trace_of
from termal.model.delegation import WaitMode
from termal.wire.delegation_operations import (
    AUDIT_READ,
    AUDIT_RECORD,
    DELEGATION_WAIT,
    DELEGATION_WAITS,
    REVIEW_SUBMIT,
    CreateWait,
    DelegationsOf,
    ReadAudit,
    RecordTimeout,
    SubmitReview,
)

AUDIT_EVENTS = 100
MOST_AUDIT_EVENTS = 200


class WaitBody(Body, frozen=True):
    """``count``: how many must be over, for the mode ``count``. ``deadline_ms``: the parent is resumed then with what
    is there."""

    delegation_ids: list[str]
    mode: WaitMode | None = None
    title: str | None = None
    count: int | None = None
    deadline_ms: int | None = None


class TimeoutBody(Body, frozen=True):
    kind: Literal["timeout"]
    delegation_ids: list[str]
    timeout_ms: int


class DelegationWaits(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, DELEGATION_WAITS, DelegationsOf(session_id))

    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        wait_id = keyed_id("delegation-wait", req, session_id)
        body = await read_delegation_body(req, WaitBody)
        request = CreateWait(
            wait_id=wait_id,
            parent_session_id=session_id,
            delegation_ids=body.delegation_ids,
            mode=body.mode or "all",
            title=body.title,
            count=body.count,
            deadline_ms=body.deadline_ms,
            actor=actor_of(req),
        )
        await self.forward(req, resp, DELEGATION_WAIT, request, 201)


class DelegationReview(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        body = await read_delegation_body(req, Raw)
        request = SubmitReview(child_session_id=session_id, body=bytes(body), actor=actor_of(req))
        await self.forward(req, resp, REVIEW_SUBMIT, request, 202)


class DelegationAudit(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        query = Query(req, "audit")
        request = ReadAudit(
            parent_session_id=session_id,
            after=query.count("after", 0, default=0),
            limit=query.count("limit", 1, MOST_AUDIT_EVENTS, default=AUDIT_EVENTS),
        )
        await self.forward(req, resp, AUDIT_READ, request)

    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        body = await read_delegation_body(req, TimeoutBody)
        request = RecordTimeout(
            parent_session_id=session_id,
            delegation_ids=body.delegation_ids,
            timeout_ms=body.timeout_ms,
            actor=actor_of(req),
        )
        await self._gateway.ask(self.worker, AUDIT_RECORD, request, trace=trace_of(req))
        await send_json(req, resp, b"{}", 202)
