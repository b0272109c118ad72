"""The same loop interface on a running asyncio (or uvloop) loop, for the gateway and the runtime workers.

zmq.asyncio halves the throughput against this: the socket's descriptor is watched with ``add_reader``. It is
edge-triggered, so every pump drains to EAGAIN, and a socket that was sent on is looked at again.
"""

import asyncio

import zmq

from termal.bus.loop import Callback, Pollable, Timer


class AioLoop:
    """Made on the loop's thread while it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._callbacks: dict[Pollable, Callback] = {}
        self._descriptors: dict[Pollable, int] = {}
        self._again: set[Pollable] = set()
        self._passes: list[Callback] = []
        self._flushes: list[Callback] = []
        self._scheduled = False
        self._closed = False

    @property
    def context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        return self._context

    def add(self, source: Pollable, callback: Callback) -> None:
        descriptor = source if isinstance(source, int) else int(source.getsockopt(zmq.FD))
        self._callbacks[source] = callback
        self._descriptors[source] = descriptor
        self._loop.add_reader(descriptor, self._fire, source)
        self.touched(source)

    def remove(self, source: Pollable) -> None:
        self._callbacks.pop(source, None)
        self._again.discard(source)
        descriptor = self._descriptors.pop(source, None)
        if descriptor is not None:
            self._loop.remove_reader(descriptor)

    def touched(self, source: Pollable) -> None:
        # PERF: only the sockets that were sent on; re-checking all of them costs an exception each.
        if not isinstance(source, int):
            self._again.add(source)
            self.request_pass()

    def on_pass(self, hook: Callback) -> None:
        self._passes.append(hook)

    def on_flush(self, hook: Callback) -> None:
        self._flushes.append(hook)

    def off(self, hook: Callback) -> None:
        for hooks in (self._passes, self._flushes):
            if hook in hooks:
                hooks.remove(hook)

    def request_pass(self) -> None:
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def later(self, delay_s: float, callback: Callback) -> Timer:
        timer = Timer(callback)
        self._loop.call_later(delay_s, self._ring, timer)
        return timer

    def every(self, interval_s: float, callback: Callback) -> Timer:
        timer = Timer(callback, interval_s)
        self._loop.call_later(interval_s, self._ring, timer)
        return timer

    def threadsafe(self, callback: Callback) -> None:
        self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Close every socket of the context at once; nothing is waited for."""
        self._closed = True
        for source in list(self._descriptors):
            self.remove(source)
        self._context.destroy(linger=0)

    def _ring(self, timer: Timer) -> None:
        if timer.callback is None or self._closed:
            return
        if timer.interval_s is not None:
            self._loop.call_later(timer.interval_s, self._ring, timer)
        timer.callback()
        self.request_pass()

    def _fire(self, source: Pollable) -> None:
        callback = self._callbacks.get(source)
        if callback is not None:
            callback()
            self.request_pass()

    def _turn(self) -> None:
        self._scheduled = False
        if self._closed:
            return
        again, self._again = self._again, set()
        for source in again:
            callback = self._callbacks.get(source)
            if callback is not None:
                callback()
        for hook in tuple(self._passes):
            hook()
        for hook in tuple(self._flushes):
            hook()
