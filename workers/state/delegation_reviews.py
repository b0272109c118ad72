"""Structured reviews of delegated children: checked here, appended by coordination, held by the record until its child
is done; found again there when a crash, or an answer that was lost, came in between.
"""

from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from termal.bus.server import Handler, Request
from termal.faults import fault
from termal.log import Log
from termal.model.delegation import REVIEW_SCHEMA_VERSION, DelegationRecord, DelegationResult
from termal.model.mail import CONTROL_TOPIC
from termal.model.message import Record
from termal.rules.delegation_packet import set_aside, with_note
from termal.rules.delegation_review import (
    decode_payload,
    envelope_body,
    read_envelope,
    result_of,
    stamp,
)
from termal.rules.verdicts import Bad, Missing, Refused, Stale
from termal.wire.codec import encode_json
from termal.wire.delegation_operations import SubmitReview
from termal.wire.errors import TermalError
from termal.wire.review_operations import (
    REVIEW_APPEND,
    REVIEW_FIND,
    AppendReview,
    FindReview,
    FoundReview,
    ReviewReceipt,
)
from termal.wire.turns import JsonReply
from termal.wire.verdict_errors import error_of
from workers.state.change import Book
from workers.state.clock import sooner
from workers.state.delegation_audit import Audit
from workers.state.delegation_ends import tell_update
from workers.state.delegation_steps import reopened
from workers.state.links import Links
from workers.state.session_record import SessionRecord

REPLY_S = 0.3
"""Kept of a request's deadline for the answer that coordination gave none."""
Probed = Callable[[TermalError | None], None]


class Receipt(Record, frozen=True):
    """The answer of a submission."""

    mailbox_id: str
    message_id: str
    sequence: int
    unread_depth: int
    notification_disposition: str
    duplicate: bool


