"""Follows the children of active delegations: what the end of a turn, a refusal, a stop or a removal makes of them.

Whatever a child has come to is decided within the commit that made it so, but for what has to be asked first: files of
a worktree, and a review that coordination may hold.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from termal.bus.loop import Loop
from termal.bus.server import Request
from termal.model.delegation import DelegationRecord, DelegationResult
from termal.model.session import SessionStatus
from termal.rules import delegation_packet as packets
from termal.rules.delegation_paths import outside
from termal.rules.turn_end import Verdict
from termal.rules.verdicts import Refused
from termal.wire.errors import TermalError
from termal.wire.verdict_errors import error_of
from workers.state.change import Book, Change
from workers.state.clock import now_text, sooner
from workers.state.delegation_cards import Cards
from workers.state.delegation_ends import Ends, tell_update
from workers.state.delegation_files import Files
from workers.state.delegation_outcome import Outcome, changed_files_of, current_turn, observed
from workers.state.delegation_reviews import Reviews
from workers.state.delegation_steps import restored, with_review
from workers.state.delegation_waits import Waits
from workers.state.session_record import SessionRecord

PROBE_RETRY_S = 1.0
REPLY_S = 0.3
"""Kept of a request's deadline for the answer that a stored review could not be looked up."""


class Delegations:
    """``stopping``: what the children that are being canceled wait for, by child. ``rearmed``: the records from before
    follow-ups whose turns are not taken yet, by child. ``unstarted``: delegations whose children are about to get their
    first turn."""

    def __init__(
        self, book: Book, *, ends: Ends, cards: Cards, waits: Waits, reviews: Reviews, files: Files, loop: Loop
    ) -> None:
        self.stopping: dict[str, str] = {}
        self.rearmed: dict[str, DelegationRecord] = {}
        self.unstarted: set[str] = set()
        self._book = book
        self._ends = ends
        self._cards = cards
        self._waits = waits
        self._reviews = reviews
        self._files = files
        self._loop = loop
        self._open = False
        self._asking: set[str] = set()
        self._seen: dict[str, list[str]] = {}
        reviews.on_held = self._held

    # ------------------------------------------------------------------------ start

    def boot(self, change: Change) -> None:
        """The store is loaded and turns that nobody holds have ended: what has become of each child. Nobody is resumed
        yet, and nothing is asked of anybody."""
        for record in list(self._book.registry.delegations.values()):
            if record.active and not self._must_ask(record):
                self._conclude(change, record)

    def begin(self) -> None:
        """The start is over: ask what could not be asked before it, then look at the waits."""
        self._open = True
        for record in list(self._book.registry.delegations.values()):
            child = self._book.registry.sessions.get(record.child_session_id)
            if not (record.active or self._reviews.is_unknown(record)) or (child is not None and child.busy):
                continue
            self.refresh(record)
        self._waits.begin()

    # ------------------------------------------------------------------------ hooks

    def closed(self, change: Change, child: SessionRecord, verdict: Verdict | None) -> None:
        """A turn of ``child`` ended within ``change``; without a verdict nobody held it after a restart."""
        if verdict is not None and verdict.drain == "no":
            self._waits.refused(change, child)
        record = self._active(child)
        before = self.rearmed.pop(child.id, None)
        pending = self.stopping.pop(child.id, None)
        if record is None or not self._open:
            return
        if pending is not None:
            self.cancel(change, record, pending)
        elif verdict is None or verdict.drain != "no":
            self._conclude(change, record)
        elif before is not None:
            self._restore(change, record, before)
        else:
            self._fail(change, record, packets.START_FAILED)

    def asked(self, change: Change, child: SessionRecord) -> None:
        """``child`` began or ceased to wait for a person."""
        record = self._active(child)
        if record is not None:
            self._running(change, record)

    def removing(self, change: Change, root: SessionRecord, doomed: Sequence[SessionRecord]) -> None:
        """``root`` and everything below it is about to be deleted within ``change``."""
        gone = frozenset(record.id for record in doomed)
        for record in list(self._book.registry.delegations.values()):
            if not record.active:
                continue
            if record.parent_session_id in gone:
                self._fail(change, record, packets.PARENT_REMOVED, card=False, look=False)
            elif record.child_session_id == root.id:
                self._fail(change, record, packets.CHILD_REMOVED, look=False)
        self._waits.evaluate(change, removed=gone)

    def _active(self, child: SessionRecord) -> DelegationRecord | None:
        record = self._book.registry.delegations.of_child(child.id)
        return record if record is not None and record.active else None

    # ---------------------------------------------------------------------- refresh

    def fresh(self, record: DelegationRecord, request: Request, then: Callable[[DelegationRecord], None]) -> None:
        """Call ``then`` with ``record`` after whatever there is to find out about it, a stored review included. A
        failure of storage is the answer of ``request``."""
        if self.look(record):
            self._then(request, record, then)
            return

        def done(error: TermalError | None) -> None:
            if error is not None:
                request.refuse(error)
                return
            self._again(record)
            self._then(request, record, then)

        deadline_s = sooner(request.deadline_s, REPLY_S)
        self._reviews.probe(record, done, deadline_s)

    def look(self, record: DelegationRecord) -> bool:
        """Find out about ``record`` at once; False, and nothing is done, when a review must be looked for first."""
        child = self._book.registry.sessions.get(record.child_session_id)
        if self._reviews.is_unknown(record) and not (child is not None and child.busy):
            return False
        self.refresh(record)
        return True

    def _then(self, request: Request, record: DelegationRecord, then: Callable[[DelegationRecord], None]) -> None:
        newest = self._book.registry.delegations.get(record.id)
        assert newest is not None
        try:
            then(newest)
        except (Refused, TermalError) as refused:
            request.refuse(error_of(refused))

    def refresh(self, record: DelegationRecord) -> None:
        """Look at the child of ``record`` in a commit of its own, if there is anything to say."""
        if not record.active:
            if self._must_ask(record):
                self._ask(record)
            return
        change = self._book.change()
        self._conclude(change, record)
        if not change.empty:
            change.commit()

    def _conclude(self, change: Change, record: DelegationRecord) -> None:
        child = self._book.registry.sessions.get(record.child_session_id)
        outcome = observed(child)
        if outcome.kind == "running" or (child is not None and record.id in self.unstarted):
            self._running(change, record)
        elif self._must_ask(record):
            if child is not None:
                # Nothing that waits may run before the end is decided.
                child.queue = []
            if self._open:
                self._ask(record)
        else:
            self._end(change, record, child, outcome)

    def _running(self, change: Change, record: DelegationRecord) -> None:
        """The child works: a queued delegation runs by now, and the card says what the child waits for."""
        if record.status == "queued":
            started = record.started_at or now_text()
            record = replace(record, status="running", started_at=started)
            change.delegation(record)
            tell_update(change, record)
            self._cards.refresh(change, record)
        elif self._cards.refresh(change, record):
            tell_update(change, record)

    # ------------------------------------------------------------- what must be asked

    def _must_ask(self, record: DelegationRecord) -> bool:
        if self._reviews.is_unknown(record):
            return True
        return record.active and record.write_policy.kind == "isolatedWorktree" and record.id not in self._seen

    def _ask(self, record: DelegationRecord) -> None:
        if record.id in self._asking:
            return
        self._asking.add(record.id)
        if self._reviews.is_unknown(record):
            self._reviews.probe(record, lambda error: self._asked(record, error))
        else:
            self._files.changed(record, lambda paths: self._files_seen(record, paths))

    def _asked(self, record: DelegationRecord, error: TermalError | None) -> None:
        self._asking.discard(record.id)
        if error is None:
            self._again(record)
        else:
            # What was promised to the parent must not go on without an answer.
            self._loop.later(PROBE_RETRY_S, lambda: self._again(record))

    def _files_seen(self, record: DelegationRecord, paths: list[str] | None) -> None:
        self._asking.discard(record.id)
        child = self._book.registry.sessions.get(record.child_session_id)
        if paths is None:
            paths = [] if child is None else changed_files_of(child)
        self._seen[record.id] = paths
        self._again(record)
        self._seen.pop(record.id, None)

    def _again(self, before: DelegationRecord) -> None:
        record = self._book.registry.delegations.get(before.id)
        if record is not None and (record.active or self._reviews.is_unknown(record)):
            self.refresh(record)

    def _held(self, record: DelegationRecord) -> None:
        """A review arrived: if the child is done, so is the delegation."""
        child = self._book.registry.sessions.get(record.child_session_id)
        if child is None or not child.busy:
            self._again(record)

    # -------------------------------------------------------------------------- ends

    def cancel(self, change: Change, record: DelegationRecord, pending: str) -> None:
        """``pending``: what the child waited for. An accepted review stays held."""
        detail = packets.canceled_summary(pending or None)
        result = packets.ended_result(ids_of(record), "canceled", detail, review=record.review_result_required)
        self._finish(change, record, result, pending=pending)

    def _end(self, change: Change, record: DelegationRecord, child: SessionRecord | None, outcome: Outcome) -> None:
        """The child is done within ``change``."""
        files = self._seen.get(record.id)
        if files is None:
            files = [] if child is None else changed_files_of(child)
        if record.submitted_review_result:
            self._promote(change, record, files, _trouble(child, outcome))
        elif record.review_result_required and outcome.kind == "packet" and not _errored(child):
            self._finish(change, record, packets.missing_review(ids_of(record), _quarantined(record)))
        elif outcome.kind == "packet" and outcome.prose is not None and not record.review_result_required:
            result = packets.prose_result(
                ids_of(record),
                outcome.prose,
                changed=files,
                transcript=[] if child is None else current_turn(child),
                strays=outside(files, record.write_policy.owned),
            )
            self._finish(change, record, result, child_status="idle" if result.status == "completed" else "error")
        else:
            self._fail(change, record, outcome.detail or (child.preview if child is not None else ""))

    def _promote(self, change: Change, record: DelegationRecord, files: list[str], trouble: str) -> None:
        submission = record.submitted_review_result
        assert submission
        result = packets.with_changed(submission, files)
        self._finish(change, with_review(record, trouble), result)

    def _fail(
        self,
        change: Change,
        record: DelegationRecord,
        detail: str,
        *,
        card: bool = True,
        look: bool = True,
    ) -> None:
        """A held review is the result all the same, and the record says what happened after it."""
        held = record.submitted_review_result
        if held:
            after = with_review(record, packets.ended_after(detail))
            self._finish(change, after, packets.with_changed(held, []), card=card, look=look)
            return
        result = packets.ended_result(
            ids_of(record),
            "failed",
            detail,
            review=record.review_result_required,
            quarantined=_quarantined(record),
        )
        self._finish(change, record, result, child_status="error", card=card, look=look)

    def _finish(
        self,
        change: Change,
        record: DelegationRecord,
        result: DelegationResult,
        *,
        child_status: SessionStatus = "idle",
        pending: str = "",
        card: bool = True,
        look: bool = True,
    ) -> None:
        """``look``: at the waits, now."""
        self._ends.finish(change, record, result, child_status=child_status, pending=pending, card=card)
        if look:
            self._waits.evaluate(change)

    def _restore(self, change: Change, record: DelegationRecord, before: DelegationRecord) -> None:
        """A follow-up that could not be started: the end from before it holds."""
        back = restored(record, before)
        self._ends.over(change, back)
        tell_update(change, back)
        self._cards.refresh(change, back)


def ids_of(record: DelegationRecord) -> packets.Ids:
    return packets.Ids(record.id, record.child_session_id)


def _quarantined(record: DelegationRecord) -> str | None:
    error = record.review_result_recovery_error
    return error if isinstance(error, str) else None


def _errored(child: SessionRecord | None) -> bool:
    return child is not None and child.status == "error"


def _trouble(child: SessionRecord | None, outcome: Outcome) -> str:
    """What happened to the child after its review was accepted, empty for nothing."""
    if child is None:
        return packets.MISSING_AFTER
    if child.status == "error" or outcome.kind == "error":
        return packets.failed_after(outcome.detail or child.preview)
    return packets.IDLE_AFTER if outcome.kind == "nothing" else ""
