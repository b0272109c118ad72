"""Waits for the MCP servers of a Claude conversation: a turn that begins before them begins without their tools."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from workers.runtime.adapter import AgentFailed

NEWS_S = 2.0
"""A server that the agent does not name by then is not waited for."""
READY_S = 20.0
_POLL_S = 0.05


async def settled(states: Callable[[], Awaitable[dict[str, str]]], names: Iterable[str]) -> None:
    """Return when each of ``names`` has come up or failed, or is not waited for any more. ``states``: what the agent
    says of its servers; one that cannot say it is not asked again."""
    names = set(names)
    loop = asyncio.get_running_loop()
    began = loop.time()
    while names:
        try:
            known = await states()
        except AgentFailed:
            return
        waited = loop.time() - began
        missing = any(name not in known for name in names) and waited < NEWS_S
        pending = any(known.get(name) == "pending" for name in names) and waited < READY_S
        if not missing and not pending:
            return
        await asyncio.sleep(_POLL_S)
