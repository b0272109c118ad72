"""One client's event stream: a bounded queue of ready-made chunks between hub and connection. No sockets here."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

QUEUE_EVENTS = 256
QUEUE_BYTES = 8 << 20
"""A client that is further behind than this starts again from a snapshot."""
CHUNK_BYTES = 64 << 10
"""Events that wait together go out as one chunk of about this size: what the transport takes before it pushes back."""

OPENING = b": open\nretry: 1000\n\n"
"""Sent at once: the server holds the headers back until the first byte of the body."""
BEAT = b": beat\n\n"
LAGGED = b"event: lagged\ndata: 1\n\n"


def event_bytes(name: str, json: bytes) -> bytes:
    """One event; ``json`` is a single line."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json)


class Source(Protocol):
    """What a stream asks of the hub."""

    def want(self, stream: "Stream") -> None:
        """Give the stream a snapshot as soon as there is one."""

    def leave(self, stream: "Stream") -> None:
        """Forget the stream."""


class Kept(NamedTuple):
    """An event that came while a snapshot was on its way; ``whole`` marks one that is a snapshot itself."""

    epoch: str
    number: int
    chunk: bytes
    whole: bool


class _Entry(NamedTuple):
    """``counted``: it takes its share of the queue's bounds. What comes with a snapshot does not: that is the way out
    of an overflow and must never be its cause."""

    chunk: bytes
    whole: bool
    counted: bool


class Stream:
    """States: it wants a snapshot, or it is live, or it lagged and says so at its next turn.

    ``after`` is the number of the last event that its snapshot holds; ``sent_s`` the loop time of its last chunk.
    """

    __slots__ = (
        "_beat",
        "_events",
        "_lagged",
        "_queue",
        "_size_bytes",
        "_source",
        "_started",
        "_waiter",
        "after",
        "closed",
        "sent_s",
    )

    def __init__(self, source: Source) -> None:
        self._source = source
        self._queue: deque[_Entry] = deque()
        self._events = 0
        self._size_bytes = 0
        self._started = False
        self._lagged = False
        self._beat = False
        self._waiter: asyncio.Future[None] | None = None
        self.after = 0
        self.closed = False
        self.sent_s = 0.0

    def adopt(self, snapshot: bytes, after: int, later: Iterable[Kept]) -> None:
        """Go live behind ``snapshot`` and the events that came ``later``."""
        self._clear()
        self._queue.append(_Entry(snapshot, whole=True, counted=False))
        for kept in later:
            self._put(_Entry(kept.chunk, kept.whole, counted=False))
        self.after = after
        self._wake()

    def offer(self, chunk: bytes, whole: bool) -> bool:
        """Queue an event. False when the queue is full: the stream has lagged then and waits for its own next turn."""
        if self._events >= QUEUE_EVENTS or self._size_bytes + len(chunk) > QUEUE_BYTES:
            self.lag()
            return False
        self._put(_Entry(chunk, whole, counted=True))
        self._wake()
        return True

    def hint(self, chunk: bytes) -> None:
        """Queue an event that may get lost: a client that is behind has no use for it."""
        if self._events < QUEUE_EVENTS // 2 and self._size_bytes + len(chunk) <= QUEUE_BYTES // 2:
            self._put(_Entry(chunk, whole=False, counted=True))
            self._wake()

    def lag(self) -> None:
        """Drop what waits; the client is told, and then gets a fresh snapshot."""
        self._clear()
        self._lagged = True
        self._wake()

    def beat(self) -> None:
        self._beat = True
        self._wake()

    def close(self) -> None:
        """End the stream after the chunk in hand."""
        self._clear()
        self.closed = True
        self._wake()

    async def next(self) -> bytes | None:
        """The next chunk, None at the end of the stream. One caller at a time."""
        while not self.closed:
            chunk = self._ready()
            if chunk is not None:
                self._beat = False
                self.sent_s = asyncio.get_running_loop().time()
                return chunk
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return None

    def _ready(self) -> bytes | None:
        if not self._started:
            self._started = True
            self._source.want(self)
            return OPENING
        if self._lagged:
            # Only now: a client that has stopped reading holds no snapshot.
            self._lagged = False
            self._source.want(self)
            return LAGGED
        if self._queue:
            return self._take()
        return BEAT if self._beat else None

    def _take(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while self._queue and (not parts or size + len(self._queue[0].chunk) <= CHUNK_BYTES):
            entry = self._queue.popleft()
            self._count(entry, -1)
            parts.append(entry.chunk)
            size += len(entry.chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _put(self, entry: _Entry) -> None:
        # Of snapshots that wait one behind the other only the newest is of use; a delta is never moved across one.
        if entry.whole and self._queue and self._queue[-1].whole:
            self._count(self._queue.pop(), -1)
        self._queue.append(entry)
        self._count(entry, 1)

    def _count(self, entry: _Entry, sign: int) -> None:
        if entry.counted:
            self._events += sign
            self._size_bytes += sign * len(entry.chunk)

    def _clear(self) -> None:
        self._queue.clear()
        self._events = 0
        self._size_bytes = 0

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
