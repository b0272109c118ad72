"""PUB with an epoch, dense numbers and a tick; the SUB that notices what it missed. PUB is a hint, state the truth.

The publisher's socket is an XPUB: it is told of each subscription and answers with a tick, so that who has just
(re)connected knows at once, not with the next tick, whether something was missed.
"""

from collections.abc import Callable
from pathlib import Path

import zmq

from termal.bus.loop import Loop, readable
from termal.bus.sockets import (
    DRAIN,
    HIGH_WATER_EVENTS,
    RECONNECT_MS,
    configure,
    events_endpoint,
)
from termal.wire.envelope import Event, MalformedFrame, Unsendable, messages, pack_event, unpack_events

_SUBSCRIBED = b"\x01"
TICK_S = 1.0
"""A lost tail has no later event that would reveal it; the tick repeats the last number."""


class Publisher:
    """Events of one owner. ``epoch`` is new for each life of the owner; numbers start at 1 and are dense.

    The caller holds the role's lock (its `Server` does), so that two lives never publish on one path.
    """

    def __init__(self, loop: Loop, run_dir: str | Path, role: str, epoch: str) -> None:
        self.epoch = epoch
        self.number = 0
        self._loop = loop
        self._out: list[bytes] = []
        self._socket: zmq.Socket[bytes] = loop.context.socket(zmq.XPUB)
        try:
            configure(self._socket, HIGH_WATER_EVENTS)
            self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)
            self._socket.bind(events_endpoint(run_dir, role))
        except BaseException:
            self._socket.close(linger=0)
            raise
        loop.add(self._socket, self._subscribed)
        loop.on_flush(self._flush)
        self._ticker = loop.every(TICK_S, self._tick)

    def publish(self, body: bytes) -> int:
        """Send ``body`` (not empty) at the end of this pass, after what was published before; returns its number.

        A body that is too large to travel takes its number and is left out: every subscriber sees the gap, and reads
        a fresh snapshot.
        """
        if not body:
            raise ValueError("an event without a body would be taken for a tick")
        self.number += 1
        try:
            self._queue(body)
        except Unsendable:
            self._tick()
        return self.number

    def close(self) -> None:
        if self._socket.closed:
            return
        self._flush()
        self._ticker.cancel()
        self._loop.off(self._flush)
        self._loop.remove(self._socket)
        self._socket.close(linger=0)

    def _subscribed(self) -> None:
        new = False
        for _ in range(DRAIN):
            try:
                new |= self._socket.recv(zmq.NOBLOCK)[:1] == _SUBSCRIBED
            except zmq.Again:
                break
        if new:
            self._tick()
        self._loop.touched(self._socket)

    def _tick(self) -> None:
        self._queue(b"")

    def _queue(self, body: bytes) -> None:
        self._out.append(pack_event(Event(self.epoch, self.number, body)))
        self._loop.request_pass()

    def _flush(self) -> None:
        if not self._out or self._socket.closed:
            return
        out, self._out = self._out, []
        # First: a fault in between must not leave it deaf.
        self._loop.touched(self._socket)
        for _, frame in messages(out):
            self._socket.send(frame, zmq.NOBLOCK)


class Subscriber:
    """Events of one owner, in order. ``on_gap`` runs when some were missed, or the owner is a new one (a new epoch):
    then only a fresh snapshot tells the truth. The event that revealed it is delivered right after.

    Without `resume_from` the first event is taken as the start, and what came before it is the caller's matter.
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

    def resume_from(self, epoch: str, number: int) -> None:
        """A snapshot that stands at ``number`` of ``epoch`` was read: events up to it are in the snapshot and are left
        out, the next one is expected after it, and anything else is a gap."""
        self.epoch, self.number = epoch, number

    def close(self) -> None:
        if not self._socket.closed:
            self._loop.remove(self._socket)
            self._socket.close(linger=0)

    def _pump(self) -> None:
        for _ in range(DRAIN):
            if self._socket.closed:
                return
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                events = unpack_events(frame)
            except MalformedFrame as error:
                # Whatever it held is missing: the next event or tick shows the gap.
                self._loop.fault(error)
                continue
            for event in events:
                self._take(event)
            if not readable(self._socket):
                return
        self._loop.touched(self._socket)

    def _take(self, event: Event) -> None:
        if event.epoch == self.epoch and event.number <= self.number:
            return
        expected = self.number + 1 if event.body else self.number
        missed = self.epoch != "" and (event.epoch != self.epoch or event.number != expected)
        self.epoch, self.number = event.epoch, event.number
        try:
            if missed:
                self._on_gap()
            if event.body:
                self._on_event(event)
        except Exception as fault:  # noqa: BLE001 - a subscriber's fault must not cost it the events behind this one
            self._loop.fault(fault)
