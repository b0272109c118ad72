"""Watching the whole daemon: its event stream, gaps repaired with a fresh state, lost connections made anew."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

from termal.client.async_http import AsyncHttp
from termal.client.errors import Unreachable
from termal.client.http import Http
from termal.client.mirror import Mirror
from termal.client.replies import Delta, State
from termal.client.routes import daemon
from termal.client.transcript import Gap
from termal.wire.errors import Busy, OutcomeUnknown

LOST_S = 10.0
"""Without any connection for this long the daemon is taken for gone."""
_RECONNECT_S = 0.1
_AWAY = (Unreachable, Busy, OutcomeUnknown)
"""A killed worker is back in a moment; what was missed meanwhile is in the next snapshot."""


def watch(http: Http, mirror: Mirror, *, lost_s: float = LOST_S) -> Iterator[State | Delta]:
    """Everything that happens, in order, each after ``mirror`` has it: a `State` first and after each gap, then deltas.

    Never ends by itself. Raises `Unreachable`, or what the daemon answered instead, after ``lost_s`` seconds.
    """
    lost_at = 0.0
    while True:
        try:
            with http.events() as events:
                for event in events:
                    lost_at = 0.0
                    try:
                        news = mirror.take(event)
                    except Gap:
                        state = http.state()
                        news = state if mirror.adopt(state) else None
                    if news is not None:
                        yield news
        except _AWAY:
            lost_at = _still_away(lost_at, lost_s)
        time.sleep(_RECONNECT_S)


async def watch_async(http: AsyncHttp, mirror: Mirror, *, lost_s: float = LOST_S) -> AsyncIterator[State | Delta]:
    """The same on an event loop."""
    lost_at = 0.0
    while True:
        try:
            async with http.events() as events:
                async for event in events:
                    lost_at = 0.0
                    try:
                        news = mirror.take(event)
                    except Gap:
                        state = await http.run(daemon.state())
                        news = state if mirror.adopt(state) else None
                    if news is not None:
                        yield news
        except _AWAY:
            lost_at = _still_away(lost_at, lost_s)
        await asyncio.sleep(_RECONNECT_S)


def _still_away(lost_at: float, lost_s: float) -> float:
    """When the connection was lost. To be called while an error is handled, which is raised again when it is over."""
    lost_at = lost_at or time.monotonic()
    if time.monotonic() - lost_at >= lost_s:
        raise  # noqa: PLE0704 - the error that the caller is handling
    return lost_at
