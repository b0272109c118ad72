"""Moments as texts, RFC 3339 in UTC and of fixed width, so that texts sort as times do. Reads no clock."""

import time
from functools import lru_cache

_NS = 1_000_000_000


def millisecond_text(at_ns: int) -> str:
    """``2026-01-31T12:00:00.123Z`` for nanoseconds since the epoch; what is shorter than a millisecond is cut off."""
    second, fraction_ns = divmod(at_ns, _NS)
    return f"{_second_text(second)}.{fraction_ns // 1_000_000:03d}Z"


def microsecond_text(at_ns: int) -> str:
    """``2026-01-31T12:00:00.123456+00:00``, the form of all times of mail."""
    second, fraction_ns = divmod(at_ns, _NS)
    return f"{_second_text(second)}.{fraction_ns // 1000:06d}+00:00"


@lru_cache(maxsize=2)
def _second_text(second: int) -> str:
    """PERF: made once for all that happens in a second; a send needs only its fraction."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
