"""Puts one bridge together and runs it until the agent closes the pipe. A daemon that is gone ends nothing here."""

import asyncio
import os
import sys
from typing import Any, Protocol

from termal.bridge.backend import Backend
from termal.bridge.caller import Caller
from termal.bridge.sdk import SessionMessage, create_context_streams
from termal.bridge.sdk import serve as serve_streams
from termal.bridge.server import Bridge
from termal.bridge.stdio import Pipe, Wire
from termal.client.call import Call


class Sender(Protocol):
    async def __call__(self, call: Call[Any], limit_s: float) -> Any: ...

    async def close(self) -> None: ...


async def serve(session_id: str, sender: Sender) -> int:
    """The exit code: 0 when the agent closed its end."""
    pipe = Pipe()
    backend = Backend(session_id, sender)
    bridge = Bridge(backend, Caller(backend))
    feed, read_stream = create_context_streams[SessionMessage | Exception](0)
    write_stream, given = create_context_streams[SessionMessage](0)
    wire = Wire(pipe.put, feed)
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()
    pipe.start(lines.put_nowait, _nobody_reads)

    async def take() -> None:
        async with feed:
            while (line := await lines.get()) is not None:
                await wire.take(line)

    async def give() -> None:
        async with given:
            async for message in given:
                wire.give(message.message)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(take())
            group.create_task(give())
            await serve_streams(bridge.registry(), read_stream, write_stream)
    finally:
        bridge.close()
        await sender.close()
        pipe.finish()
    return 0


def _nobody_reads() -> None:
    sys.stderr.write("termal delegation-mcp: stdout is closed\n")
    sys.stderr.flush()
    # There is nobody to answer any more, and a thread of ours may be blocked in a read for ever.
    os._exit(1)
