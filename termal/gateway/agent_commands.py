"""Commands that can be typed in a session: listed, and turned into the prompt that they stand for. Sends nothing."""

from typing import Literal

from falcon.asgi import Request, Response

from termal.gateway.bodies import Body, read_body
from termal.gateway.resource import Resource
from termal.wire.session_operations import OneSession
from termal.wire.settings_operations import COMMAND_RESOLVE, COMMANDS_LIST, ResolveCommand


class ResolveBody(Body, frozen=True):
    arguments: str | None = None
    note: str | None = None
    cwd: str | None = None
    intent: Literal["send", "delegate"] | None = None


class AgentCommands(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, COMMANDS_LIST, OneSession(session_id))


class AgentCommand(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str, name: str) -> None:
        body = await read_body(req, ResolveBody)
        request = ResolveCommand(
            session_id=session_id,
            name=name,
            arguments=body.arguments,
            note=body.note,
            cwd=body.cwd,
            intent=body.intent or "send",
        )
        await self.forward(req, resp, COMMAND_RESOLVE, request)
