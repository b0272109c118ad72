"""Watching the whole daemon: its event stream, gaps repaired with a fresh state, lost connections made anew."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

from termal.client.async_http import AsyncHttp
from termal.client.follow import AWAY, LOST_S, RECONNECT_S, still_away
from termal.client.http import Http
from termal.client.mirror import Mirror
from termal.client.replies import Delta, State
from termal.client.routes import daemon
from termal.client.transcript import Gap


def watch(http: Http, mirror: Mirror, *, lost_s: float = LOST_S) -> Iterator[State | Delta]:
    """Everything that happens, in order, each after ``mirror`` has it: a `State` first and after each gap, then deltas.

    Never ends by itself. Raises `Unreachable`, or what the daemon answered instead, after ``lost_s`` seconds.
    """
    lost_at = 0.0
    while True:
        try:
            with http.events() as events:
                for event in events:
                    try:
                        news = mirror.take(event)
                    except Gap:
                        state = http.state()
                        news = state if mirror.adopt(state) else None
                    lost_at = 0.0
                    if news is not None:
                        yield news
        except AWAY:
            lost_at = still_away(lost_at, lost_s)
        time.sleep(RECONNECT_S)


async def watch_async(http: AsyncHttp, mirror: Mirror, *, lost_s: float = LOST_S) -> AsyncIterator[State | Delta]:
    """The same on an event loop."""
    lost_at = 0.0
    while True:
        try:
            async with http.events() as events:
                async for event in events:
                    try:
                        news = mirror.take(event)
                    except Gap:
                        state = await http.run(daemon.state())
                        news = state if mirror.adopt(state) else None
                    lost_at = 0.0
                    if news is not None:
                        yield news
        except AWAY:
            lost_at = still_away(lost_at, lost_s)
        await asyncio.sleep(RECONNECT_S)
