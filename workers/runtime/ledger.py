"""The events of one turn: numbered from 1 without gaps, kept until state confirmed them. Pure: no clock, no I/O.

The one place that knows that a turn ends exactly once, with its last event, and that nothing comes after it.
"""

from collections import deque

import msgspec

from termal.wire.turns import AnyTurnEvent, TextDelta, ThinkingDelta, TurnEnded, TurnOutcome

WINDOW_BYTES = 4 << 20
WINDOW_EVENTS = 4096
"""More than this unconfirmed: whoever produces the events has to wait. A report carries a quarter of it at most."""
REPORT_BYTES = 1 << 20
REPORT_EVENTS = 1024
COALESCED_BYTES = 64 << 10
"""Pieces of text that wait together become one event up to this size."""
_EVENT_BYTES = 64
"""What an event costs besides its texts; an estimate."""


class Part(msgspec.Struct, frozen=True):
    """Events to report: ``first`` is the number of ``events[0]``."""

    first: int
    events: list[AnyTurnEvent]
    size_bytes: int = 0

    @property
    def last(self) -> int:
        return self.first + len(self.events) - 1


class _Entry:
    __slots__ = ("event", "pieces", "size_bytes")

    def __init__(self, event: AnyTurnEvent) -> None:
        self.event = event
        self.pieces: list[str] = []
        self.size_bytes = _size(event)

    def take(self, event: AnyTurnEvent) -> bool:
        """Add the text of ``event`` to this one, if both are pieces of one text."""
        mine = self.event
        if not isinstance(event, TextDelta | ThinkingDelta) or type(event) is not type(mine):
            return False
        assert isinstance(mine, TextDelta | ThinkingDelta)
        if mine.item != event.item or self.size_bytes + len(event.text) > COALESCED_BYTES:
            return False
        if isinstance(mine, ThinkingDelta) and isinstance(event, ThinkingDelta) and mine.title != event.title:
            return False
        self.pieces.append(event.text)
        self.size_bytes += len(event.text.encode("utf-8", "replace"))
        return True

    def whole(self) -> AnyTurnEvent:
        if self.pieces:
            event = self.event
            assert isinstance(event, TextDelta | ThinkingDelta)
            self.event = msgspec.structs.replace(event, text=event.text + "".join(self.pieces))
            self.pieces = []
        return self.event


class Ledger:
    """``add`` and ``end`` by the producer, ``part``, ``sent``, ``confirm`` and ``rewind`` by the reporter."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()
        self._confirmed = 0
        self._sent = 0
        self._shown = 0
        self.unconfirmed_bytes = 0
        self.ended = False

    @property
    def last(self) -> int:
        """The number of the newest event, 0 before the first."""
        return self._confirmed + len(self._entries)

    @property
    def finished(self) -> bool:
        """The turn has ended and state has confirmed all of it: nothing is left to keep."""
        return self.ended and not self._entries

    @property
    def full(self) -> bool:
        return self.unconfirmed_bytes > WINDOW_BYTES or len(self._entries) > WINDOW_EVENTS

    @property
    def roomy(self) -> bool:
        """Half of the window is free again."""
        return self.unconfirmed_bytes <= WINDOW_BYTES // 2 and len(self._entries) <= WINDOW_EVENTS // 2

    def add(self, event: AnyTurnEvent) -> bool:
        """Take the next event. False: the turn has ended before, and the event is dropped."""
        if self.ended:
            return False
        before = self._entries[-1].size_bytes if self._entries else 0
        if self._entries and self.last > self._shown and self._entries[-1].take(event):
            self.unconfirmed_bytes += self._entries[-1].size_bytes - before
            return True
        entry = _Entry(event)
        self._entries.append(entry)
        self.unconfirmed_bytes += entry.size_bytes
        self.ended = isinstance(event, TurnEnded)
        return True

    def end(self, outcome: TurnOutcome, detail: str = "") -> bool:
        """End the turn unless it has ended. True: this call did it."""
        return self.add(TurnEnded(outcome, detail))

    def part(self, most: int = REPORT_EVENTS) -> Part | None:
        """The next events that were not sent, bounded in bytes and number; one event at least, however large."""
        events: list[AnyTurnEvent] = []
        size_bytes = 0
        for index in range(self._sent - self._confirmed, len(self._entries)):
            entry = self._entries[index]
            size_bytes += entry.size_bytes
            if events and (size_bytes > REPORT_BYTES or len(events) == most):
                break
            events.append(entry.whole())
        return Part(self._sent + 1, events, size_bytes) if events else None

    def sent(self, part: Part) -> None:
        """From now on these events are as they are: a repeat carries the same under the same numbers."""
        self._sent = part.last
        self._shown = max(self._shown, part.last)

    def confirm(self, through: int) -> bool:
        """Forget what is committed. False: ``through`` says nothing new."""
        through = min(through, self._shown)
        if through <= self._confirmed:
            return False
        for _ in range(through - self._confirmed):
            self.unconfirmed_bytes -= self._entries.popleft().size_bytes
        self._confirmed = through
        self._sent = max(self._sent, through)
        return True

    def replace_first(self, event: AnyTurnEvent) -> None:
        """Put ``event`` in the place and under the number of the first unconfirmed one."""
        old, new = self._entries[0], _Entry(event)
        self._entries[0] = new
        self.unconfirmed_bytes += new.size_bytes - old.size_bytes

    def rewind(self) -> None:
        """Send everything unconfirmed again."""
        self._sent = self._confirmed


def _size(event: AnyTurnEvent) -> int:
    size_bytes = _EVENT_BYTES
    for field in event.__struct_fields__:
        value = getattr(event, field)
        if isinstance(value, str):
            size_bytes += len(value.encode("utf-8", "replace"))
        elif isinstance(value, bytes):
            size_bytes += len(value)
        elif isinstance(value, list):
            size_bytes += _EVENT_BYTES * len(value)
    return size_bytes
