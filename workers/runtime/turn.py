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

_STREAMED = TextDelta | ThinkingDelta | ToolOutput


class Turn:
    """``hold_back(True)`` asks for less, ``hold_back(False)`` takes it back; ``on_over`` runs when nothing is left to
    keep, with whether state knew the turn.
    """

    def __init__(
        self,
        link: Link,
        session_id: str,
        turn_id: str,
        *,
        hold_back: Callable[[bool], None],
        on_over: Callable[["Turn", bool], None],
    ) -> None:
        self.session_id = session_id
        self.id = turn_id
        self.ended = asyncio.Event()
        self._ledger = Ledger()
        self._hold_back = hold_back
        self._held = False
        self._stopping = False
        self._ending: TurnEnded | None = None
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

    @property
    def unconfirmed_bytes(self) -> int:
        return self._ledger.unconfirmed_bytes

    def emit(self, event: AnyTurnEvent) -> None:
        """Take an event of the adapter. What comes after the turn's end is dropped."""
        if self._stopping and self._ledger.full and isinstance(event, _STREAMED):
            # Nobody waits for the rest of a stopped answer, and its agent must not be held back from ending it.
            return
        if isinstance(event, TurnEnded) and self._ending is not None:
            event = self._ending
        for piece in bounded(event):
            self._ledger.add(piece)
        self._reporter.send()
        if self._ledger.ended:
            self.ended.set()
            self._slow(False)
        elif self._ledger.full and not self._stopping:
            self._slow(True)

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
