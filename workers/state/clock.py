"""The wall clock, for people and for what must outlive this process: nothing of one life is ever ordered by it."""

import time
from datetime import datetime

from termal.clock import millisecond_text


def now_text() -> str:
    """This moment as RFC 3339 UTC with milliseconds."""
    return text_in(0.0)


def text_in(seconds: float) -> str:
    """The moment ``seconds`` from now, in the same form."""
    return millisecond_text(time.time_ns() + round(seconds * 1e9))


def sooner(deadline_s: float | None, reserve_s: float) -> float | None:
    """``deadline_s`` of a request, less what is kept of it for the answer that nobody else gave one."""
    return None if deadline_s is None else deadline_s - reserve_s


def left_s(begun: str, end: str) -> float:
    """Seconds from now to the stored moment ``end``: never more than there were at ``begun``, whatever was done to the
    clock since. 0 for what is over, and for what is no moment at all: nobody must wait for that for ever."""
    try:
        ending = datetime.fromisoformat(end).timestamp()
        whole = ending - datetime.fromisoformat(begun).timestamp()
    except ValueError:
        return 0.0
    return max(0.0, min(ending - time.time(), whole))
