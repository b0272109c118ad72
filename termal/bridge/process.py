"""Puts one bridge together and runs it until the agent closes the pipe. A daemon that is gone ends nothing here."""

import asyncio
import os
import sys
from typing import Any, Protocol

from termal.bridge.backend import Backend
from termal.bridge.caller import Caller
from termal.bridge.eras import Eras
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
    eras = Eras(bridge.registry())
    wire = Wire(pipe.put, eras)
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()
    pipe.start(lines.put_nowait, _nobody_reads)

    async def take() -> None:
        try:
            while (line := await lines.get()) is not None:
                await wire.take(line)
        finally:
            await eras.close()

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(take())
            await eras.run(wire.give)
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
