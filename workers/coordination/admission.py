"""A bounded place in the writer's line: who waits too long is told so in time, and is skipped when it would be served.

The writer's own thread may be stuck (a lock, a slow disk) and cannot tell anybody anything then; the loop can.
"""

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from termal.bus.loop import Loop
from termal.store.connection import Cursorlike
from termal.store.job import too_late
from termal.store.writer import Writer
from workers.coordination.alarm import Alarm

T = TypeVar("T")


class Admission:
    """Belongs to the loop's thread."""

    def __init__(self, loop: Loop, writing: Callable[[], Writer]) -> None:
        self._writing = writing
        self._waiting: dict[_Ticket, None] = {}
        self._alarm = Alarm(loop, take_late=self._take_late, deadlines=self._deadlines)

    def submit(
        self,
        job: Callable[[Cursorlike], T],
        done: Callable[[T | None, Exception | None], None],
        *,
        deadline_s: float,
        line: int = 0,
    ) -> None:
        """Like `Writer.submit`, for a job that is not tried again once it ran; ``done`` runs once, on the loop.

        A job that has not begun at ``deadline_s`` ends as `Busy` then, and never runs. A line in which nobody is needs
        no time: it is open to those who have none left too.
        """
        writer = self._writing()
        if deadline_s <= time.monotonic() and not writer.depth:
            writer.submit(job, done, retry=False, line=line)
            return
        ticket = _Ticket(deadline_s, lambda: done(None, too_late()))

        def run(connection: Cursorlike) -> T | None:
            return job(connection) if ticket.take() else None

        def ended(value: T | None, error: Exception | None) -> None:
            if ticket in self._waiting:
                del self._waiting[ticket]
                done(value, error)

        self._waiting[ticket] = None
        self._alarm.by(deadline_s)
        writer.submit(run, ended, deadline_s=deadline_s, retry="unstarted", line=line)

    def _take_late(self, now: float) -> list[Callable[[], None]]:
        late = [ticket for ticket in self._waiting if ticket.deadline_s <= now and ticket.take()]
        for ticket in late:
            del self._waiting[ticket]
        return [ticket.expire for ticket in late]

    def _deadlines(self, now: float) -> Iterable[float]:
        return (ticket.deadline_s for ticket in self._waiting if ticket.deadline_s > now)


class _Ticket:
    """Taken once: by the writer's thread that begins the job, or by the loop that gives it up."""

    __slots__ = ("_free", "deadline_s", "expire")

    def __init__(self, deadline_s: float, expire: Callable[[], None]) -> None:
        self._free = [None]
        self.deadline_s = deadline_s
        self.expire = expire

    def take(self) -> bool:
        try:
            # One operation of the list: of two threads, one gets it.
            self._free.pop()
        except IndexError:
            return False
        return True
