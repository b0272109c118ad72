"""What every mail request goes through first: its time, who takes part, the repair of a stale departure."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from termal.bus.server import Request
from termal.rules.mail import refused_session
from termal.wire.errors import TermalError
from termal.wire.session_operations import Eligibility
from termal.wire.verdict_errors import error_of
from workers.coordination.mail_parties import MARGIN_S, Parties
from workers.coordination.mail_refusal import nothing_written

DEFAULT_S = 5.0
"""For a request that came without a deadline."""

Repaired = Callable[[TermalError | None], None]


class Repairs(Protocol):
    """Clears departures that never were, and checks again afterwards."""

    def repair(self, session_id: str, deadline_s: float, done: Repaired) -> None:
        """``done`` at once when there is nothing to clear; with the error that ends the request otherwise."""


def limit_of(request: Request) -> float:
    """Until when ``request`` is to be answered (CLOCK_MONOTONIC)."""
    deadline_s = request.deadline_s
    return (time.monotonic() + DEFAULT_S if deadline_s is None else deadline_s) - MARGIN_S


def refuse(request: Request, error: TermalError) -> None:
    """Answer with ``error``; an unanswered question on the way is said of what was asked for."""
    request.refuse(nothing_written(error) if request.op.kind == "write" else error)


class Desk:
    def __init__(self, parties: Parties, repairs: Repairs) -> None:
        self.parties = parties
        self._repairs = repairs

    def admit(self, request: Request, session_id: str, limit_s: float, admitted: Callable[[], None]) -> None:
        """Go on with ``admitted`` when ``session_id`` is a local root session; refuse the request otherwise."""

        def known(answers: list[Eligibility] | None, error: TermalError | None) -> None:
            if answers is None:
                assert error is not None
                refuse(request, error)
                return
            refused = refused_session("the session", answers[0].verdict)
            if refused is not None:
                request.refuse(error_of(refused))
            else:
                self.repair(request, (session_id,), limit_s, admitted)

        self.parties.ask((session_id,), limit_s, known)

    def repair(
        self, request: Request, session_ids: Sequence[str], limit_s: float, repaired: Callable[[], None]
    ) -> None:
        """Repair one session after the other, then go on."""
        first, rest = session_ids[0], session_ids[1:]

        def done(error: TermalError | None) -> None:
            if error is not None:
                refuse(request, error)
            elif rest:
                self.repair(request, rest, limit_s, repaired)
            else:
                repaired()

        self._repairs.repair(first, limit_s, done)
