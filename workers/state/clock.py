"""The wall clock, for people only: nothing is ever ordered by it."""

import time


def now_text() -> str:
    """This moment as RFC 3339 UTC with milliseconds."""
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"
