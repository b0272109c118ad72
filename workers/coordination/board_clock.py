"""The wall clock of boards, for people only: nothing is decided by it."""

import time


def now_text() -> str:
    """This moment in UTC, with milliseconds, of fixed width: texts sort as times do."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z"
