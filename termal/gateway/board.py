"""The board of a session's project: list, get, set. Shapes are checked here; who may, and what, by coordination."""

import asyncio
from typing import Annotated

from falcon.asgi import Request, Response
from msgspec import UNSET, Meta, Raw, UnsetType

from termal.gateway.bodies import Body, read_body
from termal.gateway.query import Query
from termal.gateway.reply import send_json
from termal.gateway.resource import Resource
from termal.gateway.route import trace_of
from termal.rules.board_field import PAGE_ENTRIES
from termal.rules.board_value import compact
from termal.rules.verdicts import Malformed
from termal.wire.board_operations import BOARD_GET, BOARD_LIST, BOARD_SET, ReadBoard, ReadBoardKey, SetBoardKey
from termal.wire.errors import Unprocessable

LONG_VALUE_BYTES = 32 << 10
"""A value that long goes on without its white space: coordination reads no text that is beyond every limit."""
_PARAMETERS = ("afterKey", "limit", "snapshotGeneration", "knownGeneration")


class BoardSetBody(Body, frozen=True, forbid_unknown_fields=True):
    """``value`` may be null, which is a value: without it ``delete`` is true."""

    key: str
    expected_revision: Annotated[int, Meta(ge=0)]
    idempotency_key: str
    value: Raw | UnsetType = UNSET
    delete: bool = False
    state_stamp: str | None = None


class _BoardRoute(Resource):
    worker = "coordination"


class Board(_BoardRoute):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        query = Query(req, "board")
        unknown = sorted(set(req.params) - set(_PARAMETERS))
        if unknown:
            raise query.refusal(f"{unknown[0]!r} is none of {', '.join(_PARAMETERS)}")
        limit = query.count("limit", 0, default=PAGE_ENTRIES)
        asked = ReadBoard(
            session_id,
            query.one("afterKey"),
            limit,
            query.number("snapshotGeneration", 0),
            query.number("knownGeneration", 0),
        )
        await self.forward(req, resp, BOARD_LIST, asked)


class BoardKey(_BoardRoute):
    async def on_get(self, req: Request, resp: Response, session_id: str, key: str) -> None:
        asked = ReadBoardKey(session_id, key)
        await self.forward(req, resp, BOARD_GET, asked)


class BoardSet(_BoardRoute):
    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        body = await read_body(req, BoardSetBody)
        write = SetBoardKey(
            session_id=session_id,
            key=body.key,
            expected_revision=body.expected_revision,
            idempotency_key=body.idempotency_key,
            value=None if body.value is UNSET else await _on_its_way(bytes(body.value)),
            delete=body.delete,
            state_stamp=body.state_stamp,
        )
        written = await self._gateway.ask(self.worker, BOARD_SET, write, trace=trace_of(req))
        await send_json(req, resp, written.json, 201 if written.created else 200)


async def _on_its_way(value: bytes) -> bytes:
    """Raises `Unprocessable`."""
    if len(value) <= LONG_VALUE_BYTES:
        return value
    try:
        return await asyncio.to_thread(compact, value)
    except Malformed as error:
        raise Unprocessable(error.text, reason=error.reason) from error
