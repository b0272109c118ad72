"""``python -m termal.demo_agent``: an ACP agent on standard input and output."""

import asyncio
import sys
from typing import cast

import pydantic

# PERF: the models of the protocol are built when they are first used; 0.80 s to the first answer became 0.55 s.
pydantic.BaseModel.model_config = pydantic.ConfigDict(defer_build=True)


async def serve() -> None:
    from acp import Agent  # noqa: PLC0415 - after the setting above
    from acp.agent.connection import AgentSideConnection  # noqa: PLC0415
    from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES  # noqa: PLC0415
    from acp.stdio import stdio_streams  # noqa: PLC0415

    from termal.demo_agent.agent import DemoAgent  # noqa: PLC0415
    from termal.demo_agent.conversations import Conversations, find_folder  # noqa: PLC0415
    from termal.demo_agent.work import Output  # noqa: PLC0415

    reader, writer = await stdio_streams(limit=DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    agent = DemoAgent(Conversations(find_folder()), Output(writer))
    connection = AgentSideConnection(cast(Agent, agent), writer, reader, listening=False)
    try:
        await connection.listen()
    finally:
        await connection.close()


def main() -> int:
    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
