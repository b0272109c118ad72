"""Fans state's events out to the event streams, each behind its own snapshot, in order, nothing lost unnoticed.

It always listens; a snapshot is asked for while listening, and what arrives meanwhile is kept, so that nothing between
the two is missed. The event socket is a hint: its epoch and dense numbers show what it lost, a snapshot repairs it.
"""

import asyncio
from collections import deque
from typing import Any, Protocol

from termal.bus.client import Client
from termal.bus.loop import Loop
from termal.bus.publisher import Subscriber
from termal.gateway.stream import Kept, Stream, event_bytes
from termal.wire.codec import decode, encode_json
from termal.wire.envelope import Event
from termal.wire.errors import Busy, TermalError, TooMany
from termal.wire.events import Published
from termal.wire.session_operations import STATE_SNAPSHOT, Snapshot
from termal.wire.turns import Anything

RETRY_S = 0.25
"""Between two snapshot requests when the first failed although state is there."""
CHECK_S = 1.0
"""How often the event socket's position is compared with ours: a tick may have shown a lost tail."""
BEAT_CHECK_S = 5.0
BEAT_AFTER_S = 9.5
"""Silent for this long at a check, a stream gets a comment: never more than 15 s without a byte."""
KEPT_EVENTS = 4096
"""Events kept while a snapshot is on its way; beyond it that snapshot is given up for a newer one."""
FORMER_EPOCHS = 8
"""Earlier state workers whose late events and snapshots are told apart from those of a new one."""


class Journal(Protocol):
    def warning(self, event: str, **keys: Any) -> None: ...
    def repeating(self, event: str, **keys: Any) -> None: ...


