"""The wall clock of mail, for people only: nothing is decided by it."""

import time

from termal.clock import microsecond_text


def now_text() -> str:
    """This moment as RFC 3339 UTC with microseconds and ``+00:00``: texts sort as times do."""
    return microsecond_text(time.time_ns())
