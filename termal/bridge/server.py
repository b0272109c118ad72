"""The MCP server: its methods, the verdict behind the list of tools, and the border where failures become answers."""

import asyncio
import sys
import traceback
from collections.abc import Coroutine
from typing import Any

from termal import __version__
from termal.bridge.backend import Backend
from termal.bridge.caller import Caller
from termal.bridge.descriptor import SERVER
from termal.bridge.failures import ToolFailed, pretty
from termal.bridge.sdk import CallToolRequestParams, Entry, PaginatedRequestParams, Registry, RequestParams
from termal.bridge.tools import call, listed

LIST_S = 5.0
"""So long an agent's first question for the tools may wait for the daemon."""
LOOK_AGAIN_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""While the daemon cannot say what the caller is; the last one is repeated."""
MODERN_VERSIONS = ["2026-07-28"]
"""In which every request names its version and nobody shakes hands. There a list that has grown is not told of: the
agent is told instead that what it got is stale at once."""
COMPLETE = {"resultType": "complete"}
"""What results must have there."""
FRESH = {**COMPLETE, "ttlMs": 0, "cacheScope": "private"}


class Bridge:
    """One connection's handlers."""

    def __init__(self, backend: Backend, caller: Caller) -> None:
        self._backend = backend
        self._caller = caller
        self._listed_less: Any = None
        """The session to tell when the list of tools has grown."""
        self._looking: asyncio.Task[None] | None = None

    def registry(self) -> Registry:
        return Registry(
            SERVER,
            __version__,
            {
                "ping": Entry(RequestParams, self._ping),
                "server/discover": Entry(RequestParams, self._discover),
                "tools/list": Entry(PaginatedRequestParams, self._list),
                "tools/call": Entry(CallToolRequestParams, self._call),
            },
        )

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _ping(self, _context: Any, _params: Any) -> dict[str, Any]:
        return {}

    async def _discover(self, _context: Any, _params: Any) -> dict[str, Any]:
        return {**FRESH, "supportedVersions": MODERN_VERSIONS, "capabilities": {"tools": {"listChanged": False}}}

    async def _list(self, context: Any, _params: Any) -> dict[str, Any]:
        verdict = await self._caller.verdict(limit_s=LIST_S)
        if verdict.kind == "unknown" and not _is_modern(context):
            self._listed_less = context.session
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look_again())
        elif verdict.kind != "unknown":
            await self._tell()
        return {**(FRESH if _is_modern(context) else {}), "tools": listed(verdict)}

    async def _call(self, context: Any, params: Any) -> dict[str, Any]:
        async def report(done: int, total: int, message: str) -> None:
            await context.session.report_progress(done, total, message)

        answer = await _answer(call(self._backend, self._caller, params.name, params.arguments or {}, report))
        await self._tell()
        return {**(COMPLETE if _is_modern(context) else {}), **answer}

    async def _look_again(self) -> None:
        waits = iter(LOOK_AGAIN_S)
        wait_s = LOOK_AGAIN_S[0]
        while not self._caller.known:
            wait_s = next(waits, wait_s)
            await asyncio.sleep(wait_s)
            await self._caller.verdict()
        await self._tell()

    async def _tell(self) -> None:
        session, self._listed_less = self._listed_less, self._listed_less if not self._caller.known else None
        if session is not None and self._caller.known:
            await session.send_tool_list_changed()


def _is_modern(context: Any) -> bool:
    return context.protocol_version in MODERN_VERSIONS


async def _answer(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """A tool's result, whatever became of it: no failure of a tool is an error of the protocol."""
    try:
        value = await work
    except ToolFailed as error:
        failed: dict[str, Any] = {"content": [{"type": "text", "text": error.text}], "isError": True}
        return failed if error.packet is None else {**failed, "structuredContent": error.packet}
    except Exception as error:  # noqa: BLE001 - the border to MCP: our own fault, answered and logged
        sys.stderr.write("".join(traceback.format_exception(error)))
        text = "a fault inside the bridge; its stderr has more"
        return {"content": [{"type": "text", "text": text}], "isError": True}
    return {"content": [{"type": "text", "text": pretty(value)}], "isError": False, "structuredContent": value}
