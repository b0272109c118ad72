"""What a parent does to a delegation that exists: cancel it, or give its child another turn."""

from collections.abc import Callable

from termal.bus.server import Handler, Request
from termal.model.delegation import DelegationRecord
from termal.model.message import ParallelAgents
from termal.model.session import PendingPrompt
from termal.model.stored import PROMPT_KEYS, PromptKey, QueueEntry
from termal.rules.delegation_prompt import followup_prompt
from termal.rules.delegation_request import checked_followup
from termal.rules.delegation_summary import pending_detail
from termal.rules.verdicts import Refused, Stale
from termal.store.reader import Reader
from termal.wire.delegation_operations import FollowUp, OneDelegation
from termal.wire.errors import Conflict, NotFound, TermalError
from termal.wire.session_operations import OneSession
from termal.wire.verdict_errors import error_of
from workers.state.change import Book
from workers.state.clock import now_text, sooner
from workers.state.delegation_access import delegation_of, response_of
from workers.state.delegation_audit import Audit
from workers.state.delegation_cards import Cards, pending_of
from workers.state.delegation_ends import tell_update
from workers.state.delegation_steps import rearmed
from workers.state.delegations import Delegations
from workers.state.endings import Endings
from workers.state.rows import remembered
from workers.state.session_record import SessionRecord
from workers.state.turns import Turns

REPLY_S = 0.3
_OVER = ("notRunning", "alreadyStopping")


