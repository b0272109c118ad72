"""The loop of a worker: sockets, timers, and work handed over from other threads, one pass after the other.

A pass: drain every ready socket through its callback, run the pass hooks (operation batches), run the flush hooks (the
bus sends what was collected, one message per peer). Everything here belongs to the loop's thread, except `threadsafe`.
Two real implementations: `PollLoop` here, `AioLoop` in `termal.bus.aio`.
"""

import heapq
import itertools
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import zmq

Callback = Callable[[], None]
Pollable = zmq.Socket[bytes] | int
OnFault = Callable[[Exception], None]

_IDLE_S = 3600.0
_POLLIN = int(zmq.POLLIN)


class Journal(Protocol):
    """Takes log lines (`termal.log.Log`)."""

    def error(self, event: str, **keys: Any) -> None: ...
    def repeating(self, event: str, **keys: Any) -> None: ...


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Timer:
    """A call that is due; `cancel` may be called at any time and any number of times."""

    __slots__ = ("callback", "handle", "interval_s")

    def __init__(self, callback: Callback, interval_s: float | None = None) -> None:
        self.callback: Callback | None = callback
        self.interval_s = interval_s
        self.handle: Cancellable | None = None

    def cancel(self) -> None:
        self.callback = None
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None


class Loop(Protocol):
    """What servers, clients and workers need of a loop."""

    @property
    def context(self) -> "zmq.Context[zmq.Socket[bytes]]": ...
    def add(self, source: Pollable, callback: Callback) -> None: ...
    def remove(self, source: Pollable) -> None: ...
    def touched(self, source: Pollable) -> None:
        """Look at this socket again (after each send, or while it may hold more): its descriptor is edge-triggered."""

    def on_pass(self, hook: Callback) -> None: ...
    def on_flush(self, hook: Callback) -> None: ...
    def off(self, hook: Callback) -> None: ...
    def request_pass(self) -> None:
        """Make sure that the hooks run soon, also when this call came from outside a pass."""

    def later(self, delay_s: float, callback: Callback) -> Timer: ...
    def every(self, interval_s: float, callback: Callback) -> Timer: ...
    def threadsafe(self, callback: Callback) -> None:
        """Run ``callback`` on the loop's thread, from any thread. After the end of the loop nothing runs any more."""

    def fault(self, error: Exception) -> None:
        """Report what a callback raised. The loop goes on: one bad message or callback never stops the worker."""


