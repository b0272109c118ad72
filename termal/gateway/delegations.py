"""Delegations of a session: spawn, list, read, cancel, go on. Shapes are checked here, what they say by state."""

import hashlib
import uuid
from typing import Any, TypeVar

from falcon.asgi import Request, Response
from msgspec import UNSET

from termal.gateway.bodies import Body, read_body
from termal.gateway.query import Query
from termal.gateway.resource import Resource
from termal.gateway.route import key_of
from termal.model.delegation import Actor, Mode
from termal.rules.delegation_output import DEFAULT_BYTES
from termal.wire.codec import encode_json
from termal.wire.delegation_operations import (
    DELEGATION_CANCEL,
    DELEGATION_CAPACITY,
    DELEGATION_FOLLOWUP,
    DELEGATION_LIST,
    DELEGATION_OUTPUT,
    DELEGATION_RESULT,
    DELEGATION_SPAWN,
    DELEGATION_STATUS,
    DelegationsOf,
    FollowUp,
    OneDelegation,
    ReadOutput,
    SpawnDelegation,
)
from termal.wire.errors import Unprocessable

CLIENT = "X-TermAl-Client"
BRIDGE = "mcp-bridge"

T = TypeVar("T")


class DelegationBody(Body, frozen=True):
    """``write_policy``: its kind as text, or an object with its ``kind``."""

    prompt: str
    title: str | None = None
    cwd: str | None = None
    agent: str | None = None
    model: str | None = None
    mode: Mode | None = None
    write_policy: Any = UNSET


class FollowUpBody(Body, frozen=True):
    message: str


async def read_delegation_body(req: Request, kind: type[T]) -> T:
    """The body as ``kind``. Raises `Unprocessable` with the one reason that there is for all of them."""
    try:
        return await read_body(req, kind)
    except Unprocessable as error:
        raise Unprocessable(error.message, reason="invalidJson") from error


def actor_of(req: Request) -> Actor:
    """Who asks: the bridge says so itself, for the record of who did what; it gives no rights."""
    return "mcp" if req.get_header(CLIENT) == BRIDGE else "rest"


def keyed_id(prefix: str, req: Request, session_id: str) -> str:
    """The id of what a request makes: the same for the same ``Idempotency-Key``, so that a repeat finds it."""
    seed = "\n".join((prefix, session_id, key_of(req)))
    return f"{prefix}-{uuid.UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16], version=4)}"


def _one(req: Request, session_id: str, delegation_id: str) -> OneDelegation:
    return OneDelegation(parent_session_id=session_id, delegation_id=delegation_id, actor=actor_of(req))


class Delegations(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, DELEGATION_LIST, DelegationsOf(session_id))

    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        delegation_id = keyed_id("delegation", req, session_id)
        body = await read_delegation_body(req, DelegationBody)
        request = SpawnDelegation(
            delegation_id=delegation_id,
            parent_session_id=session_id,
            prompt=body.prompt,
            title=body.title,
            cwd=body.cwd,
            agent=body.agent,
            model=body.model,
            mode=body.mode,
            write_policy=None if body.write_policy is UNSET else encode_json(body.write_policy),
            actor=actor_of(req),
        )
        await self.forward(req, resp, DELEGATION_SPAWN, request, 201)


class Capacity(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, DELEGATION_CAPACITY, DelegationsOf(session_id))


class Delegation(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str, delegation_id: str) -> None:
        await self.forward(req, resp, DELEGATION_STATUS, _one(req, session_id, delegation_id))


class DelegationResult(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str, delegation_id: str) -> None:
        await self.forward(req, resp, DELEGATION_RESULT, _one(req, session_id, delegation_id))


class DelegationOutput(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str, delegation_id: str) -> None:
        query = Query(req, "output")
        request = ReadOutput(
            parent_session_id=session_id,
            delegation_id=delegation_id,
            offset_bytes=query.count("offsetBytes", 0, default=0),
            limit_bytes=query.count("limitBytes", 0, default=DEFAULT_BYTES),
            actor=actor_of(req),
        )
        await self.forward(req, resp, DELEGATION_OUTPUT, request)


class CancelDelegation(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str, delegation_id: str) -> None:
        await self.forward(req, resp, DELEGATION_CANCEL, _one(req, session_id, delegation_id))


class FollowUpDelegation(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str, delegation_id: str) -> None:
        key = key_of(req)
        body = await read_delegation_body(req, FollowUpBody)
        request = FollowUp(
            key=key,
            parent_session_id=session_id,
            delegation_id=delegation_id,
            message=body.message,
            actor=actor_of(req),
        )
        await self.forward(req, resp, DELEGATION_FOLLOWUP, request)
