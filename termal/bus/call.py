"""One call under way, and the clock of all calls of one client: a single timer for whichever is due first."""

import heapq
import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from termal.bus.loop import Loop, Timer
from termal.wire.errors import TermalError
from termal.wire.operation import Operation

ReplyT = TypeVar("ReplyT")

Done = Callable[[ReplyT | None, TermalError | None], None]

GRACE_S = 0.05
"""A worker says itself that it dropped a late request; this long its word is waited for after the deadline."""
_NEVER = float("inf")
_SPARE = 1024
"""Entries of ended calls that the heap may hold beside as many again as there are calls."""


class Owner(Protocol):
    """The client of a call."""

    def forget(self, number: int) -> None: ...


class Call(Generic[ReplyT]):
    """One call under way. After `cancel` its callback never runs; the worker may still carry the request out.

    ``sent``: this life of the worker has it. ``lost``: an earlier life had it, and may have carried it out.
    """

    __slots__ = ("_client", "absent_s", "deadline_s", "done", "id", "lost", "op", "packed", "patience_s", "sent")

    def __init__(
        self,
        client: Owner,
        number: int,
        op: Operation[Any, ReplyT],
        packed: bytes,
        done: Done[ReplyT],
    ) -> None:
        self._client = client
        self.id = number
        self.op = op
        self.packed = packed
        self.done = done
        self.deadline_s: float | None = None
        self.absent_s: float | None = None
        self.patience_s: float | None = None
        self.sent = False
        self.lost = False

    def cancel(self) -> None:
        self._client.forget(self.id)

    def limit_s(self) -> float | None:
        """When this call ends without an answer, as things stand; None for never."""
        deadline = self.deadline_s
        if deadline is not None and self.sent:
            deadline += GRACE_S
        if self.patience_s is None:
            return deadline
        return self.patience_s if deadline is None else min(deadline, self.patience_s)


class Deadlines:
    """Rings for each call at its limit. Ended calls stay on the heap until their time comes or they are too many."""

    def __init__(self, loop: Loop, calls: dict[int, Call[Any]], expire: Callable[[Call[Any]], None]) -> None:
        self._loop = loop
        self._calls = calls
        self._expire = expire
        self._heap: list[tuple[float, int]] = []
        self._timer: Timer | None = None
        self._armed_s = _NEVER

    def watch(self, call: Call[Any]) -> None:
        """Look at ``call`` at its present limit. Call it again whenever a limit moves to an earlier time."""
        limit = call.limit_s()
        if limit is None:
            return
        if len(self._heap) > 2 * len(self._calls) + _SPARE:
            self._heap = [entry for entry in self._heap if entry[1] in self._calls]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (limit, call.id))
        if limit < self._armed_s:
            self._arm(limit)

    def close(self) -> None:
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_s = at_s
        self._timer = self._loop.later(max(0.0, at_s - time.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._armed_s = _NEVER
        now = time.monotonic()
        due = []
        while self._heap and (self._heap[0][0] <= now or self._heap[0][1] not in self._calls):
            call = self._calls.get(heapq.heappop(self._heap)[1])
            limit = None if call is None else call.limit_s()
            if call is None or limit is None:
                continue
            if limit > now:
                heapq.heappush(self._heap, (limit, call.id))
            else:
                due.append(call)
        if self._heap:
            self._arm(self._heap[0][0])
        for call in due:
            self._expire(call)
