"""Departures that never were, taken back when their session turns up in mail again, alive and eligible.

Only a deletion on purpose ends a participation, so state is asked again after a departure was taken back: one that
happened meanwhile stands. Repairs of one session go one after the other.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from termal.bus.loop import Loop
from termal.faults import fault
from termal.log import Log
from termal.rules.mail import refused_session
from termal.store.connection import Cursorlike
from termal.store.job import too_late
from termal.store.writer import Writer
from termal.wire.errors import OutcomeUnknown, TermalError
from termal.wire.session_operations import Eligibility
from termal.wire.verdict_errors import error_of
from workers.coordination import left_at
from workers.coordination.admission import Admission
from workers.coordination.mail import Mail
from workers.coordination.mail_desk import Repaired
from workers.coordination.mail_refusal import nothing_written, storage_error

AGAIN_S = 0.25


class RepairParts(NamedTuple):
    """``mail`` is told of every change of a participant: inside the writer's job, and on the loop after its commit."""

    mail: Callable[[], Mail]
    admission: Admission
    writing: Callable[[], Writer]


class Repairs:
    """Belongs to the loop's thread, and knows without asking the file who has nothing to repair: almost everybody."""

    def __init__(self, loop: Loop, parts: RepairParts, log: Log) -> None:
        self.loop = loop
        self.parts = parts
        self.log = log
        self.left: set[str] = set()
        """Sessions with a departure somewhere. Only jobs of the writer of this process change that."""
        self.unsettled: set[str] = set()
        """Sessions of whom a repair may be half done: it is ended before another one begins."""
        self._lines: dict[str, deque[_Repair]] = {}

    def load(self, path: Path) -> None:
        """Raises `StoreRefused`."""
        self.left, self.unsettled = left_at.departed(path)

    def begin(self) -> None:
        """End what an earlier life has left half done, once state can be asked."""
        for session_id in tuple(self.unsettled):
            self._settle(session_id)

    def repair(self, session_id: str, deadline_s: float, done: Repaired) -> None:
        """For a session that state has just called eligible: ``done`` at once when there is nothing to take back,
        else once it is taken back for good, with the error that ends the request otherwise."""
        if session_id not in self.left and session_id not in self.unsettled:
            done(None)
            return
        self._queue(_Repair(self, session_id, deadline_s, done))

    def gone(self, session_ids: set[str]) -> None:
        """After the commit of their departure."""
        self.left |= session_ids
        self.parts.mail().participants_changed()

    def ended(self, session_id: str) -> None:
        line = self._lines[session_id]
        line.popleft()
        if line:
            line[0].start()
        else:
            del self._lines[session_id]

    def _queue(self, repair: "_Repair") -> None:
        line = self._lines.setdefault(repair.session_id, deque())
        line.append(repair)
        if len(line) == 1:
            repair.start()

    def _settle(self, session_id: str) -> None:
        def done(error: TermalError | None) -> None:
            if session_id in self.unsettled:
                self.log.repeating("coordination.repair_unsettled", sessionId=session_id, error=str(error))
                self.loop.later(AGAIN_S, lambda: self._settle(session_id))

        self._queue(_Repair(self, session_id, math.inf, done, only_settle=True))


class _Repair:
    """One repair, answered once: at its end, or at its deadline while it still goes on."""

    def __init__(
        self, repairs: Repairs, session_id: str, deadline_s: float, done: Repaired, *, only_settle: bool = False
    ) -> None:
        self.session_id = session_id
        self._repairs = repairs
        self._parts = repairs.parts
        self._deadline_s = deadline_s
        self._done: Repaired | None = done
        self._only_settle = only_settle
        self._verdict: TermalError | None = None
        self._timer = (
            None
            if deadline_s == math.inf
            else repairs.loop.later(max(0.0, deadline_s - time.monotonic()), self._out_of_time)
        )

    def start(self) -> None:
        if self._done is None:
            self._repairs.ended(self.session_id)
        elif self.session_id in self._repairs.unsettled:
            self._ask(self._settled_by)
        elif self.session_id in self._repairs.left and not self._only_settle:
            self._clear()
        else:
            self._end(None)

    # ------------------------------------------------------------- a repair that was cut off

    def _settled_by(self, verdict: TermalError | None, *, known: bool) -> None:
        if not known:
            self._end(verdict)
            return

        def settle(connection: Cursorlike) -> bool:
            self._parts.mail().boxes.forget()
            if verdict is None:
                left_at.keep(connection, self.session_id)
            else:
                left_at.restore(connection, self.session_id)
            return left_at.has_left(connection, self.session_id)

        def settled(left: bool | None, error: Exception | None) -> None:
            if error is not None:
                self._end(storage_error(error))
                return
            repairs = self._repairs
            repairs.unsettled.discard(self.session_id)
            (repairs.left.add if left else repairs.left.discard)(self.session_id)
            self._parts.mail().participants_changed()
            if verdict is None:
                self.start()
            else:
                self._end(verdict)

        self._parts.writing().submit(settle, settled)

    # ------------------------------------------------------------------------ taking back

    def _clear(self) -> None:
        def clear(connection: Cursorlike) -> left_at.Pairs:
            self._parts.mail().boxes.forget()
            return left_at.clear(connection, self.session_id)

        self._parts.admission.submit(clear, self._cleared, deadline_s=self._deadline_s)

    def _cleared(self, pairs: left_at.Pairs | None, error: Exception | None) -> None:
        if error is not None:
            if isinstance(error, OutcomeUnknown):
                self._repairs.unsettled.add(self.session_id)
            self._end(storage_error(error))
            return
        self._repairs.left.discard(self.session_id)
        self._parts.mail().participants_changed()
        if not pairs:
            self._end(None)
            return
        fault("coordination.left_at_cleared")
        self._ask(self._checked)

    def _checked(self, verdict: TermalError | None, *, known: bool) -> None:
        if verdict is None:
            # What the request does next is behind this in the same line, and in the same commit.
            self._parts.writing().submit(
                lambda connection: left_at.keep(connection, self.session_id), lambda _, error: None
            )
            self._end(None)
            return
        self._verdict = verdict

        def restore(connection: Cursorlike) -> bool:
            self._parts.mail().boxes.forget()
            return left_at.restore(connection, self.session_id)

        def restored(_: bool | None, error: Exception | None) -> None:
            if error is not None:
                self._repairs.log.error("coordination.repair_not_undone", sessionId=self.session_id, error=repr(error))
            self._repairs.gone({self.session_id})
            self._end(verdict)

        self._parts.writing().submit(restore, restored)

    # ------------------------------------------------------------------------------ parts

    def _ask(self, answered: Callable[..., None]) -> None:
        """The root predicate now: ``answered`` gets the refusal, None for an eligible session; not ``known`` when
        nobody answered in time."""

        def known(answers: list[Eligibility] | None, error: TermalError | None) -> None:
            if answers is None:
                answered(nothing_written(error or too_late()), known=False)
                return
            refused = refused_session("the session", answers[0].verdict)
            answered(None if refused is None else error_of(refused), known=True)

        self._parts.mail().parties.ask((self.session_id,), self._deadline_s, known)

    def _out_of_time(self) -> None:
        self._answer(self._verdict or too_late())

    def _end(self, error: TermalError | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._repairs.ended(self.session_id)
        self._answer(error)

    def _answer(self, error: TermalError | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(error)
