"""Ties a process to its parent: no worker of ours outlives the supervisor, whatever its main loop is doing.

It never decides that somebody else dies; see `termal.procs.tree` and `termal.procs.shim` for that.
"""

import os
import select
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_WATCH_S = 0.25
"""How often the portable watcher looks at its parent's pid; the end of file on the control socket wakes it at once."""


def tie_to_parent(control_fd: int, portable: bool) -> None:
    """End this process when its parent dies. Call it first of all, on the main thread, and again after a fork.

    ``control_fd`` is this process's end of the control socket, still open at the other side. Linux: the kernel sends
    SIGKILL. Portable: a thread watches the socket and the parent's pid, so that a blocked main loop is no way out.
    Ends the process right here when the parent is gone already.
    """
    parent = os.getppid()
    if not portable and sys.platform == "linux":
        set_death_signal(signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(control_fd, parent), name="parent-watch", daemon=True).start()
    # The parent may have died before the kernel was told: the other end of the socket knows.
    if os.getppid() != parent or _hung_up(control_fd, 0.0):
        os._exit(1)


def worker_signals() -> None:
    """A terminal's Ctrl-C and hang-up are the supervisor's business; SIGTERM ends the worker like any program."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def become_subreaper() -> bool:
    """Orphaned descendants become this process's children. False where the system has no such thing."""
    return sys.platform == "linux" and _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_death_signal(number: int) -> bool:
    """Linux: this process gets signal ``number`` when the thread that started it ends. It survives exec."""
    return sys.platform == "linux" and _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, argument: int) -> bool:
    import ctypes  # noqa: PLC0415 - costs 3 ms, needed on Linux alone

    return bool(ctypes.CDLL(None).prctl(option, argument, 0, 0, 0) == 0)


def _watch(control_fd: int, parent: int) -> None:
    while os.getppid() == parent and not _hung_up(control_fd, _WATCH_S):
        pass
    os._exit(1)


def _hung_up(fd: int, wait_s: float) -> bool:
    """Whether the other end is closed. Asks for no data: that is the main loop's to read."""
    poller = select.poll()
    poller.register(fd, 0)
    return bool(poller.poll(int(wait_s * 1000)))
