"""The same loop interface on a running asyncio (or uvloop) loop, for the gateway and the runtime workers.

zmq.asyncio halves the throughput against this: the socket's descriptor is watched with ``add_reader``. It is
edge-triggered, so every pump drains to EAGAIN, and a socket that was sent on is looked at again.
"""

import asyncio
import contextlib

import zmq

from termal.bus.loop import Callback, OnFault, Pollable, Timer, readable, serve


class AioLoop:
    """Made on the loop's thread while it runs. ``on_fault`` gets what a callback raised, else asyncio's own handler."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, on_fault: OnFault | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._callbacks: dict[Pollable, Callback] = {}
        self._descriptors: dict[Pollable, int] = {}
        self._again: set[zmq.Socket[bytes]] = set()
        self._passes: tuple[Callback, ...] = ()
        self._flushes: tuple[Callback, ...] = ()
        self._scheduled = False
        self._closed = False
        self._on_fault = on_fault or self._to_asyncio

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
        if not isinstance(source, int):
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
        self._passes = (*self._passes, hook)

    def on_flush(self, hook: Callback) -> None:
        self._flushes = (*self._flushes, hook)

    def off(self, hook: Callback) -> None:
        self._passes = tuple(known for known in self._passes if known != hook)
        self._flushes = tuple(known for known in self._flushes if known != hook)

    def request_pass(self) -> None:
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def later(self, delay_s: float, callback: Callback) -> Timer:
        return self._start(Timer(callback), delay_s)

    def every(self, interval_s: float, callback: Callback) -> Timer:
        return self._start(Timer(callback, interval_s), interval_s)

    def threadsafe(self, callback: Callback) -> None:
        # RuntimeError: asyncio's loop has ended, and with it everything that the callback could act on.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._handed, callback)

    def fault(self, error: Exception) -> None:
        self._on_fault(error)

    def close(self) -> None:
        """Close every socket of the context at once. What a server said last may take up to its linger time."""
        self._closed = True
        for source in list(self._descriptors):
            self.remove(source)
        self._context.destroy(linger=0)

    def _start(self, timer: Timer, delay_s: float) -> Timer:
        timer.handle = self._loop.call_later(delay_s, self._ring, timer)
        return timer

    def _ring(self, timer: Timer) -> None:
        callback = timer.callback
        if callback is None or self._closed:
            return
        if timer.interval_s is not None:
            self._start(timer, timer.interval_s)
        self._run(callback)
        self.request_pass()

    def _fire(self, source: Pollable) -> None:
        callback = self._callbacks.get(source)
        if callback is not None:
            serve(self, source, callback)
            self.request_pass()

    def _handed(self, callback: Callback) -> None:
        if not self._closed:
            self._run(callback)
            self.request_pass()

    def _turn(self) -> None:
        self._scheduled = False
        if self._closed:
            return
        again, self._again = self._again, set()
        for source in again:
            callback = self._callbacks.get(source)
            if callback is not None and readable(source):
                serve(self, source, callback)
        for hook in self._passes:
            self._run(hook)
        for hook in self._flushes:
            self._run(hook)

    def _run(self, callback: Callback) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - the outermost border of a worker: reported, and the loop goes on
            self._on_fault(error)

    def _to_asyncio(self, error: Exception) -> None:
        self._loop.call_exception_handler({"message": "a callback of the bus failed", "exception": error})
