"""One agent over as many of the SDK's connections as it takes to agree on how to speak. Answers nothing by itself.

A connection of the SDK is settled by its first request: a probe in the newer way of speaking makes it refuse the older
handshake for ever. An agent that probes, finds no version that it knows or waits too long, and then shakes hands on the
same pipe, gets a new connection here.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from termal.bridge.sdk import (
    VERSION_KEY,
    JSONRPCRequest,
    Registry,
    SessionMessage,
    create_context_streams,
    serve,
)

_PROBE, _HANDSHAKE = "server/discover", "initialize"
_ANSWER_S = 1.0
"""A probe is answered at once; one that was called off never is."""


class Eras:
    """Use `run` in one task and `send` in another, then `close`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._connection = _Connection()
        self._probed = False
        """All that the current connection was asked is what it speaks, and that settled it."""
        self._next: _Connection | None = None

    async def run(self, give: Callable[[Any], None]) -> None:
        """Serve until `close`. ``give`` gets each message for the agent."""
        connection: _Connection | None = self._connection
        while connection is not None:
            await connection.serve(self._registry, give)
            connection, self._next = self._next, None

    async def send(self, message: SessionMessage) -> None:
        request = message.message
        if isinstance(request, JSONRPCRequest):
            if request.method == _HANDSHAKE and self._probed:
                await self._begin_anew()
            else:
                self._probed = request.method == _PROBE and (self._probed or self._connection.opens_with(request))
            self._connection.opened = True
            if self._probed:
                self._connection.probed_with(request.id)
        await self._connection.feed.send(message)

    async def close(self) -> None:
        await self._connection.feed.aclose()

    async def _begin_anew(self) -> None:
        before, self._connection = self._connection, _Connection()
        self._next, self._probed = self._connection, False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                await before.quiet.wait()
        await before.feed.aclose()
        await before.over.wait()


class _Connection:
    """Streams for one serving loop of the SDK."""

    def __init__(self) -> None:
        self.feed, self._read = create_context_streams[SessionMessage | Exception](0)
        self._write, self._given = create_context_streams[SessionMessage](0)
        self._open: set[str | int] = set()
        self.opened = False
        self.quiet = asyncio.Event()
        """No probe waits for its answer."""
        self.over = asyncio.Event()

    def probed_with(self, number: str | int) -> None:
        self._open.add(number)
        self.quiet.clear()

    def opens_with(self, request: JSONRPCRequest) -> bool:
        """Whether this is the first request, and in the newer way: with the version inside of it."""
        meta = (request.params or {}).get("_meta")
        return not self.opened and isinstance(meta, dict) and VERSION_KEY in meta

    async def serve(self, registry: Registry, give: Callable[[Any], None]) -> None:
        async def deliver() -> None:
            async with self._given:
                async for message in self._given:
                    give(message.message)
                    self._open.discard(getattr(message.message, "id", ""))
                    if not self._open:
                        self.quiet.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(deliver())
            await serve(registry, self._read, self._write)
        self.over.set()
