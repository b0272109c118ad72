"""One turn as the worker holds it: takes the adapter's events, keeps and reports them, slows the agent down."""

import asyncio
from collections.abc import Callable

from termal.wire.turns import (
    AnyTurnEvent,
    HeldTurn,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    TurnEnded,
    TurnOutcome,
)
from workers.runtime.bounds import bounded
from workers.runtime.ledger import Ledger
from workers.runtime.reporter import Link, Reporter
from workers.runtime.watching import Watch

_STREAMED = TextDelta | ThinkingDelta | ToolOutput


class Turn:
    """``hold_back(True)`` asks for less, ``hold_back(False)`` takes it back; ``on_over`` runs when nothing is left to
    keep, with whether state knew the turn. ``before_end``: what has to be done before anybody is told of the turn's
    end; it calls `told` when it is done.
    """

    def __init__(
        self,
        link: Link,
        session_id: str,
        turn_id: str,
        *,
        hold_back: Callable[[bool], None],
        on_over: Callable[["Turn", bool], None],
        before_end: Callable[["Turn"], None] | None = None,
    ) -> None:
        self.watch: Watch | None = None
        self.session_id = session_id
        self.id = turn_id
        self.ended = asyncio.Event()
        self._log = link.log
        self._ledger = Ledger()
        self._hold_back = hold_back
        self._held = False
        self._stopping = False
        self._ending: TurnEnded | None = None
        self._before_end = before_end
        self._untold: TurnEnded | None = None
        self._on_over = on_over
        self._reporter = Reporter(
            link,
            session_id,
            turn_id,
            self._ledger,
            on_confirmed=self._confirmed,
            on_unknown=lambda: on_over(self, False),
        )

    @property
    def held(self) -> HeldTurn:
        return HeldTurn(self.session_id, self.id, self._ledger.last)

    def emit(self, event: AnyTurnEvent) -> None:
        """Take an event of the adapter. What comes after the turn's end is dropped."""
        if self._untold is not None:
            return
        if self._stopping and self._ledger.full and isinstance(event, _STREAMED):
            # Nobody waits for the rest of a stopped answer, and its agent must not be held back from ending it.
            return
        if isinstance(event, TurnEnded) and self._ending is not None:
            # The daemon stops: nothing is kept back for what ends with it anyway.
            event = self._ending
        elif isinstance(event, TurnEnded) and self._before_end is not None and not self.ended.is_set():
            self._untold = event
            self._slow(False)
            self._before_end(self)
            return
        self._take(event)

    def told(self) -> None:
        """What had to be done before the end is done."""
        event, self._untold, self._before_end = self._untold, None, None
        if event is not None:
            # It came before the daemon began to stop, and stays what the turn came to.
            self._take(event)

    def _take(self, event: AnyTurnEvent) -> None:
        if isinstance(event, TurnEnded) and self.watch is not None and not self._ledger.ended:
            event = self._completed(self.watch, event)
        for piece in bounded(event):
            self._ledger.add(piece)
        if isinstance(event, _STREAMED):
            self._reporter.send_soon()
        else:
            self._reporter.send()
        if self._ledger.ended:
            self.ended.set()
            self._slow(False)
        elif self._ledger.full and not self._stopping:
            self._slow(True)

    def _completed(self, watch: Watch, end: TurnEnded) -> TurnEnded:
        try:
            return watch.complete(end)
        except Exception as error:  # noqa: BLE001 - the border of the files: without its end the turn would run for ever
            self._log.repeating("turn.files_unknown", sessionId=self.session_id, error=repr(error))
            watch.close()
            return end

    def end(self, outcome: TurnOutcome, detail: str = "") -> None:
        """End the turn unless it has ended."""
        self.emit(TurnEnded(outcome, detail))

    def stop(self, ending: TurnEnded | None = None) -> None:
        """The turn is being interrupted: its agent is not held back any more, and may say little.

        ``ending``: what is reported as its end, in place of what the agent makes of it.
        """
        self._stopping = True
        self._ending = ending
        self._slow(False)

    def drop(self) -> None:
        """Report nothing more."""
        if self.watch is not None:
            self.watch.close()
        self._reporter.close()
        self.ended.set()

    def _confirmed(self) -> None:
        if self._held and self._ledger.roomy:
            self._slow(False)
        if self._ledger.finished:
            self._on_over(self, True)

    def _slow(self, held: bool) -> None:
        if held is not self._held:
            self._held = held
            self._hold_back(held)
