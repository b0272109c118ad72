"""The list of agents as people see it, and what keeps it true: what runtime workers say, what a person wants of one."""

from collections.abc import Mapping

from termal.bus.server import Handler, Request
from termal.model.reply import AgentsResponse
from termal.procs.agents import Readiness
from termal.rules.settings import runtime_of
from termal.wire.agent_operations import AGENT_FORGIVE, OneAgent, TellTroubles
from termal.wire.codec import encode_json
from termal.wire.errors import NotFound, TermalError
from termal.wire.turns import Anything, JsonReply
from workers.state.readiness import Agents
from workers.state.runtimes import Runtimes

AGENT_OPERATIONS = ("agents.list", "agents.trouble", "agent.retry")


class AgentList:
    def __init__(self, agents: Agents, runtimes: Runtimes) -> None:
        self._agents = agents
        self._runtimes = runtimes

    def table(self) -> Mapping[str, Handler]:
        return {"agents.list": self._list, "agents.trouble": self._told, "agent.retry": self._retry}

    def rows(self) -> list[Readiness]:
        """One for each known agent."""
        return [self._runtimes.troubles.shown(row) for row in self._agents.rows()]

    def _reply(self) -> JsonReply:
        return JsonReply(encode_json(AgentsResponse(agents=self.rows())))

    def _list(self, request: Request, _: Anything) -> None:
        request.reply(self._reply())

    def _told(self, request: Request, body: TellTroubles) -> None:
        # A link to whoever says this also learns when it ends.
        self._runtimes.client(body.worker)
        self._runtimes.troubles.told(body.worker, body.agents)
        request.reply(Anything())

    def _retry(self, request: Request, body: OneAgent) -> None:
        """The handler of ``agent.retry``. What waits for the agent goes on as after any other start of it."""
        if all(row.agent != body.agent for row in self._agents.rows()):
            raise NotFound(f"there is no agent {body.agent!r}", reason="unknownAgent")
        worker = runtime_of(body.agent)
        client = self._runtimes.client(worker)
        runtimes = self._runtimes
        if not client.up and worker not in runtimes.running and not runtimes.troubles.has(worker):
            # No worker, no trouble: its next life begins without any.
            request.reply(self._reply())
            return

        def done(_: Anything | None, error: TermalError | None) -> None:
            if error is not None:
                request.refuse(error)
                return
            self._runtimes.troubles.forgive(worker, body.agent)
            request.reply(self._reply())

        client.call(AGENT_FORGIVE, body, done, trace=request.trace, deadline_s=request.deadline_s)
