"""Signals as values and as bytes on a descriptor: nothing but the loop that reads the descriptor ever handles one."""

import contextlib
import os
import signal

TERMINATE = int(signal.SIGTERM)
INTERRUPT = int(signal.SIGINT)
HANG_UP = int(signal.SIGHUP)
ABORT = int(signal.SIGABRT)
KILL = int(signal.SIGKILL)
CHILD = int(signal.SIGCHLD)
_WATCHED = (TERMINATE, INTERRUPT, HANG_UP, CHILD)


class Signals:
    """Makes the process's signals readable from ``fd``. One per process, made on the main thread.

    SIGCHLD is one of them: for a direct child nothing more is needed to learn of its end at once, on every system, and
    a pid that was not waited for cannot be taken by anybody else.
    """

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        self._before = {number: signal.signal(number, _note) for number in _WATCHED}
        self._before_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def read(self) -> list[int]:
        """The numbers that came since the last call, in order; many of one kind may have become one."""
        with contextlib.suppress(BlockingIOError):
            return list(os.read(self.fd, 4096))
        return []

    def close(self) -> None:
        """Put everything back as it was."""
        signal.set_wakeup_fd(self._before_fd)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.fd)
        os.close(self._write)


def send(pid: int, number: int) -> bool:
    """False when there is no such process any more, or it is not ours to signal."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def send_group(leader: int, number: int) -> bool:
    """Signal the whole process group of ``leader``; False when nobody was left in it."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def default_signals() -> None:
    """For a child before exec: what the parent ignores would stay ignored in the new program."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _note(number: int, frame: object) -> None:
    """The byte on the descriptor is all that is wanted of a signal."""
