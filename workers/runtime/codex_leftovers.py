"""Ends what the commands of a Codex thread left behind: processes that Codex itself has lost sight of.

Codex names the thread in the environment of its commands. One that empties its environment is found by nobody while
the process that all threads share goes on; the kernel's sandbox ends even that one with its command.
"""

import asyncio
from collections.abc import Mapping

from termal.procs.tree import sweep
from termal.wire.launch import MARK_VARIABLE

_NAMES = ("CODEX_THREAD_ID", "CODEX_SESSION_ID")
"""The second is that of the thread which began those of its helpers."""


async def end_leftovers(thread_id: str, environ: Mapping[str, str], *, delegated: bool, portable: bool) -> list[int]:
    """The pids of what was killed. ``environ``: the daemon's own environment.

    A person may go on with a thread in a terminal, where its commands carry its id as well: only what carries the
    daemon's mark too is ended. Of the thread of a ``delegated`` session the id alone is enough: nobody else goes on
    with it, and nothing of it may be left when its delegation is over, not even where the user's configuration of
    Codex keeps the mark from commands.
    """
    if thread_id in (environ.get(name) for name in _NAMES):
        # The daemon itself was started by this thread, and so all that it started.
        return []
    mark = environ.get(MARK_VARIABLE)
    if not delegated and not mark:
        return []
    way = {"portable": True} if portable else {}
    of = None if delegated else mark
    swept = [await asyncio.to_thread(sweep, thread_id, variable=name, of=of, **way) for name in _NAMES]
    return sorted({pid for one in swept for pid in one.ended})
