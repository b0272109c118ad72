"""The duty of a subreaper: processes that lost their parent and came to us are ended and waited for. Linux alone."""

import os
import time
from collections.abc import Collection

from termal.procs import procfs
from termal.procs.signals import KILL, send
from termal.procs.tree import descendants

LOOK_S = 1.0
_SOON_S = 0.1
_PAUSE_S = 0.01


class Orphans:
    """One per subreaper. ``grace_s``: so long an agent's shim that lost its worker is let end its tree by itself."""

    def __init__(self, *, portable: bool, grace_s: float = 0.5) -> None:
        self._blind = portable or os.uname().sysname != "Linux"
        self._grace_s = grace_s
        self._seen: dict[int, float] = {}
        self.ended: list[int] = []
        """Pids that were killed and not yet told to anybody."""

    def look(self, known: Collection[int], now: float) -> float:
        """Reap and kill children that are not ``known``; when to look again, in seconds."""
        if self._blind:
            return LOOK_S
        strangers = [pid for pid in procfs.children(os.getpid()) if pid not in known]
        alive = [pid for pid in strangers if not _reaped(pid)]
        self._seen = {pid: self._seen.get(pid, now) for pid in alive}
        for pid in alive:
            if now - self._seen[pid] >= self._grace_s:
                self._kill_tree(pid)
        return _SOON_S if alive else LOOK_S

    def end_all(self, limit_s: float) -> bool:
        """Kill without grace until no child is left; False when ``limit_s`` seconds were not enough."""
        self._grace_s = 0.0
        end_at = time.monotonic() + limit_s
        while self.look((), time.monotonic()) != LOOK_S:
            if time.monotonic() > end_at:
                return False
            time.sleep(_PAUSE_S)
        return True

    def _kill_tree(self, pid: int) -> None:
        # From the top down: a parent that is dead cannot start anything while its children are killed.
        for member in [pid, *descendants(pid)]:
            if send(member, KILL):
                self.ended.append(member)


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True
