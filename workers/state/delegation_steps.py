"""A record from one status to the next: the fields that each step sets and clears. Values in, record out."""

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.delegation import PARSER_VERSION, REVIEW_SCHEMA_VERSION, DelegationRecord, DelegationResult


def terminal(
    record: DelegationRecord, result: DelegationResult, now: str, message_count: int | None
) -> DelegationRecord:
    """``record`` with its end; the attempt and an unpromoted submission stay."""
    return replace(
        record,
        status=result.status,
        completed_at=now,
        result=result,
        result_parser_version=PARSER_VERSION,
        result_message_count=record.result_message_count if message_count is None else message_count,
    )


def with_review(record: DelegationRecord, transport_error: str) -> DelegationRecord:
    """The held review is no longer held but the result."""
    return replace(
        record,
        submitted_review_result=UNSET,
        review_result_schema_version=REVIEW_SCHEMA_VERSION,
        review_result_recovery_error=UNSET,
        post_submission_transport_error=transport_error or UNSET,
    )


def rearmed(record: DelegationRecord, now: str) -> DelegationRecord:
    """``record`` at work again: nothing of its last end is left."""
    attempt = record.review_result_submission_attempt
    return replace(
        record,
        status="running",
        started_at=now,
        completed_at=UNSET,
        result=UNSET,
        submitted_review_result=UNSET,
        post_submission_transport_error=UNSET,
        review_result_recovery_error=UNSET,
        review_result_schema_version=UNSET,
        review_result_submission_attempt=max(attempt + 1, 1) if record.review_result_required else attempt,
        result_parser_version=0,
        result_message_count=UNSET,
    )


def reopened(record: DelegationRecord, submission: DelegationResult) -> DelegationRecord:
    """A failed record whose review turned up after all: not failed any more, its end is derived anew."""
    if record.active:
        return replace(record, submitted_review_result=submission, review_result_recovery_error=UNSET)
    return replace(
        record,
        status="running",
        completed_at=UNSET,
        result=UNSET,
        submitted_review_result=submission,
        review_result_recovery_error=UNSET,
        result_parser_version=0,
    )


def restored(record: DelegationRecord, before: DelegationRecord) -> DelegationRecord:
    """The end from before a follow-up that could not be started; the attempt keeps its new value."""
    return replace(
        before,
        review_result_submission_attempt=record.review_result_submission_attempt,
        review_result_recovery_error=UNSET,
    )
