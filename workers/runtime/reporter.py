"""Sends one turn's events to state, in order, until each is confirmed. Decides nothing else.

A confirmation waits for a commit, so that several reports are under way at once; when they are many or large, new
events gather and travel in the next one. A restarted state gets the same reports again (the bus repeats them in their
order); it answers how far it has committed, and what it does not have is sent once more. An event that state fails on
is found by itself and left out: it must not cost the daemon one state worker after the other.
"""

from collections.abc import Callable
from typing import Any, Protocol

from termal.bus.client import Call, Client
from termal.bus.loop import Loop, Timer
from termal.faults import fault
from termal.wire.errors import Internal, TermalError
from termal.wire.session_operations import TURN_REPORT
from termal.wire.turns import AnyTurnEvent, Notice, TurnConfirmed, TurnEnded, TurnReport
from workers.runtime.ledger import REPORT_BYTES, Ledger, Part
from workers.runtime.pace import Pace
from workers.runtime.watching import Watches

FIRST_RETRY_S = 0.25
LAST_RETRY_S = 5.0
UNDER_WAY = 32
"""Reports of one turn that wait for their confirmation at once, and `REPORT_BYTES` in all."""


class Journal(Protocol):
    """Takes log lines (`termal.log.Log`)."""

    def repeating(self, event: str, **keys: Any) -> None: ...


class Link:
    """What every turn of this worker shares: the way to state, and the name of this life of the worker."""

    def __init__(self, loop: Loop, state: Client, runtime: str, log: Journal) -> None:
        self.loop = loop
        self.state = state
        self.runtime = runtime
        self.log = log
        self.pace = Pace(loop)
        self.watches: Watches | None = None


class Reporter:
    """``on_confirmed`` runs when a confirmation said something new, ``on_unknown`` when state knows no such turn."""

    def __init__(
        self,
        link: Link,
        session_id: str,
        turn_id: str,
        ledger: Ledger,
        *,
        on_confirmed: Callable[[], None],
        on_unknown: Callable[[], None],
    ) -> None:
        self._link = link
        self._session_id = session_id
        self._turn_id = turn_id
        self._ledger = ledger
        self._on_confirmed = on_confirmed
        self._on_unknown = on_unknown
        self._calls: dict[int, tuple[Part, Call[TurnConfirmed]]] = {}
        self._retry: Timer | None = None
        self._pause_s = FIRST_RETRY_S
        self._one_by_one = False
        self._closed = False

    def send(self) -> None:
        """Report what is new, unless enough is under way or a pause after a failed report is not over."""
        while not self._closed and self._retry is None and self._room():
            part = self._ledger.part(1) if self._one_by_one else self._ledger.part()
            if part is None:
                return
            self._ledger.sent(part)
            fault("runtime.before_report")
            self._calls[part.first] = (part, self._report(part))

    def send_soon(self) -> None:
        """The same for a piece of streamed text."""
        self._link.pace.send(self, self.send)

    def _room(self) -> bool:
        if not self._calls:
            return True
        size_bytes = sum(part.size_bytes for part, _ in self._calls.values())
        return not self._one_by_one and len(self._calls) < UNDER_WAY and size_bytes < REPORT_BYTES

    def _report(self, part: Part) -> Call[TurnConfirmed]:
        report = TurnReport(self._link.runtime, self._session_id, self._turn_id, part.first, part.events)
        return self._link.state.call(
            TURN_REPORT, report, lambda reply, error: self._answered(part, reply, error), trace=self._turn_id
        )

    def close(self) -> None:
        """Report nothing more; what is under way is forgotten."""
        self._closed = True
        self._forget_calls()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _forget_calls(self) -> None:
        calls, self._calls = self._calls, {}
        for _, call in calls.values():
            call.cancel()

    def _answered(self, part: Part, reply: TurnConfirmed | None, error: TermalError | None) -> None:
        self._calls.pop(part.first, None)
        if self._closed:
            return
        if reply is None:
            detail = error.code if error is not None else None
            self._link.log.repeating("turn.report_failed", sessionId=self._session_id, code=detail)
            if isinstance(error, Internal):
                self._failed_on(part)
            self._again()
            return
        if not reply.known:
            self.close()
            self._on_unknown()
            return
        progress = self._ledger.confirm(reply.through)
        if progress:
            self._pause_s = FIRST_RETRY_S
            self._on_confirmed()
        if reply.through < part.last:
            # State did not take all of it; whatever went after it is a gap to state.
            self._forget_calls()
            self._ledger.rewind()
            if not progress:
                self._link.log.repeating("turn.report_unconfirmed", sessionId=self._session_id)
                self._again()
                return
        self.send()

    def _failed_on(self, part: Part) -> None:
        if self._one_by_one:
            self._link.log.repeating("turn.event_left_out", sessionId=self._session_id, number=part.first)
            self._ledger.replace_first(_in_place_of(part.events[0]))
        self._one_by_one = not self._one_by_one

    def _again(self) -> None:
        self._forget_calls()
        self._ledger.rewind()
        self._retry = self._link.loop.later(self._pause_s, self._retried)
        self._pause_s = min(self._pause_s * 2, LAST_RETRY_S)

    def _retried(self) -> None:
        self._retry = None
        self.send()


def _in_place_of(event: AnyTurnEvent) -> AnyTurnEvent:
    if isinstance(event, TurnEnded):
        return TurnEnded("failed", "TermAl could not record how the turn ended")
    return Notice("TermAl could not record what the agent did here.")
