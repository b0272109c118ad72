"""The time that a large file takes to open, asked of the supervisor while the loop stands still."""

import time
from collections.abc import Callable

EXTENSION_S = 60.0
"""More than any one step takes; the longest is the checkpoint at the end, which copies all that was written."""
REMIND_S = 1.0


class Patience:
    """`ask` is called at every step and has the supervisor wait, at most once a second.

    ``after_s``: work that takes no longer than this asks for nothing.
    """

    def __init__(
        self,
        extend: Callable[[float, str], None],
        why: str,
        *,
        after_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._extend = extend
        self._why = why
        self._clock = clock
        self._due = clock() + after_s

    def ask(self) -> None:
        now = self._clock()
        if now >= self._due:
            self._due = now + REMIND_S
            self._extend(EXTENSION_S, self._why)
