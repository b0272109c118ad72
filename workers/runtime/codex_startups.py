"""Which MCP servers of a thread have come up: Codex begins a turn without those that have not, and their tools."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

NEWS_S = 1.0
"""A server of which nothing was heard this long after its thread began is not waited for."""
READY_S = 20.0

Json = dict[str, Any]


class Startups:
    """Of one attachment. ``names`` are the servers that matter."""

    def __init__(self, names: Iterable[str]) -> None:
        self._state: dict[str, str] = dict.fromkeys(names, "")
        self._why: dict[str, str] = {}
        self._news = asyncio.Event()
        self.failures: list[str] = []
        """Sentences; whoever tells them clears the list."""

    def told(self, params: Json) -> None:
        """A ``mcpServer/startupStatus/updated``."""
        name, status = str(params.get("name")), str(params.get("status"))
        if name not in self._state:
            return
        self._state[name] = status
        if status == "failed":
            error = params.get("error")
            said = f": {error}" if isinstance(error, str) and error else ""
            self._why[name] = f"The MCP server {name} did not come up{said}."
            self.failures.append(self._why[name])
        self._news.set()

    def why(self, name: str) -> str | None:
        """A sentence, None for a server that has not failed."""
        return self._why.get(name)

    async def settled(self) -> None:
        """Return when each of them has come up or failed, or is not waited for any more."""
        await self._until(lambda: "" not in self._state.values(), NEWS_S)
        await self._until(lambda: "starting" not in self._state.values(), READY_S)
        self._state = {name: state or "unknown" for name, state in self._state.items()}

    async def _until(self, condition: Callable[[], bool], limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
