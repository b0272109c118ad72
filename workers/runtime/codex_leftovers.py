"""Ends what the commands of a Codex thread left behind: processes that Codex itself has lost sight of.

Codex names the thread in the environment of its commands. One that empties its environment is found by nobody while
the process that all threads share goes on; the kernel's sandbox ends even that one with its command.
"""

import asyncio
from collections.abc import Mapping

from termal.procs.tree import sweep

_NAMES = ("CODEX_THREAD_ID", "CODEX_SESSION_ID")
"""The second is that of the thread which began those of its helpers."""


async def end_leftovers(thread_id: str, environ: Mapping[str, str], *, portable: bool) -> list[int]:
    """The pids of what was killed. ``environ``: the daemon's own environment."""
    if thread_id in (environ.get(name) for name in _NAMES):
        # The daemon itself was started by this thread, and so all that it started.
        return []
    way = {"portable": True} if portable else {}
    swept = [await asyncio.to_thread(sweep, thread_id, variable=name, **way) for name in _NAMES]
    return sorted({pid for one in swept for pid in one.ended})
