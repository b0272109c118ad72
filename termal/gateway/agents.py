"""``/api/agents``: which agents can be used, and another try for one that ends right after its start."""

from falcon.asgi import Request, Response

from termal.gateway.resource import Resource
from termal.wire.agent_operations import AGENT_RETRY, AGENTS_LIST, OneAgent
from termal.wire.turns import Anything


class Agents(Resource):
    async def on_get(self, req: Request, resp: Response) -> None:
        await self.forward(req, resp, AGENTS_LIST, Anything())


class AgentRetry(Resource):
    async def on_post(self, req: Request, resp: Response, agent: str) -> None:
        await self.forward(req, resp, AGENT_RETRY, OneAgent(agent))
