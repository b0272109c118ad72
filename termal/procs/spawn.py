"""Starts a child of the supervisor and learns of its end. A child leads its own session and dies with its parent."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from termal.procs.death import set_death_signal
from termal.procs.signals import KILL, default_signals, send, send_group

_CAN_PEEK = hasattr(os, "waitid")


class Exit(NamedTuple):
    """How a process ended: exactly one of the two is not None."""

    code: int | None
    signal: int | None


class Child:
    """A running child process. `poll` it after each SIGCHLD."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid

    def poll(self) -> Exit | None:
        """How it ended, None while it runs. What is left of its group is killed before the pid is given back."""
        if self._process.returncode is None:
            if _CAN_PEEK and not _has_ended(self.pid):
                return None
            if not _CAN_PEEK and self._process.poll() is None:
                return None
            send_group(self.pid, KILL)
            self._process.wait()
        code = self._process.returncode
        return Exit(code, None) if code >= 0 else Exit(None, -code)

    def signal(self, number: int) -> bool:
        """Signal this process alone; False when it has ended."""
        return self._process.returncode is None and send(self.pid, number)

    def signal_group(self, number: int) -> bool:
        return self._process.returncode is None and send_group(self.pid, number)


def spawn(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    output_fd: int,
    keep_fds: Sequence[int] = (),
    portable: bool = False,
) -> Child:
    """Start ``argv`` with this environment and these descriptors and nothing else of ours.

    stdout and stderr go to ``output_fd``. Call it on the main thread: on Linux the child gets SIGKILL when the thread
    that started it ends. Raises OSError when the program cannot be run.
    """
    parent = os.getpid()

    def prepare() -> None:
        default_signals()
        if not portable and set_death_signal(KILL) and os.getppid() != parent:
            os._exit(1)

    return Child(
        subprocess.Popen(
            list(argv),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output_fd,
            stderr=output_fd,
            pass_fds=tuple(keep_fds),
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509 - the supervisor has one thread
        )
    )


def _has_ended(pid: int) -> bool:
    # WNOWAIT leaves the pid taken, so that its group cannot be anybody else's while it is killed.
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
