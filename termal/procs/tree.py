"""Finds processes by descent and by the mark in their environment, and ends them, never on the strength of a bare pid.

On Linux from /proc; elsewhere, and where the portable way is forced, from psutil.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import NamedTuple

from termal.procs import procfs
from termal.wire.launch import MARK_VARIABLE

_LINUX = sys.platform == "linux"
_SWEEP_S = 3.0
_PAUSE_S = 0.02


class Process(NamedTuple):
    """A process and no other: pids are given out again, but not with the same start.

    ``started_s`` counts from the machine's boot on Linux, else from the epoch: to be compared, not to be shown.
    """

    pid: int
    started_s: float


class Swept(NamedTuple):
    """``left`` could not be ended (another user's, or stuck in the kernel)."""

    ended: list[int]
    left: list[int]


def identify(pid: int, *, portable: bool = not _LINUX) -> Process | None:
    """None when there is no such process, or it is dead and only waited for."""
    if portable:
        return _identify_portably(pid)
    row = procfs.stat(pid)
    return Process(pid, row.started_s) if row is not None and row.state not in "ZX" else None


def start_time(pid: int) -> float | None:
    """When ``pid`` was started, in seconds since the epoch, as psutil says it."""
    if not _LINUX:
        found = _identify_portably(pid)
        return found.started_s if found else None
    row = procfs.stat(pid)
    return procfs.boot_time_s() + row.started_s if row else None


def descendants(pid: int, *, portable: bool = not _LINUX) -> list[int]:
    """Everything below ``pid``, parents before their children."""
    if portable:
        return _descendants_portably(pid)
    found: list[int] = []
    level = [pid]
    while level:
        level = [child for parent in level for child in procfs.children(parent) if child not in found]
        found += level
    return found


def find_marked(
    mark: str, *, variable: str = MARK_VARIABLE, of: str | None = None, portable: bool = not _LINUX
) -> list[Process]:
    """Processes of this user whose environment carries ``mark``, alone or followed by ``:`` and more.

    ``of``: only those that carry this mark of a daemon in the same way too.
    """
    found: list[Process] = []
    for pid in _own_pids(portable):
        if not _carries(mark, _mark_of(pid, variable, portable)):
            continue
        if of is not None and not _carries(of, _mark_of(pid, MARK_VARIABLE, portable)):
            continue
        process = identify(pid, portable=portable)
        if process is not None:
            found.append(process)
    return found


def sweep(mark: str, *, variable: str = MARK_VARIABLE, of: str | None = None, portable: bool = not _LINUX) -> Swept:
    """SIGKILL everything that `find_marked` finds and all below it, again and again until nothing is left.

    This process and its ancestors are spared: it may itself have been started by what it looks for.
    """
    spared = set(_ancestors(os.getpid(), portable))
    ended: set[int] = set()
    end_at = time.monotonic() + _SWEEP_S
    while True:
        marked = find_marked(mark, variable=variable, of=of, portable=portable)
        found = [process for process in _with_descendants(marked, portable) if process.pid not in spared]
        if not found or time.monotonic() > end_at:
            return Swept(sorted(ended), [process.pid for process in found])
        ended.update(process.pid for process in found if end(process, signal.SIGKILL, portable=portable))
        time.sleep(_PAUSE_S)


def end(process: Process, number: int, *, portable: bool = not _LINUX) -> bool:
    """Send signal ``number`` to exactly this process; False when it is gone or not ours."""
    try:
        if portable:
            if identify(process.pid, portable=True) != process:
                return False
            os.kill(process.pid, number)
            return True
        return _end_by_descriptor(process, number)
    except (ProcessLookupError, PermissionError):
        return False


def _end_by_descriptor(process: Process, number: int) -> bool:
    fd = os.pidfd_open(process.pid)
    try:
        # The descriptor holds on to whoever has the pid now; only then is it asked who that is.
        if identify(process.pid) != process:
            return False
        signal.pidfd_send_signal(fd, number)
        return True
    finally:
        os.close(fd)


def _carries(mark: str, value: str | None) -> bool:
    return value is not None and (value == mark or value.startswith(mark + ":"))


def _with_descendants(marked: list[Process], portable: bool) -> list[Process]:
    found = {process.pid: process for process in marked}
    for pid in tuple(found):
        for below in descendants(pid, portable=portable):
            process = None if below in found else identify(below, portable=portable)
            if process is not None:
                found[below] = process
    return list(found.values())


def _own_pids(portable: bool) -> Iterable[int]:
    user = os.getuid()
    if not portable:
        return [pid for pid in procfs.pids() if procfs.owner(pid) == user]
    import psutil  # noqa: PLC0415 - costs 25 ms

    return [row.pid for row in psutil.process_iter(["uids"]) if row.info["uids"] and row.info["uids"].real == user]


def _mark_of(pid: int, variable: str, portable: bool) -> str | None:
    if not portable:
        return procfs.environment_value(pid, variable)
    import psutil  # noqa: PLC0415 - costs 25 ms

    try:
        value: str | None = psutil.Process(pid).environ().get(variable)
    except (psutil.Error, OSError):
        return None
    return value


def _identify_portably(pid: int) -> Process | None:
    import psutil  # noqa: PLC0415 - costs 25 ms

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else Process(pid, process.create_time())
    except psutil.Error:
        return None


def _descendants_portably(pid: int) -> list[int]:
    import psutil  # noqa: PLC0415 - costs 25 ms

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def _ancestors(pid: int, portable: bool) -> list[int]:
    if portable:
        import psutil  # noqa: PLC0415 - costs 25 ms

        try:
            return [pid, *(parent.pid for parent in psutil.Process(pid).parents())]
        except psutil.Error:
            return [pid]
    found = [pid]
    while (row := procfs.stat(found[-1])) is not None and row.parent > 0:
        found.append(row.parent)
    return found