class Hub:
    """Made and used on the loop's thread. ``limit`` is the number of streams that may be open at once."""

    def __init__(self, loop: Loop, run_dir: str, state: Client, log: Journal, *, limit: int) -> None:
        self.limit = limit
        self.draining = False
        self.lagged = 0
        self.revision = 0
        self._log = log
        self._loop = loop
        self._state = state
        self._streams: set[Stream] = set()
        self._live: set[Stream] = set()
        self._waiting: set[Stream] = set()
        self._epoch = ""
        self._number = 0
        self._former: deque[str] = deque(maxlen=FORMER_EPOCHS)
        self._asked = False
        self._kept: list[Kept] = []
        state.on_up.append(self._state_up)
        self._subscriber = Subscriber(loop, run_dir, "state", on_event=self._take, on_gap=_nothing)
        self._timers = [loop.every(CHECK_S, self._check), loop.every(BEAT_CHECK_S, self._beat)]

    def __len__(self) -> int:
        return len(self._streams)

    def open(self) -> Stream:
        """A new stream, or the error that says that too many are open."""
        if len(self._streams) >= self.limit:
            raise TooMany(f"{self.limit} event streams are open, which is the limit", reason="eventStreams")
        stream = Stream(self)
        stream.sent_s = asyncio.get_running_loop().time()
        self._streams.add(stream)
        return stream

    def want(self, stream: Stream) -> None:
        self._waiting.add(stream)
        self._ask()

    def leave(self, stream: Stream) -> None:
        for group in (self._streams, self._live, self._waiting):
            group.discard(stream)

    def drain(self) -> None:
        """End all streams; whoever asks for one from now on gets none. There is no way back."""
        self.draining = True
        for stream in tuple(self._streams):
            stream.close()
            self.leave(stream)

    def close(self) -> None:
        self.drain()
        for timer in self._timers:
            timer.cancel()
        self._subscriber.close()

    # -------------------------------------------------------------------- events

    def _take(self, event: Event) -> None:
        if not self._advance(event.epoch, event.number, "a gap in the events"):
            return
        try:
            published = decode(event.body, Published)
        except TermalError as error:
            self._log.repeating("events.malformed", error=error.message)
            self._lost("an event that could not be read")
            return
        kept = Kept(event.epoch, event.number, event_bytes(published.name, published.json), published.name == "state")
        if self._asked and len(self._kept) < KEPT_EVENTS:
            self._kept.append(kept)
        if published.name == "workspaceFilesChanged":
            self._hint(kept)
        else:
            self.revision = published.revision
            self._spread(kept)

    def _advance(self, epoch: str, number: int, gap: str) -> bool:
        """Move our position to this event. False when it is old news."""
        if epoch in self._former or (epoch == self._epoch and number <= self._number):
            return False
        if epoch != self._epoch:
            self._succeed(epoch, number - 1)
        if number > self._number + 1:
            self._lost(gap)
        self._number = number
        return True

    def _succeed(self, epoch: str, number: int) -> None:
        """Go on from event ``number`` of a state worker that is not the one so far."""
        if self._epoch:
            self._former.append(self._epoch)
            self._lost("a new state worker")
        self._epoch, self._number = epoch, number

    def _spread(self, event: Kept) -> None:
        full = [
            stream
            for stream in self._live
            if event.number > stream.after and not stream.offer(event.chunk, event.whole)
        ]
        self._live.difference_update(full)
        self.lagged += len(full)

    def _hint(self, event: Kept) -> None:
        """Whoever has no room for it misses it."""
        for stream in self._live:
            if event.number > stream.after:
                stream.hint(event.chunk)

    def _lost(self, why: str) -> None:
        """What live streams have seen no longer leads to what comes: each starts again from a snapshot."""
        if self._live:
            self._log.warning("events.resync", why=why, streams=len(self._live))
        for stream in self._live:
            stream.lag()
        self.lagged += len(self._live)
        self._live.clear()

    def _check(self) -> None:
        seen = self._subscriber
        if seen.epoch and self._advance(seen.epoch, seen.number, "events that never came"):
            # Every event that came was taken already: this one, told by a tick, is lost as well.
            self._lost("the newest event never came")

    def _beat(self) -> None:
        edge = asyncio.get_running_loop().time() - BEAT_AFTER_S
        for stream in self._streams:
            if stream.sent_s < edge:
                stream.beat()

    # ----------------------------------------------------------------- snapshots

    def _state_up(self) -> None:
        # It may be a new one: its snapshot shows by its epoch whether live streams have to start again.
        if self._streams:
            self._ask()

    def _ask(self) -> None:
        """Ask for a snapshot unless one is on its way; all who wait share it."""
        if not self._asked and not self.draining:
            self._asked = True
            self._kept.clear()
            self._state.call(STATE_SNAPSHOT, Anything(), self._answered, trace="events")

    def _answered(self, snapshot: Snapshot | None, error: TermalError | None) -> None:
        self._asked = False
        if snapshot is not None:
            self._place(snapshot)
        elif isinstance(error, Busy):
            # State is away or slow: the streams stay open and wait for it.
            self._loop.later(RETRY_S, self._again)
        elif error is not None:
            self._log.repeating("events.no_snapshot", code=error.code, error=error.message)
            self._settle(event_bytes("state", fallback_json(self.revision)), self._number, [])
        self._kept.clear()

    def _again(self) -> None:
        if self._waiting:
            self._ask()

    def _place(self, snapshot: Snapshot) -> None:
        if snapshot.epoch != self._epoch and snapshot.epoch not in self._former:
            self._succeed(snapshot.epoch, snapshot.number)
        later = [kept for kept in self._kept if kept.epoch == snapshot.epoch and kept.number > snapshot.number]
        if snapshot.epoch != self._epoch or snapshot.number + len(later) < self._number:
            # It is of a state worker that is gone, or something between it and the newest event was lost.
            self._loop.later(RETRY_S, self._again)
            return
        self.revision = max(self.revision, snapshot.revision) if later else snapshot.revision
        self._settle(event_bytes("state", snapshot.json), snapshot.number, later)

    def _settle(self, chunk: bytes, number: int, later: list[Kept]) -> None:
        """Everybody who waits goes live behind ``chunk``, which stands at event ``number``."""
        for stream in self._waiting:
            stream.adopt(chunk, number, later)
        self._live |= self._waiting
        self._waiting.clear()


def fallback_json(revision: int) -> bytes:
    """The ``state`` of last resort: it tells its reader to ask for the state itself."""
    return encode_json(
        {
            "_sseFallback": True,
            "revision": revision,
            "serverInstanceId": "",
            "codex": {},
            "agentReadiness": [],
            "preferences": {},
            "projects": [],
            "orchestrators": [],
            "workspaces": [],
            "sessions": [],
        }
    )


def _nothing() -> None:
    """Gaps are found by number here, also those that the subscriber cannot know of."""
