"""The demo agent's end of one MCP server: started by the first call, one connection for a conversation."""

import asyncio
import json
import os
from typing import Any, NamedTuple

from acp.exceptions import RequestError
from acp.schema import McpServerStdio

SERVER = "termal-delegation"


class Result(NamedTuple):
    """``value`` is what ``$LAST`` stands for: the structured result, else the text read as JSON, else the text."""

    text: str
    value: Any
    failed: bool


class _Call(NamedTuple):
    name: str
    arguments: dict[str, Any]
    result: "asyncio.Future[Result]"


class Tools:
    """One task owns the connection: what the MCP library opens in a task it must close in the same one."""

    def __init__(self, server: McpServerStdio, folder: str) -> None:
        self._server = server
        self._folder = folder
        self._calls: asyncio.Queue[_Call] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def call(self, name: str, arguments: dict[str, Any]) -> Result:
        """Raises `RequestError` when the server cannot be reached or has no such tool."""
        if self._task is None or self._task.done():
            self._calls = asyncio.Queue()
            self._task = asyncio.create_task(self._serve(self._calls))
        call = _Call(name, arguments, asyncio.get_running_loop().create_future())
        await self._calls.put(call)
        waited: list[asyncio.Future[Any]] = [call.result, self._task]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not call.result.done():
            raise _failure(f"the MCP server {self._server.name} ended: {self._task.exception()}")
        return call.result.result()

    async def _serve(self, calls: "asyncio.Queue[_Call]") -> None:
        # The library takes about a second to import, and only this directive needs it.
        from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client  # noqa: PLC0415

        environment = {**os.environ, **{variable.name: variable.value for variable in self._server.env}}
        parameters = StdioServerParameters(
            command=self._server.command, args=self._server.args, env=environment, cwd=self._folder
        )
        async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as session:
            await session.initialize()
            while True:
                call = await calls.get()
                try:
                    result = _result(await session.call_tool(call.name, call.arguments))
                except MCPError as error:
                    call.result.set_exception(_failure(f"tool {call.name}: {error}"))
                else:
                    call.result.set_result(result)


def _failure(text: str) -> RequestError:
    return RequestError(-32603, text)


def _result(answer: Any) -> Result:
    text = "\n".join(part.text for part in answer.content if getattr(part, "type", "") == "text")
    structured = answer.structured_content
    if structured is None:
        try:
            structured = json.loads(text)
        except ValueError:
            structured = text
    return Result(text, structured, bool(answer.is_error))