class PollLoop:
    """The descriptors of all sources in one ``poll``. For workers that need no asyncio.

    PERF: zmq.Poller asks every socket for its state, twice in each pass: with five of them eleven system calls, most of
    them for sockets where nothing happened. Here only those are asked that were touched.

    ``on_fault`` gets what a callback raised (`fault_logger` writes it to a log); without one it goes to stderr.
    """

    def __init__(self, on_fault: OnFault | None = None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._poller = select.poll()
        self._callbacks: dict[Pollable, Callback] = {}
        self._descriptors: dict[Pollable, int] = {}
        self._sources: dict[int, Pollable] = {}
        self._touched: set[zmq.Socket[bytes]] = set()
        self._passes: tuple[Callback, ...] = ()
        self._flushes: tuple[Callback, ...] = ()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._handed: deque[Callback] = deque()
        # Reentrant, because `stop` may run in a signal handler that interrupts the holder.
        self._wake_lock = threading.RLock()
        self._woken = False
        self._wake_read, self._wake_write = _pipe()
        self._running = False
        self._again = False
        self._on_fault = on_fault or _to_stderr
        self.add(self._wake_read, self._take_handed)

    @property
    def context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        return self._context

    def add(self, source: Pollable, callback: Callback) -> None:
        descriptor = source if isinstance(source, int) else int(source.getsockopt(zmq.FD))
        self._callbacks[source] = callback
        self._descriptors[source] = descriptor
        self._sources[descriptor] = source
        self._poller.register(descriptor, select.POLLIN)
        self.touched(source)

    def remove(self, source: Pollable) -> None:
        if self._callbacks.pop(source, None) is None:
            return
        descriptor = self._descriptors.pop(source)
        del self._sources[descriptor]
        self._poller.unregister(descriptor)
        if not isinstance(source, int):
            self._touched.discard(source)

    def touched(self, source: Pollable) -> None:
        if not isinstance(source, int):
            self._touched.add(source)

    def on_pass(self, hook: Callback) -> None:
        self._passes = (*self._passes, hook)

    def on_flush(self, hook: Callback) -> None:
        self._flushes = (*self._flushes, hook)

    def off(self, hook: Callback) -> None:
        self._passes = tuple(known for known in self._passes if known != hook)
        self._flushes = tuple(known for known in self._flushes if known != hook)

    def request_pass(self) -> None:
        self._again = True

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
        self._wake()

    def fault(self, error: Exception) -> None:
        self._on_fault(error)

    def run(self) -> None:
        """Until `stop`."""
        self._running = True
        self._hooks()
        while self._running:
            self.one_pass(self._wait_s())

    def one_pass(self, wait_s: float) -> None:
        """Wait at most ``wait_s`` seconds for something to happen, and do it."""
        ready = self._readable()
        polled = self._poller.poll(0 if ready else max(0, int(min(wait_s, _IDLE_S) * 1000 + 0.999)))
        for descriptor, _ in polled:
            ready[self._sources[descriptor]] = None
        for source in ready:
            callback = self._callbacks.get(source)
            if callback is not None:
                serve(self, source, callback)
        if self._timers:
            self._due()
        self._hooks()

    def stop(self) -> None:
        """End `run` after the pass that is under way; from a signal handler or another thread as well."""
        self._running = False
        self._wake()

    def close(self) -> None:
        """Close every socket of the context at once. What a server said last may take up to its linger time."""
        with self._wake_lock:
            descriptors, self._wake_read, self._wake_write = (self._wake_read, self._wake_write), -1, -1
            for fd in descriptors:
                if fd >= 0:
                    os.close(fd)
        self._timers.clear()
        self._handed.clear()
        self._context.destroy(linger=0)

    def _readable(self) -> dict[Pollable, None]:
        """The touched sockets that have something."""
        touched, self._touched = self._touched, set()
        return {socket: None for socket in touched if socket in self._callbacks and readable(socket)}

    def _run(self, callback: Callback) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - the outermost border of a worker: reported, and the loop goes on
            self._on_fault(error)

    def _wait_s(self) -> float:
        if self._again:
            return 0.0
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
            self._run(timer.callback)

    def _hooks(self) -> None:
        # What the callbacks of this pass asked for is done by the hooks below; what a hook asks for wants a new pass.
        self._again = False
        for hook in self._passes:
            self._run(hook)
        for hook in self._flushes:
            self._run(hook)

    def _wake(self) -> None:
        with self._wake_lock:
            if self._wake_write >= 0 and not self._woken:
                self._woken = True
                os.write(self._wake_write, b"\0")

    def _take_handed(self) -> None:
        os.read(self._wake_read, 64)
        # Before the queue is looked at: whoever hands over from here on wakes the loop again.
        self._woken = False
        for _ in range(len(self._handed)):
            self._run(self._handed.popleft())


def readable(socket: "zmq.Socket[bytes]") -> bool:
    """Whether there is a message, never in a closed one. PERF: half the price of a receive that finds none."""
    return not socket.closed and bool(int(socket.getsockopt(zmq.EVENTS)) & _POLLIN)


def serve(loop: Loop, source: Pollable, callback: Callback) -> None:
    """Run the callback of ``source``, whose turn it is in ``loop``."""
    try:
        callback()
    except Exception as error:  # noqa: BLE001 - the outermost border of a worker: reported, and the loop goes on
        # It may have left messages behind that its descriptor tells of no more.
        loop.touched(source)
        loop.fault(error)


def fault_logger(log: Journal) -> OnFault:
    """Faults of callbacks as log lines: what was raised, and the module and line that raised it."""

    def report(error: Exception) -> None:
        log.error("loop.callback_failed", error=repr(error), where=_origin(error))

    return report


def _origin(error: Exception) -> str:
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_globals.get('__name__', '')}:{trace.tb_lineno}"


def _to_stderr(error: Exception) -> None:
    sys.excepthook(type(error), error, error.__traceback__)


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    return read, write
