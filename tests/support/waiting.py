"""Waiting on a condition: bounded at five seconds, with a loud failure that says what was missing."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 5.0
_STEP_S = 0.005


def wait_until(condition: Callable[[], T | None], what: str, limit_s: float = LIMIT_S) -> T:
    """The first truthy value of ``condition``. Fails the test after ``limit_s`` seconds with ``what``."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {limit_s:g} s in vain for: {what}; last value {value!r}")
        time.sleep(_STEP_S)


async def until(
    condition: Callable[[], T | None],
    what: str,
    limit_s: float = LIMIT_S,
    *,
    between: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """As `wait_until`, while the loop goes on. ``between``: done before each further look."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {limit_s:g} s in vain for: {what}; last value {value!r}")
        await asyncio.sleep(_STEP_S)
        if between is not None:
            await between()
