"""The wall clock of boards, for people only: nothing is decided by it."""

import time

from termal.clock import millisecond_text


def now_text() -> str:
    """This moment in UTC, with milliseconds, of fixed width: texts sort as times do."""
    return millisecond_text(time.time_ns())
