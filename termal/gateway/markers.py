"""Markers of a transcript: list, create, change, delete. Shapes are checked here, what they say by state."""

from falcon.asgi import Request, Response
from msgspec import UNSET, UnsetType

from termal.gateway.bodies import Body, read_body
from termal.gateway.resource import Resource
from termal.model.ids import new_marker_id
from termal.model.marker import MarkerKind
from termal.wire.session_operations import (
    MARKER_CREATE,
    MARKER_DELETE,
    MARKER_LIST,
    MARKER_UPDATE,
    CreateMarker,
    OneMarker,
    OneSession,
    UpdateMarker,
)


class MarkerBody(Body, frozen=True):
    kind: MarkerKind
    name: str
    color: str
    message_id: str
    body: str | None = None
    end_message_id: str | None = None


class MarkerPatchBody(Body, frozen=True):
    """What is left out stays; null clears, where there may be nothing."""

    kind: MarkerKind | UnsetType = UNSET
    name: str | UnsetType = UNSET
    color: str | UnsetType = UNSET
    message_id: str | UnsetType = UNSET
    body: str | UnsetType | None = UNSET
    end_message_id: str | UnsetType | None = UNSET


class Markers(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, MARKER_LIST, OneSession(session_id))

    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        body = await read_body(req, MarkerBody)
        request = CreateMarker(
            session_id=session_id,
            marker_id=new_marker_id(),
            kind=body.kind,
            name=body.name,
            color=body.color,
            message_id=body.message_id,
            body=body.body,
            end_message_id=body.end_message_id,
        )
        await self.forward(req, resp, MARKER_CREATE, request, 201)


class Marker(Resource):
    async def on_patch(self, req: Request, resp: Response, session_id: str, marker_id: str) -> None:
        body = await read_body(req, MarkerPatchBody)
        request = UpdateMarker(
            session_id=session_id,
            marker_id=marker_id,
            kind=body.kind,
            name=body.name,
            color=body.color,
            message_id=body.message_id,
            body=body.body,
            end_message_id=body.end_message_id,
        )
        await self.forward(req, resp, MARKER_UPDATE, request)

    async def on_delete(self, req: Request, resp: Response, session_id: str, marker_id: str) -> None:
        request = OneMarker(session_id, marker_id)
        await self.forward(req, resp, MARKER_DELETE, request)
