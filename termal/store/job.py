"""A queued write, and how a write ends that did not happen or may have."""

import time
from collections.abc import Callable
from typing import Any, Literal

import apsw

from termal.store.connection import Cursorlike
from termal.wire.errors import Busy, OutcomeUnknown, TermalError

Retry = bool | Literal["unstarted"]
"""Whether a job is tried again when its whole group failed; ``unstarted``: only while it has never run."""


class Job:
    """``started``: it ran at least once. ``answered``: its owner was told that its outcome is unknown. ``line`` is the
    number of the connection that it runs on."""

    __slots__ = ("answered", "deadline_s", "done", "line", "retry", "run", "started")

    def __init__(
        self,
        run: Callable[[Cursorlike], Any],
        done: Callable[[Any, Exception | None], None],
        deadline_s: float | None,
        retry: Retry,
        line: int = 0,
    ) -> None:
        self.run = run
        self.done = done
        self.deadline_s = deadline_s
        self.retry = retry
        self.line = line
        self.started = False
        self.answered = False

    @property
    def again(self) -> bool:
        """Whether it is tried again after its group failed."""
        return not self.started if self.retry == "unstarted" else bool(self.retry)

    @property
    def limit_s(self) -> float:
        """Until when its owner waits for an answer; endless without a deadline, or once it has been answered."""
        return float("inf") if self.deadline_s is None or self.answered else self.deadline_s


def too_late() -> Busy:
    return Busy("the deadline passed before the write started; nothing was written")


def gave_up(job: Job | None = None) -> TermalError:
    """The store closes. What ran was rolled back, but a commit that failed in the file system may still be found."""
    if job is not None and job.started:
        return OutcomeUnknown("the daemon stopped while the write could not be committed")
    return Busy("the daemon is stopping; nothing was written")


def unknown() -> OutcomeUnknown:
    return OutcomeUnknown("the write cannot be committed at the moment and is tried again; it may still happen")


def lost(cause: Exception, maybe_durable: bool) -> TermalError:
    """For a write that is not tried again. ``cause`` stays its ``__cause__`` for the log."""
    error: TermalError
    if maybe_durable:
        error = OutcomeUnknown("the commit failed in the file system; the write may have happened")
    elif isinstance(cause, (apsw.BusyError, apsw.LockedError)):
        error = Busy("the database is locked; nothing was written")
    else:
        error = Busy("the database cannot be written at the moment; nothing was written")
    error.__cause__ = cause
    return error


def until(limit_s: float) -> float:
    """Seconds from now to ``limit_s``, never negative."""
    return max(0.0, limit_s - time.monotonic())
