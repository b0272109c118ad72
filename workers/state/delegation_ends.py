"""The end of a delegation in one commit: its record, its child, the events, the card, the waits that watch it."""

from collections.abc import Callable

from msgspec import UNSET

from termal.bus.loop import Loop
from termal.model import delta
from termal.model.delegation import DelegationRecord, DelegationResult
from termal.model.session import SessionStatus
from termal.rules.delegation_paths import outside
from termal.rules.delegation_summary import public_summary, result_summary
from termal.rules.settings import runtime_of
from termal.wire.errors import TermalError
from termal.wire.runtime_operations import SESSIONS_CLOSE, CloseSessions
from workers.state.change import Book, Change
from workers.state.clock import now_text
from workers.state.delegation_audit import Audit
from workers.state.delegation_cards import Cards
from workers.state.delegation_steps import terminal
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord


class Ends:
    """``lifted`` runs once a lock is gone for good."""

    def __init__(
        self, book: Book, cards: Cards, audit: Audit, runtimes: Runtimes, *, loop: Loop, lifted: Callable[[], None]
    ) -> None:
        self._lifted = lifted
        self._book = book
        self._cards = cards
        self._audit = audit
        self._runtimes = runtimes
        self._loop = loop

    def finish(
        self,
        change: Change,
        record: DelegationRecord,
        result: DelegationResult,
        *,
        child_status: SessionStatus = "idle",
        pending: str = "",
        card: bool = True,
    ) -> None:
        """``record`` becomes terminal with ``result``. ``pending``: what a canceled child waited for. The caller looks
        at the waits, once for all that ends in ``change``."""
        child = self._book.registry.sessions.get(record.child_session_id)
        ended = terminal(record, result, now_text(), None if child is None else child.count)
        self.over(change, ended)
        if child is not None:
            self._settle(change, child, child_status, public_summary(result.summary))
        self._tell(change, ended, result, pending)
        if card:
            self._cards.refresh(change, ended)
        self._audit.add("terminal", ended.parent_session_id, ended)
        for path in outside(list(result.changed_files or []), ended.write_policy.owned):
            self._audit.add("ownedPathViolation", ended.parent_session_id, ended, detail=path)

    def over(self, change: Change, ended: DelegationRecord) -> None:
        """``ended`` is over, whatever it was before: what it locked is free after the commit."""
        change.delegation(ended)
        if ended.write_policy.kind == "readOnly":
            self._book.journal.after(self._lifted)

    def _settle(self, change: Change, child: SessionRecord, status: SessionStatus, preview: str) -> None:
        """Nothing of the child goes on by itself. A turn that somebody is stopping ends on its own."""
        child.queue = []
        child.peer_messages = {}
        if child.turn is None or not child.busy:
            change.close(child, "cut")
            child.status = status
            child.live = None
            self._detach(child)
        child.preview = preview
        change.summary(child)

    def _detach(self, child: SessionRecord) -> None:
        """After the commit: its agent's processes end, and with them what its turn left running."""
        worker, ids = runtime_of(child.agent), CloseSessions([child.id])

        def close() -> None:
            client = self._runtimes.client(worker)
            if client.up and not child.busy and not child.removed:
                client.call(SESSIONS_CLOSE, ids, _ignore)

        def later() -> None:
            # In the next pass: the end of the turn is confirmed to its worker first.
            self._loop.later(0.0, close)

        self._book.journal.after(later)

    @staticmethod
    def _tell(change: Change, record: DelegationRecord, result: DelegationResult, pending: str) -> None:
        at = record.completed_at or ""
        summary = result_summary(result)
        if record.status == "completed":
            change.tell(
                lambda revision: delta.DelegationCompleted(
                    revision=revision, delegation_id=record.id, result=summary, completed_at=at
                )
            )
        elif record.status == "canceled":
            reason = summary.summary if pending else UNSET
            change.tell(
                lambda revision: delta.DelegationCanceled(
                    revision=revision, delegation_id=record.id, canceled_at=at, reason=reason
                )
            )
        else:
            tell_update(change, record)
            change.tell(
                lambda revision: delta.DelegationFailed(
                    revision=revision, delegation_id=record.id, result=summary, failed_at=at
                )
            )


def tell_update(change: Change, record: DelegationRecord) -> None:
    at = now_text()
    change.tell(
        lambda revision: delta.DelegationUpdated(
            revision=revision, delegation_id=record.id, status=record.status, updated_at=at
        )
    )


def _ignore(_: object, error: TermalError | None) -> None:
    """The agent is gone, or its worker with it."""
