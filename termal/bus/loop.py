"""The loop of a worker: sockets, timers, and work handed over from other threads, one pass after the other.

A pass: drain every ready socket through its callback, run the pass hooks (operation batches), run the flush hooks (the
bus sends what was collected, one message per peer). No lock anywhere: everything here belongs to the loop's thread,
except `threadsafe`. Two real implementations: `PollLoop` here, `AioLoop` in `termal.bus.aio`.
"""

import contextlib
import heapq
import itertools
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import zmq

Callback = Callable[[], None]
Pollable = zmq.Socket[bytes] | int

_IDLE_S = 3600.0


class Timer:
    """A call that is due; `cancel` may be called at any time and any number of times."""

    __slots__ = ("callback", "interval_s")

    def __init__(self, callback: Callback, interval_s: float | None = None) -> None:
        self.callback: Callback | None = callback
        self.interval_s = interval_s

    def cancel(self) -> None:
        self.callback = None


class Loop(Protocol):
    """What servers, clients and workers need of a loop."""

    @property
    def context(self) -> "zmq.Context[zmq.Socket[bytes]]": ...
    def add(self, source: Pollable, callback: Callback) -> None: ...
    def remove(self, source: Pollable) -> None: ...
    def touched(self, source: Pollable) -> None:
        """Look at this socket again in the next pass (after each send: its descriptor is edge-triggered)."""

    def on_pass(self, hook: Callback) -> None: ...
    def on_flush(self, hook: Callback) -> None: ...
    def off(self, hook: Callback) -> None: ...
    def request_pass(self) -> None:
        """Make sure that the hooks run soon, also when this call came from outside a pass."""

    def later(self, delay_s: float, callback: Callback) -> Timer: ...
    def every(self, interval_s: float, callback: Callback) -> Timer: ...
    def threadsafe(self, callback: Callback) -> None:
        """Run ``callback`` on the loop's thread, from any thread."""


class PollLoop:
    """zmq.Poller, level-triggered: nothing to re-check after a send. For workers that need no asyncio."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._poller = zmq.Poller()
        self._callbacks: dict[object, Callback] = {}
        self._passes: list[Callback] = []
        self._flushes: list[Callback] = []
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._handed: deque[Callback] = deque()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else _pipe()
        self._running = False
        self.add(self._wake_read, self._take_handed)

    @property
    def context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        return self._context

    def add(self, source: Pollable, callback: Callback) -> None:
        self._poller.register(source, zmq.POLLIN)
        self._callbacks[source] = callback

    def remove(self, source: Pollable) -> None:
        if self._callbacks.pop(source, None) is not None:
            self._poller.unregister(source)

    def touched(self, source: Pollable) -> None:
        """The poller looks at the sockets themselves."""

    def on_pass(self, hook: Callback) -> None:
        self._passes.append(hook)

    def on_flush(self, hook: Callback) -> None:
        self._flushes.append(hook)

    def off(self, hook: Callback) -> None:
        for hooks in (self._passes, self._flushes):
            if hook in hooks:
                hooks.remove(hook)

    def request_pass(self) -> None:
        """Calls come from within a pass here; its hooks run at its end."""

    def later(self, delay_s: float, callback: Callback) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._order), timer))
        return timer

    def every(self, interval_s: float, callback: Callback) -> Timer:
        timer = Timer(callback, interval_s)
        heapq.heappush(self._timers, (time.monotonic() + interval_s, next(self._order), timer))
        return timer

    def threadsafe(self, callback: Callback) -> None:
        self._handed.append(callback)
        # A full pipe already wakes the loop.
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b"\0")

    def run(self) -> None:
        """Until `stop`."""
        self._running = True
        self._hooks()
        while self._running:
            self.one_pass(self._wait_s())

    def one_pass(self, wait_s: float) -> None:
        """Wait at most ``wait_s`` seconds for something to happen, and do it."""
        for source, _ in self._poller.poll(max(0, int(wait_s * 1000 + 0.999))):
            callback = self._callbacks.get(source)
            if callback is not None:
                callback()
        self._due()
        self._hooks()

    def stop(self) -> None:
        self._running = False

    def close(self) -> None:
        """Close every socket of the context at once; nothing is waited for."""
        self._context.destroy(linger=0)
        for fd in (self._wake_read, self._wake_write):
            if fd >= 0:
                os.close(fd)
        self._wake_read = self._wake_write = -1

    def _wait_s(self) -> float:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else _IDLE_S

    def _due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, _, timer = heapq.heappop(self._timers)
            if timer.callback is None:
                continue
            if timer.interval_s is not None:
                heapq.heappush(self._timers, (now + timer.interval_s, next(self._order), timer))
            timer.callback()

    def _hooks(self) -> None:
        for hook in tuple(self._passes):
            hook()
        for hook in tuple(self._flushes):
            hook()

    def _take_handed(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        for _ in range(len(self._handed)):
            self._handed.popleft()()


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    return read, write
