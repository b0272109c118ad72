"""One timer for many deadlines: it rings at the earliest of them, and costs nothing while none of them is met."""

import math
import time
from collections.abc import Callable, Iterable

from termal.bus.loop import Loop, Timer


class Alarm:
    """Belongs to the loop's thread.

    ``take_late(now)`` gives up what is due and returns what to call for it; ``deadlines(now)`` are those still to come.
    All times are seconds of the monotonic clock.
    """

    def __init__(
        self,
        loop: Loop,
        *,
        take_late: Callable[[float], list[Callable[[], None]]],
        deadlines: Callable[[float], Iterable[float]],
    ) -> None:
        self._loop = loop
        self._take_late = take_late
        self._deadlines = deadlines
        self._timer: Timer | None = None
        self._armed_s = math.inf

    def by(self, deadline_s: float) -> None:
        """Ring at ``deadline_s`` at the latest."""
        if deadline_s >= self._armed_s:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_s = deadline_s
        self._timer = self._loop.later(max(0.0, deadline_s - time.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer, self._armed_s = None, math.inf
        now = time.monotonic()
        late = self._take_late(now)
        # Armed again first: whatever the calls do, the others are not forgotten.
        self.by(min(self._deadlines(now), default=math.inf))
        for end in late:
            end()
