"""The wall clock of mail, for people only: nothing is decided by it."""

import time


class _Second:
    """PERF: the text of a second is made once; a send needs only its fraction."""

    __slots__ = ("number", "text")

    def __init__(self) -> None:
        self.number = -1
        self.text = ""


_second = _Second()


def now_text() -> str:
    """This moment as RFC 3339 UTC with microseconds and ``+00:00``: texts sort as times do. On the loop's thread."""
    seconds, fraction = divmod(time.time_ns() // 1000, 1_000_000)
    if seconds != _second.number:
        _second.text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        _second.number = seconds
    return f"{_second.text}.{fraction:06d}+00:00"