class Control:
    def __init__(
        self,
        book: Book,
        delegations: Delegations,
        *,
        turns: Turns,
        endings: Endings,
        cards: Cards,
        audit: Audit,
        reader: Reader,
    ) -> None:
        self._book = book
        self._turns = turns
        self._endings = endings
        self._delegations = delegations
        self._cards = cards
        self._audit = audit
        self._reader = reader

    def table(self) -> dict[str, Handler]:
        return {"delegation.cancel": self.cancel, "delegation.followup": self.follow_up}

    # ----------------------------------------------------------------------- cancel

    def cancel(self, request: Request, body: OneDelegation) -> None:
        """The handler of ``delegation.cancel``: answered with the newest record, whatever it says."""
        record = delegation_of(self._book, body.parent_session_id, body.delegation_id)
        self._delegations.fresh(record, request, lambda fresh: self._cancel(request, body, fresh))

    def _cancel(self, request: Request, body: OneDelegation, record: DelegationRecord) -> None:
        child = self._book.registry.sessions.get(record.child_session_id)
        if not record.active:
            self._audit.add("cancel", record.parent_session_id, record, actor=body.actor, outcome="noop")
            self._answer(request, record.id)
            return
        pending = None if child is None else pending_of(child)
        reason = "" if pending is None else pending_detail(pending)
        if child is None or not child.busy or child.turn is None:
            self._mark(request, body, record.id, reason)
            return

        def stopped(error: TermalError | None) -> None:
            self._delegations.stopping.pop(child.id, None)
            known = isinstance(error, Conflict) and error.reason in _OVER
            if error is None or known or isinstance(error, NotFound):
                self._mark(request, body, record.id, reason)
            else:
                self._audit.add(
                    "cancel", record.parent_session_id, record, actor=body.actor, outcome="rejected", detail=error.code
                )
                request.refuse(error)

        self._delegations.stopping[child.id] = reason
        deadline_s = sooner(request.deadline_s, REPLY_S)
        stopper = _Stopper(deadline_s, request.trace, stopped)
        try:
            self._endings.stop(stopper, OneSession(child.id))
        except TermalError as error:
            stopped(error)

    def _mark(self, request: Request, body: OneDelegation, delegation_id: str, reason: str) -> None:
        """The child does not run any more, or somebody is stopping it: what is still active is canceled now."""
        record = self._book.registry.delegations.get(delegation_id)
        assert record is not None
        if record.active:
            change = self._book.change()
            self._delegations.cancel(change, record, reason)
            change.commit()
        self._audit.add("cancel", record.parent_session_id, self._newest(delegation_id), actor=body.actor)
        self._answer(request, delegation_id)

    # -------------------------------------------------------------------- follow-up

    def follow_up(self, request: Request, body: FollowUp) -> None:
        """The handler of ``delegation.followup``: answered once the new turn is taken."""
        message = checked_followup(body.message)
        record = delegation_of(self._book, body.parent_session_id, body.delegation_id)
        self._delegations.fresh(record, request, lambda fresh: self._follow(request, body, fresh, message))

    def _follow(
        self, request: Request, body: FollowUp, record: DelegationRecord, message: str, *, looked: bool = False
    ) -> None:
        """``looked``: for the card of ``record`` in the store."""
        child = self._book.registry.sessions.get(record.child_session_id)
        key = f"followup\n{body.key}"
        known = None if child is None else remembered(child.prompt_keys, key)
        if child is not None and known is not None:
            self._repeat(request, record.id, child, known)
            return
        try:
            child = _ready(record, child)
            problem = self._turns.problem(child)
            if problem is not None:
                raise problem
        except (Refused, TermalError) as refused:
            self._audit.add(
                "followup",
                record.parent_session_id,
                record,
                actor=body.actor,
                outcome="rejected",
                detail=refused.reason or "",
            )
            request.refuse(error_of(refused))
            return
        if looked or self._cards.found(record):
            self._rearm(request, body, record, child, message)
        else:
            self._find_card(request, body, record, message)

    def _rearm(
        self, request: Request, body: FollowUp, before: DelegationRecord, child: SessionRecord, message: str
    ) -> None:
        """At work again, in one commit with the prompt that it works on."""
        record = rearmed(before, now_text())
        change = self._book.change()
        change.delegation(record)
        tell_update(change, record)
        self._cards.refresh(change, record)
        change.commit()
        text = followup_prompt(record, message)
        prompt = PendingPrompt(id=self._book.registry.new_message_id(), timestamp=now_text(), text=text)
        key = PromptKey(key=f"followup\n{body.key}", prompt_id=prompt.id, queued=False)
        child.prompt_keys = [*child.prompt_keys, key][-PROMPT_KEYS:]
        entry = QueueEntry("user", prompt)
        self._delegations.rearmed[child.id] = before
        change = self._book.change()
        turn = self._turns.dispatch(change, child, entry)
        change.commit(after=lambda: self._turns.start(child, turn, entry, request.deadline_s))

        def taken(error: TermalError | None) -> None:
            self._delegations.rearmed.pop(child.id, None)
            outcome = "ok" if error is None else "rejected"
            self._audit.add(
                "followup",
                record.parent_session_id,
                self._newest(record.id),
                actor=body.actor,
                outcome=outcome,  # type: ignore[arg-type]  # one of the two
                detail="" if error is None else error.code,
            )
            if error is not None:
                # It made nothing: the same key may be used once more.
                child.prompt_keys = [known for known in child.prompt_keys if known.prompt_id != prompt.id]
                request.refuse(error)
            else:
                self._answer(request, record.id)

        turn.on_taken.append(taken)

    def _repeat(self, request: Request, delegation_id: str, child: SessionRecord, known: PromptKey) -> None:
        turn = child.turn
        if turn is not None and turn.prompt_id == known.prompt_id and turn.phase in ("starting", "held"):
            turn.on_taken.append(
                lambda error: self._answer(request, delegation_id) if error is None else request.refuse(error)
            )
        else:
            self._answer(request, delegation_id)

    def _find_card(self, request: Request, body: FollowUp, record: DelegationRecord, message: str) -> None:
        """The card is further up in the transcript than what is in memory. Everything is checked once more then."""
        seen = self._cards.rewritten

        def done(found: tuple[int, ParallelAgents] | None, error: Exception | None) -> None:
            if found is not None:
                self._cards.remember(record, *found, seen=seen)
            newest = self._newest(record.id)
            assert newest is not None
            self._follow(request, body, newest, message, looked=True)

        self._reader.submit(
            lambda connection: self._cards.stored(connection, record), done, deadline_s=request.deadline_s
        )

    # ---------------------------------------------------------------------- answers

    def _newest(self, delegation_id: str) -> DelegationRecord | None:
        return self._book.registry.delegations.get(delegation_id)

    def _answer(self, request: Request, delegation_id: str) -> None:
        record = self._newest(delegation_id)
        assert record is not None
        reply = response_of(self._book, record)
        self._book.journal.stored(lambda: request.reply(reply))


def _ready(record: DelegationRecord, child: SessionRecord | None) -> SessionRecord:
    """The child of a delegation that may go on. Raises `Stale`."""
    if record.active:
        raise Stale("the delegation is still running", reason="stillRunning")
    if record.status == "canceled":
        raise Stale("the delegation was canceled; start a new one", reason="delegationCanceled")
    if child is None:
        raise Stale("the child session was removed", reason="childRemoved")
    if child.busy or (child.turn is not None and child.turn.phase != "ended"):
        raise Stale("somebody goes on with the child session at the moment", reason="stillRunning")
    return child


class _Stopper:
    """Stands in for the request of a stop."""

    def __init__(self, deadline_s: float | None, trace: str, then: Callable[[TermalError | None], None]) -> None:
        self.deadline_s = deadline_s
        self.trace = trace
        self._then: Callable[[TermalError | None], None] | None = then

    def reply(self, value: object) -> None:
        self._once(None)

    def refuse(self, error: TermalError) -> None:
        self._once(error)

    def _once(self, error: TermalError | None) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(error)
