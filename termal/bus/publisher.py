"""PUB with an epoch, dense numbers and a tick, and the SUB that notices what it missed. PUB is a hint, state the truth."""

from collections.abc import Callable
from pathlib import Path

import zmq

from termal.bus.loop import Loop
from termal.bus.sockets import (
    DRAIN,
    HIGH_WATER_EVENTS,
    RECONNECT_MS,
    configure,
    events_endpoint,
)
from termal.wire.envelope import Event, MalformedFrame, pack_events, unpack_events

TICK_S = 1.0
"""A lost tail has no later event that would reveal it; the tick repeats the last number."""
PACK = 256


class Publisher:
    """Events of one owner. ``epoch`` is new for each life of the owner; numbers start at 1 and are dense.

    The caller holds the role's lock (its `Server` does), so that two lives never publish on one path.
    """

    def __init__(self, loop: Loop, run_dir: str | Path, role: str, epoch: str) -> None:
        self.epoch = epoch
        self.number = 0
        self._loop = loop
        self._out: list[Event] = []
        self._socket: zmq.Socket[bytes] = loop.context.socket(zmq.PUB)
        configure(self._socket, HIGH_WATER_EVENTS)
        self._socket.bind(events_endpoint(run_dir, role))
        loop.on_flush(self._flush)
        self._ticker = loop.every(TICK_S, self._tick)

    def publish(self, body: bytes) -> int:
        """Send ``body`` at the end of this pass, after what was published before; returns its number."""
        self.number += 1
        self._out.append(Event(self.epoch, self.number, body))
        self._loop.request_pass()
        return self.number

    def close(self) -> None:
        self._flush()
        self._ticker.cancel()
        self._loop.off(self._flush)
        self._socket.close(linger=0)

    def _tick(self) -> None:
        self._out.append(Event(self.epoch, self.number, b""))

    def _flush(self) -> None:
        if not self._out:
            return
        out, self._out = self._out, []
        for start in range(0, len(out), PACK):
            self._socket.send(pack_events(out[start : start + PACK]), zmq.NOBLOCK)


class Subscriber:
    """Events of one owner, in order. ``on_gap`` runs when some were missed, or the owner is a new one (a new epoch):
    then only a fresh snapshot tells the truth. The event that revealed it is delivered right after.
    """

    def __init__(
        self,
        loop: Loop,
        run_dir: str | Path,
        role: str,
        *,
        on_event: Callable[[Event], None],
        on_gap: Callable[[], None],
    ) -> None:
        self.epoch = ""
        self.number = 0
        self._loop = loop
        self._on_event = on_event
        self._on_gap = on_gap
        self._socket: zmq.Socket[bytes] = loop.context.socket(zmq.SUB)
        configure(self._socket, HIGH_WATER_EVENTS)
        self._socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        self._socket.subscribe(b"")
        loop.add(self._socket, self._pump)
        self._socket.connect(events_endpoint(run_dir, role))

    def close(self) -> None:
        self._loop.remove(self._socket)
        self._socket.close(linger=0)

    def _pump(self) -> None:
        for _ in range(DRAIN):
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                events = unpack_events(frame)
            except MalformedFrame:
                continue
            for event in events:
                self._take(event)
        self._loop.touched(self._socket)

    def _take(self, event: Event) -> None:
        known, expected = self.epoch, self.number + (1 if event.body else 0)
        missed = event.epoch != known or event.number != expected
        self.epoch, self.number = event.epoch, event.number
        if missed and known:
            self._on_gap()
        if event.body:
            self._on_event(event)
