"""The demo agent as an ACP agent: conversations, prompts, cancel. What a directive does is `termal.demo_agent.work`."""

import asyncio
import uuid
from typing import Any

from acp import (
    Client,
    RequestError,
    update_agent_message_text,
    update_user_message_text,
)
from acp.schema import (
    AgentCapabilities,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    McpServerStdio,
    NewSessionResponse,
    PromptResponse,
)

from termal import __version__
from termal.demo_agent.conversations import Conversations
from termal.demo_agent.directives import Directive, Say, directives
from termal.demo_agent.tools import SERVER, Tools
from termal.demo_agent.work import Cancelled, Output, Work


class Conversation:
    """What the agent knows of one conversation while it runs."""

    def __init__(self, work: Work, exchanges: list[dict[str, str]]) -> None:
        self.work = work
        self.exchanges = exchanges
        self.running: asyncio.Task[None] | None = None


class DemoAgent:
    """One process serves any number of conversations, one prompt at a time in each."""

    def __init__(self, conversations: Conversations, output: Output) -> None:
        self._conversations = conversations
        self._output = output
        self._known: dict[str, Conversation] = {}
        self._client: Client | None = None

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=min(protocol_version, 1),
            agent_capabilities=AgentCapabilities(load_session=True),
            agent_info=Implementation(name="termal-demo", version=__version__),
        )

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> NewSessionResponse:
        conversation = f"demo-{uuid.uuid4().hex}"
        self._open(conversation, cwd, mcp_servers, [])
        self._conversations.write(conversation, [])
        return NewSessionResponse(session_id=conversation)

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> LoadSessionResponse:
        exchanges = self._conversations.read(session_id)
        if exchanges is None:
            raise RequestError(-32002, f"no conversation {session_id}")
        assert self._client is not None
        for exchange in exchanges:
            await self._client.session_update(session_id, update_user_message_text(exchange["prompt"]))
            if exchange["answer"]:
                await self._client.session_update(session_id, update_agent_message_text(exchange["answer"]))
        self._open(session_id, cwd, mcp_servers, exchanges)
        return LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> PromptResponse:
        known = self._known.get(session_id)
        if known is None:
            raise RequestError(-32602, f"session not found: {session_id}")
        if known.running is not None:
            raise RequestError(-32600, "a prompt of this conversation is running")
        text = "\n".join(block.text for block in prompt if getattr(block, "type", "") == "text")
        exchange = {"prompt": text, "answer": ""}
        known.exchanges.append(exchange)
        # Before anything is done: what was asked is known after a kill as well.
        self._conversations.write(session_id, known.exchanges)
        known.running = asyncio.create_task(self._perform(known, directives(text) or [Say(f"You said: {text}")]))
        try:
            await asyncio.wait([known.running])
            if known.running.cancelled():
                return PromptResponse(stop_reason="cancelled")
            known.running.result()
        except Cancelled:
            return PromptResponse(stop_reason="cancelled")
        finally:
            known.running = None
            exchange["answer"] = known.work.said()
            self._conversations.write(session_id, known.exchanges)
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        known = self._known.get(session_id)
        if known is not None and known.running is not None:
            known.running.cancel()

    async def _perform(self, known: Conversation, work: list[Directive]) -> None:
        known.work.begin()
        for directive in work:
            await known.work.do(directive)

    def _open(self, conversation: str, folder: str, servers: Any, exchanges: list[dict[str, str]]) -> None:
        assert self._client is not None
        found = [server for server in servers or () if isinstance(server, McpServerStdio) and server.name == SERVER]
        tools = Tools(found[0], folder) if found else None
        work = Work(self._client, conversation, folder, tools, self._output)
        self._known[conversation] = Conversation(work, exchanges)
