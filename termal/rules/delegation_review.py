"""A reviewer's structured result: its payload, the envelope that is kept of it, and what the record shows of that.

What has not the form of a payload is `Malformed`; a well-formed one that breaks a limit or a rule is `Bad`.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from termal.model.delegation import (
    REVIEW_SCHEMA_VERSION,
    DelegationCommandResult,
    DelegationFinding,
    DelegationResult,
    Status,
)
from termal.model.message import Record
from termal.rules.delegation_findings import FINDINGS
from termal.rules.delegation_packet import ITEMS, TEXT_CHARS
from termal.rules.delegation_result import INSPECTED
from termal.rules.verdicts import Bad, Malformed

KIND = "delegationReviewResult"
ENVELOPE_BYTES = 262144
LAST_LINE = 2**31 - 1
"""JSON knows numbers that neither the bus nor a client does."""
SEVERITIES = ("Critical", "High", "Medium", "Low", "Note")
SUGGESTED = "Suggested tracker update: "


class ReviewFinding(Record, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    severity: str
    message: str
    file: str | None = None
    line: int | None = None


class ReviewCommand(Record, frozen=True, forbid_unknown_fields=True):
    command: str
    status: Literal["success", "error"]


class ReviewPayload(Record, frozen=True, forbid_unknown_fields=True):
    """What the child hands in. Every key is required."""

    schema_version: int
    status: Status
    summary: str
    findings: list[ReviewFinding]
    commands_run: list[ReviewCommand]
    files_inspected: list[str]
    notes: list[str]
    suggested_tracker_updates: list[str]


class ReviewEnvelope(Record, frozen=True, forbid_unknown_fields=True):
    """What is kept: the payload with what it belongs to. ``submission_attempt`` counts from 1."""

    schema_version: int
    kind: str
    delegation_id: str
    child_session_id: str
    submission_attempt: int
    status: Literal["completed", "failed"]
    summary: str
    findings: list[ReviewFinding]
    commands_run: list[ReviewCommand]
    files_inspected: list[str]
    notes: list[str]
    suggested_tracker_updates: list[str]


_payloads = msgspec.json.Decoder(ReviewPayload)
_envelopes = msgspec.json.Decoder(ReviewEnvelope)


def decode_payload(body: bytes) -> ReviewPayload:
    """The payload in ``body``, checked. Raises `Malformed`, `Bad`."""
    try:
        payload = _payloads.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Malformed(f"the review does not have the expected form: {error}", reason="invalidJson") from error
    for wrong in _faults(payload):
        raise Bad(wrong, reason="reviewInvalid")
    return payload


def stamp(delegation_id: str, attempt: int) -> str:
    """``stateStamp`` of the kept envelope."""
    return f"{delegation_id}:{attempt}"


def idempotency_key(delegation_id: str, attempt: int) -> str:
    return f"delegation-review-result-v1-{delegation_id}-{attempt}"


def envelope_body(payload: ReviewPayload, *, delegation_id: str, child_session_id: str, attempt: int) -> str:
    """The JSON to keep: the same payload gives the same text. Raises `Bad` for one that is too large."""
    fields = {name: getattr(payload, name) for name in ReviewPayload.__struct_fields__}
    envelope = ReviewEnvelope(
        **{**fields, "summary": payload.summary.strip()},
        kind=KIND,
        delegation_id=delegation_id,
        child_session_id=child_session_id,
        submission_attempt=attempt,
    )
    body = msgspec.json.encode(envelope)
    if len(body) > ENVELOPE_BYTES:
        raise Bad(
            f"the whole review must be no larger than {ENVELOPE_BYTES} bytes, it has {len(body)}",
            reason="reviewTooLarge",
        )
    return body.decode()


def read_envelope(body: str, *, delegation_id: str, child_session_id: str, attempt: int) -> ReviewEnvelope:
    """The kept envelope of that very submission. Raises `Bad` with the reason to set it aside."""
    try:
        envelope = _envelopes.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Bad(f"its body cannot be read: {error}") from error
    if (envelope.schema_version, envelope.kind) != (REVIEW_SCHEMA_VERSION, KIND):
        raise Bad("its version or its kind is another one")
    named = (envelope.delegation_id, envelope.child_session_id, envelope.submission_attempt)
    if named != (delegation_id, child_session_id, attempt):
        raise Bad("it belongs to another delegation, child or attempt")
    return envelope


def result_of(envelope: ReviewEnvelope) -> DelegationResult:
    """What the record shows of an envelope. Which files were changed is not for the child to say."""
    notes = [
        *envelope.notes,
        *(INSPECTED + path for path in envelope.files_inspected),
        *(SUGGESTED + text for text in envelope.suggested_tracker_updates),
    ]
    return DelegationResult(
        delegation_id=envelope.delegation_id,
        child_session_id=envelope.child_session_id,
        status=envelope.status,
        summary=envelope.summary,
        findings=[
            DelegationFinding(severity=one.severity, message=one.message, file=one.file, line=one.line)
            for one in envelope.findings
        ],
        commands_run=[DelegationCommandResult(command=one.command, status=one.status) for one in envelope.commands_run],
        notes=notes,
    )


def _faults(payload: ReviewPayload) -> Iterator[str]:
    """What breaks a rule, the first one first."""
    if payload.schema_version != REVIEW_SCHEMA_VERSION:
        yield f"schemaVersion must be {REVIEW_SCHEMA_VERSION}"
    if payload.status not in ("completed", "failed"):
        yield "status must be completed or failed"
    yield from _texts("summary", [payload.summary])
    if len(payload.findings) > FINDINGS:
        yield f"findings must have at most {FINDINGS} entries"
    for finding in payload.findings:
        yield from _finding(finding)
    yield from _list("commandsRun", [one.command for one in payload.commands_run])
    yield from _list("filesInspected", payload.files_inspected)
    yield from _list("notes", payload.notes)
    yield from _list("suggestedTrackerUpdates", payload.suggested_tracker_updates)


def _finding(finding: ReviewFinding) -> Iterator[str]:
    if finding.severity not in SEVERITIES:
        yield f"the severity of a finding must be one of {', '.join(SEVERITIES)}"
    yield from _texts("the message of a finding", [finding.message])
    if finding.file is not None:
        yield from _texts("the file of a finding", [finding.file])
    if finding.line is not None and not 1 <= finding.line <= LAST_LINE:
        yield f"the line of a finding must be 1 to {LAST_LINE}"


def _list(name: str, texts: list[str]) -> Iterator[str]:
    if len(texts) > ITEMS:
        yield f"{name} must have at most {ITEMS} entries"
    yield from _texts(f"an entry of {name}", texts)


def _texts(name: str, texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if not text.strip():
            yield f"{name} must not be blank"
        if len(text) > TEXT_CHARS:
            yield f"{name} must have at most {TEXT_CHARS} characters"
