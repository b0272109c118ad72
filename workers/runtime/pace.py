"""When streamed pieces of text go out: at once after a pause, with those of all other turns when many speak."""

import time
from collections.abc import Callable

from termal.bus.loop import Loop

PACE_S = 0.01
"""Every message to state costs a pass in it, a message to the gateway and a pass there, whatever it carries."""


class Pace:
    """PERF: ten agents of 20 pieces a second each cost the daemon a fourth less CPU, for at most `PACE_S` of delay."""

    def __init__(self, loop: Loop, now: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self._now = now
        self._free_at_s = 0.0
        self._waiting: dict[object, Callable[[], None]] = {}
        self._is_due = False

    def send(self, who: object, send: Callable[[], None]) -> None:
        """Call ``send`` now or within `PACE_S`; once, however often ``who`` asks until then."""
        if not self._is_due:
            now_s = self._now()
            if now_s >= self._free_at_s:
                self._free_at_s = now_s + PACE_S
                send()
                return
            self._is_due = True
            self._loop.later(self._free_at_s - now_s, self._go)
        self._waiting[who] = send

    def _go(self) -> None:
        self._is_due = False
        self._free_at_s = self._now() + PACE_S
        waiting, self._waiting = self._waiting, {}
        for send in waiting.values():
            send()
