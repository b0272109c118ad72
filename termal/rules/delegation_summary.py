"""A delegation cut short for lists, events and the card in its parent's transcript."""

from msgspec import UNSET

from termal.model.delegation import (
    DelegationRecord,
    DelegationResult,
    DelegationResultSummary,
    DelegationSummary,
)
from termal.model.message import (
    Approval,
    CodexAppRequest,
    ElicitationRequest,
    ParallelAgent,
    Request,
    UserInputRequest,
)
from termal.rules.delegation_policy import LABELS

SUMMARY_CHARS = 1000
NOTHING_SAID = "Delegation state changed."
UNAVAILABLE = "Unavailable"
"""Severity of a finding that says that nothing can be said."""
_ROW = {"queued": "running", "running": "running", "completed": "completed", "failed": "error", "canceled": "error"}
_REQUESTS: dict[type[Request], str] = {
    Approval: "Waits for approval",
    UserInputRequest: "Waits for input",
    ElicitationRequest: "Waits for MCP input",
    CodexAppRequest: "Waits for a Codex response",
}


def public_summary(text: str) -> str:
    """Lines trimmed, blank ones dropped, at most `SUMMARY_CHARS` characters and ``...``; never empty."""
    lines = (line.strip() for line in text.splitlines())
    joined = "\n".join(line for line in lines if line)
    if len(joined) > SUMMARY_CHARS:
        return joined[:SUMMARY_CHARS] + "..."
    return joined or NOTHING_SAID


def result_summary(result: DelegationResult) -> DelegationResultSummary:
    findings = result.findings if isinstance(result.findings, list) else []
    return DelegationResultSummary(
        delegation_id=result.delegation_id,
        child_session_id=result.child_session_id,
        status=result.status,
        summary=public_summary(result.summary),
        finding_count=sum(finding.severity != UNAVAILABLE for finding in findings),
    )


def summary_of(record: DelegationRecord) -> DelegationSummary:
    """What broad lists show of a record."""
    shared = {name: getattr(record, name) for name in DelegationSummary.__struct_fields__ if name != "result"}
    result = record.result
    return DelegationSummary(**shared, result=result_summary(result) if isinstance(result, DelegationResult) else UNSET)


def card_row(record: DelegationRecord, pending: Request | None = None) -> ParallelAgent:
    """The row of the card; ``pending`` is what the child waits for a person for."""
    row = _ROW[record.status]
    status = "completed" if row == "completed" else "error" if row == "error" else "running"
    if isinstance(record.result, DelegationResult):
        detail = public_summary(record.result.summary)
    else:
        detail = pending_detail(pending) if pending is not None else running_detail(record)
    return ParallelAgent(id=record.id, source="delegation", status=status, title=record.title, detail=detail)  # type: ignore[arg-type]


def running_detail(record: DelegationRecord) -> str:
    """Policy, directory, agent and model of a child that works."""
    parts = [LABELS[record.write_policy.kind], record.cwd, record.agent]
    if isinstance(record.model, str) and record.model:
        parts.append(record.model)
    return public_summary(" \u00b7 ".join(part for part in parts if part))


def pending_detail(pending: Request) -> str:
    """What kind of answer a child waits for, and what it asks."""
    asked = f"{_REQUESTS[type(pending)]}: {pending.title}"
    detail = pending.detail.strip() or (pending.command if isinstance(pending, Approval) else "")
    return public_summary(f"{asked}\n{detail}")
