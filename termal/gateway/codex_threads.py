"""The Codex thread of a session: fork, archive, unarchive, compact, roll back, list its MCP servers. State decides."""

from falcon.asgi import Request, Response

from termal.gateway.bodies import Body, read_body
from termal.gateway.context import Gateway
from termal.gateway.resource import Resource
from termal.gateway.route import key_of
from termal.model.message import Record
from termal.wire.operation import Operation
from termal.wire.session_operations import OneSession
from termal.wire.thread_operations import (
    THREAD_ARCHIVE,
    THREAD_COMPACT,
    THREAD_FORK,
    THREAD_ROLLBACK,
    THREAD_SERVERS,
    THREAD_UNARCHIVE,
    ForkThread,
    RollBack,
)
from termal.wire.turns import JsonReply


class RollbackBody(Body, frozen=True):
    num_turns: int = 1


class ServerTool(Record, frozen=True):
    name: str
    title: str | None = None
    description: str | None = None


class ToolServer(Record, frozen=True):
    name: str
    auth_status: str
    tools: list[ServerTool]


class ToolServersResponse(Record, frozen=True):
    servers: list[ToolServer]


class ThreadFork(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, THREAD_FORK, ForkThread(key_of(req), session_id), 201)


class ThreadStep(Resource):
    """What needs nothing but the session."""

    def __init__(self, gateway: Gateway, op: Operation[OneSession, JsonReply]) -> None:
        super().__init__(gateway)
        self._op = op

    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, self._op, OneSession(session_id))


class ThreadRollback(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        body = await read_body(req, RollbackBody, empty=RollbackBody())
        await self.forward(req, resp, THREAD_ROLLBACK, RollBack(session_id, body.num_turns))


class ToolServers(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, THREAD_SERVERS, OneSession(session_id))


def thread_routes(gateway: Gateway, session: str) -> dict[str, Resource]:
    """``session`` is the path of one session."""
    thread = f"{session}/codex/thread"
    return {
        f"{thread}/fork": ThreadFork(gateway),
        f"{thread}/archive": ThreadStep(gateway, THREAD_ARCHIVE),
        f"{thread}/unarchive": ThreadStep(gateway, THREAD_UNARCHIVE),
        f"{thread}/compact": ThreadStep(gateway, THREAD_COMPACT),
        f"{thread}/rollback": ThreadRollback(gateway),
        f"{session}/codex/mcp-servers": ToolServers(gateway),
    }