class Reviews:
    """``on_held`` learns of a record that got its review while its child was done already."""

    def __init__(self, book: Book, links: Links, audit: Audit, log: Log) -> None:
        self.on_held: Callable[[DelegationRecord], None] | None = None
        self._book = book
        self._links = links
        self._audit = audit
        self._log = log
        self._probed: dict[str, int] = {}
        self._probing: dict[str, list[Probed]] = {}

    def table(self) -> dict[str, Handler]:
        return {"review.submit": self.submit}

    # ----------------------------------------------------------------------- submit

    def submit(self, request: Request, body: SubmitReview) -> None:
        """The handler of ``review.submit``: answered once the review is stored there and held here."""
        payload = decode_payload(body.body)
        try:
            record, parent, child = self._may_submit(body.child_session_id.strip())
        except Refused as refused:
            self._refused(body, refused.reason or "")
            raise
        attempt = record.review_result_submission_attempt
        text = envelope_body(payload, delegation_id=record.id, child_session_id=child.id, attempt=attempt)
        append = AppendReview(
            delegation_id=record.id,
            attempt=attempt,
            child_session_id=child.id,
            child_name=child.session.name,
            parent_session_id=parent.id,
            parent_name=parent.session.name,
            body=text,
        )

        def done(receipt: ReviewReceipt | None, error: TermalError | None) -> None:
            if receipt is None:
                assert error is not None
                self._refused(body, error.reason or error.code)
                request.refuse(error)
            else:
                fault("state.review_appended")
                self._appended(request, body, append, receipt)

        deadline_s = sooner(request.deadline_s, REPLY_S)
        client = self._links.to("coordination")
        client.call(REVIEW_APPEND, append, done, trace=request.trace, deadline_s=deadline_s)

    def _may_submit(self, child_id: str) -> tuple[DelegationRecord, SessionRecord, SessionRecord]:
        """Delegation, parent, child. Raises the first rule that is broken."""
        registry = self._book.registry
        record = registry.delegations.of_child(child_id)
        if record is None:
            raise Bad("no delegation has this session as its child", reason="reviewNotLinked")
        if record.mode != "reviewer" or not record.review_result_required:
            raise Bad("this delegation asks for no structured review", reason="reviewNotRequired")
        replay = record.review_result_schema_version == REVIEW_SCHEMA_VERSION
        if record.status != "running" and not (record.status in ("completed", "failed") and replay):
            raise Stale(f"the delegation is {record.status}; it takes no review", reason="reviewNotAccepting")
        child = registry.sessions.get(child_id)
        parent = registry.sessions.get(record.parent_session_id)
        if child is None or parent is None:
            raise Missing("there is no such session", reason="sessionNotFound")
        if child.remote or child.session.parent_delegation_id != record.id:
            raise Bad("this session is not the child of its delegation", reason="reviewSenderInvalid")
        if parent.remote or parent.stored.remote_id is not UNSET or registry.is_child(parent):
            raise Bad("the parent is not a session that reviews can be sent to", reason="reviewTargetNotRoot")
        return record, parent, child

    def _appended(
        self,
        request: Request,
        body: SubmitReview,
        append: AppendReview,
        receipt: ReviewReceipt,
    ) -> None:
        """The envelope is stored: hold it, in a commit of its own."""
        envelope = read_envelope(
            append.body,
            delegation_id=append.delegation_id,
            child_session_id=append.child_session_id,
            attempt=append.attempt,
        )
        try:
            self._hold(append.delegation_id, append.attempt, result_of(envelope))
        except Refused as refused:
            self._refused(body, refused.reason or "")
            request.refuse(error_of(refused))
            return
        record = self._book.registry.delegations.get(append.delegation_id)
        self._audit.add(
            "reviewSubmit",
            append.parent_session_id,
            record,
            actor=body.actor,
            outcome="noop" if receipt.duplicate else "ok",
        )
        reply = Receipt(
            mailbox_id=receipt.mailbox_id,
            message_id=receipt.message_id,
            sequence=receipt.sequence,
            unread_depth=receipt.unread_depth,
            notification_disposition=receipt.notification_disposition,
            duplicate=receipt.duplicate,
        )
        self._book.journal.stored(lambda: request.reply(JsonReply(encode_json(reply))))

    def _hold(self, delegation_id: str, attempt: int, submission: DelegationResult) -> None:
        """Raises `Stale` when the attempt, or the delegation, went on meanwhile."""
        record = self._book.registry.delegations.get(delegation_id)
        if record is None or record.review_result_submission_attempt != attempt:
            raise Stale("the delegation is at another attempt by now", reason="reviewAttemptStale")
        if record.review_result_schema_version == REVIEW_SCHEMA_VERSION:
            # Promoted since: what is stored under this attempt is what was promoted.
            return
        held = record.submitted_review_result
        if held:
            if held != submission:
                raise Stale("another review is held for this attempt", reason="reviewConflict")
            return
        if record.status in ("canceled", "completed", "queued"):
            raise Stale(f"the delegation is {record.status}; it takes no review", reason="reviewNotAccepting")
        self._probed.pop(delegation_id, None)
        held_record = reopened(record, submission)
        change = self._book.change()
        change.delegation(held_record)
        tell_update(change, held_record)
        change.commit()
        if self.on_held is not None:
            self.on_held(held_record)

    def _refused(self, body: SubmitReview, reason: str) -> None:
        record = self._book.registry.delegations.of_child(body.child_session_id.strip())
        if record is not None:
            self._audit.add(
                "reviewSubmit", record.parent_session_id, record, actor=body.actor, outcome="rejected", detail=reason
            )

    # --------------------------------------------------------------------- recovery

    def is_unknown(self, record: DelegationRecord) -> bool:
        """Coordination may hold a review of this attempt that the record knows nothing of."""
        return (
            record.review_result_required
            and not record.review_result_schema_version
            and not record.submitted_review_result
            and record.status in ("running", "failed")
            and self._probed.get(record.id) != record.review_result_submission_attempt
        )

    def probe(self, record: DelegationRecord, then: Probed, deadline_s: float | None = None) -> None:
        """Look the review of this attempt up, and hold what is found; ``then`` learns whether that could be done."""
        waiting = self._probing.get(record.id)
        if waiting is not None:
            waiting.append(then)
            return
        self._probing[record.id] = [then]
        attempt = record.review_result_submission_attempt

        def done(found: FoundReview | None, error: TermalError | None) -> None:
            if found is not None:
                error = self._found(record, attempt, found)
            else:
                self._log.repeating("review.probe_failed", delegationId=record.id, error=str(error))
            for callback in self._probing.pop(record.id, []):
                callback(error)

        ask = FindReview(record.id, attempt, record.child_session_id)
        self._links.to("coordination").call(REVIEW_FIND, ask, done, deadline_s=deadline_s)

    def _found(self, before: DelegationRecord, attempt: int, found: FoundReview) -> TermalError | None:
        record = self._book.registry.delegations.get(before.id)
        if record is None or record.review_result_submission_attempt != attempt:
            return None
        if not found.found:
            self._probed[record.id] = attempt
            return None
        try:
            if (found.target_session_id, found.topic, found.state_stamp) != (
                record.parent_session_id,
                CONTROL_TOPIC,
                stamp(record.id, attempt),
            ):
                raise Bad("its target, topic or stamp is another one")
            envelope = read_envelope(
                found.body, delegation_id=record.id, child_session_id=record.child_session_id, attempt=attempt
            )
        except Bad as bad:
            self._quarantine(record, attempt, bad.text)
            return None
        try:
            self._hold(record.id, attempt, result_of(envelope))
        except Stale as stale:
            # The attempt is over: what was found belongs to nobody.
            self._probed[record.id] = attempt
            self._log.info("review.obsolete", delegationId=record.id, reason=stale.reason)
        return None

    def _quarantine(self, record: DelegationRecord, attempt: int, reason: str) -> None:
        self._log.warning("review.quarantined", delegationId=record.id, error=reason)
        self._probed[record.id] = attempt
        marked = replace(record, review_result_recovery_error=reason)
        if marked.result and marked.status == "failed":
            marked = replace(marked, result=with_note(marked.result, set_aside(reason)))
        change = self._book.change()
        change.delegation(marked)
        tell_update(change, marked)
        change.commit()
