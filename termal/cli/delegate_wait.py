"""Looks at delegations until enough of them are over; tells its caller of every change. Cancels nothing."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from termal.client.http import Http
from termal.client.packets import TERMINAL
from termal.client.routes import delegations
from termal.wire.errors import Busy, OutcomeUnknown, TermalError

LOOK_S = 1.0

Record = Mapping[str, Any]
Seen = Callable[[Sequence[Record]], None]


class Waited(NamedTuple):
    """The records in the order in which they were asked for."""

    records: list[Record]
    timed_out: bool

    @property
    def ended(self) -> list[Record]:
        return [record for record in self.records if record["status"] in TERMINAL]


def wait_for(
    http: Http, session: str, ids: Sequence[str], *, any_of: bool, timeout_s: float | None, seen: Seen
) -> Waited:
    """Until all of ``ids`` are over, or one of them; ``seen`` gets all records after each look.

    A daemon that is busy for a moment is asked again. Raises every other `TermalError`.
    """
    end_s = float("inf") if timeout_s is None else time.monotonic() + timeout_s
    known: dict[str, Record] = {}
    while True:
        for one in ids:
            if known.get(one, {}).get("status") not in TERMINAL:
                _look(http, session, one, known)
        records = [known[one] for one in ids if one in known]
        seen(records)
        over = sum(record["status"] in TERMINAL for record in records)
        if over >= (min(1, len(ids)) if any_of else len(ids)):
            return Waited(records, timed_out=False)
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            _record(http, session, ids, timeout_s or 0.0)
            return Waited(records, timed_out=True)
        time.sleep(min(LOOK_S, left_s))


def _look(http: Http, session: str, one: str, known: dict[str, Record]) -> None:
    try:
        known[one] = http.run(delegations.status(session, one)).delegation
    except (Busy, OutcomeUnknown):
        if one not in known:
            raise


def _record(http: Http, session: str, ids: Sequence[str], timeout_s: float) -> None:
    try:
        http.run(delegations.record_timeout(session, ids, int(timeout_s * 1e3)))
    except TermalError:
        # The record of it is for later readers; the wait has ended all the same.
        return
