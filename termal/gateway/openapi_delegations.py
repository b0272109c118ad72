"""Rows of the interface description for delegations: spawn, follow, cancel, wait, reviews, who did what."""

from typing import Any

from termal.gateway.delegation_waits import AUDIT_EVENTS, MOST_AUDIT_EVENTS, TimeoutBody, WaitBody
from termal.gateway.delegations import DelegationBody, FollowUpBody
from termal.gateway.openapi_doc import SESSION, Doc, number
from termal.model.delegation import (
    AuditResponse,
    DelegationCapacity,
    DelegationOutputPage,
    DelegationResponse,
    DelegationResultResponse,
    DelegationsResponse,
    DelegationWaitResponse,
    DelegationWaitsResponse,
    SpawnDelegationResponse,
)
from termal.model.mail import Receipt
from termal.model.message import Record
from termal.rules.delegation_output import DEFAULT_BYTES, LEAST_BYTES, MOST_BYTES
from termal.rules.delegation_review import ReviewPayload

_ONE = f"{SESSION}/delegations/{{delegation_id}}"


class ReviewReceiptReply(Receipt, frozen=True):
    """The receipt of a review that was handed in."""


class Noted(Record, frozen=True):
    """Nothing is said."""


_REVIEW: dict[str, Any] = {
    "schemaVersion": 1,
    "status": "completed",
    "summary": "Nothing to say against it.",
    "findings": [{"severity": "Low", "message": "A test is missing.", "file": "src/a.py", "line": 3}],
    "commandsRun": [{"command": "git diff", "status": "success"}],
    "filesInspected": ["src/a.py"],
    "notes": [],
    "suggestedTrackerUpdates": [],
}

DELEGATION_DOCS: dict[tuple[str, str], Doc] = {
    ("POST", f"{SESSION}/delegations"): Doc(
        operation="spawnDelegation",
        tag="delegations",
        summary="Delegate a bounded task to a new child session",
        description=(
            "Answered when the child's first turn is taken, or could not be started: the delegation is then `failed`. "
            "At most 4 are active for one parent, 3 generations deep."
        ),
        body=DelegationBody,
        reply=SpawnDelegationResponse,
        status=201,
        refusals=(409, 501),
        keyed=True,
        example={"prompt": "Look for races in the queue.", "mode": "explorer", "writePolicy": {"kind": "readOnly"}},
        gives={"delegation_id": "/delegation/id"},
    ),
    ("GET", f"{SESSION}/delegations"): Doc(
        operation="listDelegations",
        tag="delegations",
        summary="The delegations of a session, in the order of their creation",
        reply=DelegationsResponse,
    ),
    ("GET", f"{SESSION}/delegations/capacity"): Doc(
        operation="readDelegationCapacity",
        tag="delegations",
        summary="How many more delegations a session may have now",
        reply=DelegationCapacity,
    ),
    ("GET", _ONE): Doc(
        operation="readDelegation", tag="delegations", summary="One delegation", reply=DelegationResponse
    ),
    ("GET", f"{_ONE}/result"): Doc(
        operation="readDelegationResult",
        tag="delegations",
        summary="The result of a delegation that is over",
        reply=DelegationResultResponse,
        refusals=(409,),
    ),
    ("GET", f"{_ONE}/result/output"): Doc(
        operation="readDelegationOutput",
        tag="delegations",
        summary="The child's own final text, by pages of bytes",
        description="A page ends at a character, so it may be up to 3 bytes short. Go on with `nextOffsetBytes`.",
        query=(
            number("offsetBytes", "Where the page begins", 0, default=0),
            number("limitBytes", "How many bytes at most", LEAST_BYTES, MOST_BYTES, default=DEFAULT_BYTES),
        ),
        reply=DelegationOutputPage,
        refusals=(409,),
    ),
    ("POST", f"{_ONE}/cancel"): Doc(
        operation="cancelDelegation",
        tag="delegations",
        summary="Stop the child and give the delegation up",
        description="Answered with the newest record. One that is over stays as it is.",
        reply=DelegationResponse,
        refusals=(409,),
    ),
    ("POST", f"{_ONE}/followup"): Doc(
        operation="followUpDelegation",
        tag="delegations",
        summary="Give the child of a delegation that is over another turn",
        body=FollowUpBody,
        reply=DelegationResponse,
        refusals=(409, 501),
        keyed=True,
        example={"message": "Look at the tests too."},
    ),
    ("POST", f"{SESSION}/delegation-waits"): Doc(
        operation="createDelegationWait",
        tag="delegations",
        summary="Have the session resumed when delegations are over",
        description=(
            "`all` of them, `any` of them, or `count` of them; after `deadlineMs` with what is there then. "
            "The session is resumed by a prompt behind its current turn, so end the turn after this."
        ),
        body=WaitBody,
        reply=DelegationWaitResponse,
        status=201,
        refusals=(409,),
        keyed=True,
        example={"delegationIds": ["delegation-1"], "mode": "all"},
    ),
    ("GET", f"{SESSION}/delegation-waits"): Doc(
        operation="listDelegationWaits",
        tag="delegations",
        summary="What the session waits for",
        reply=DelegationWaitsResponse,
    ),
    ("POST", f"{SESSION}/delegation-review-result"): Doc(
        operation="submitReview",
        tag="delegations",
        summary="Hand in the structured result of a review, as its child session",
        description="The same again is answered with the first receipt, another one for the same attempt with 409.",
        body=ReviewPayload,
        reply=ReviewReceiptReply,
        status=202,
        refusals=(409,),
        example=_REVIEW,
    ),
    ("GET", f"{SESSION}/delegation-audit-events"): Doc(
        operation="readDelegationAudit",
        tag="delegations",
        summary="Who did what about the delegations of a session, oldest first",
        description="Also of a session that was removed.",
        query=(
            number("after", "The `nextAfter` of the page before", 0, default=0),
            number("limit", "How many events", 1, MOST_AUDIT_EVENTS, default=AUDIT_EVENTS),
        ),
        reply=AuditResponse,
    ),
    ("POST", f"{SESSION}/delegation-audit-events"): Doc(
        operation="recordDelegationTimeout",
        tag="delegations",
        summary="Record that a client gave up waiting",
        body=TimeoutBody,
        reply=Noted,
        status=202,
        example={"kind": "timeout", "delegationIds": ["delegation-1"], "timeoutMs": 300000},
    ),
}
