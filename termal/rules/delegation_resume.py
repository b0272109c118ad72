"""The prompt that resumes a parent when what it waited for is there: the state of all, the results of what ended."""

from collections.abc import Mapping

from termal.model.delegation import DelegationFinding, DelegationRecord, DelegationResult, DelegationWaitRecord
from termal.rules.delegation_output import DEFAULT_BYTES, boundary_before
from termal.rules.delegation_policy import described

PROMPT_BYTES = 65536
DEFAULT_HEADING = "Delegated work is ready"
CUT = "[cut by TermAl: page full outputs with termal_get_session_result, outputOffset and outputLimit]"
_END = f"\n\n{CUT}".encode()
_NONE = "- None"
_PAGING = (
    "Full output: call termal_get_session_result with delegationId {}, outputOffset 0 and outputLimit"
    f" {DEFAULT_BYTES}, then with nextOffsetBytes, until complete is true."
)


def resume_prompt(wait: DelegationWaitRecord, records: Mapping[str, DelegationRecord], *, partial: bool = False) -> str:
    """At most `PROMPT_BYTES`. ``partial``: the deadline came first. An id without a record is named as missing."""
    watched = [records.get(one) for one in wait.delegation_ids]
    ended = [record for record in watched if record is not None and not record.active]
    title = wait.title if isinstance(wait.title, str) and wait.title else DEFAULT_HEADING
    head = [title, "", f"Wait id: {wait.id}", f"Mode: {_mode(wait)}", f"Parent session: {wait.parent_session_id}"]
    if partial:
        head.append(f"Partial: the deadline passed; {len(ended)} of {len(watched)} delegations have ended.")
    lines = [_line(one, record, partial) for one, record in zip(wait.delegation_ids, watched, strict=True)]
    sections = "\n\n---\n\n".join(_section(record) for record in ended) or _NONE
    return bounded("\n".join([*head, "", "Delegations:", *lines, "", "Results:", "", sections]))


def bounded(text: str) -> str:
    """``text``, cut at a character with a marker behind it when it is too long."""
    data = text.encode("utf-8", "replace")
    if len(data) <= PROMPT_BYTES:
        return text
    return (data[: boundary_before(data, PROMPT_BYTES - len(_END))] + _END).decode()


def _mode(wait: DelegationWaitRecord) -> str:
    return f"count {wait.count} of {len(wait.delegation_ids)}" if wait.mode == "count" else wait.mode


def _line(one: str, record: DelegationRecord | None, partial: bool) -> str:
    if record is None:
        return f"- {one}: missing (its record no longer exists)"
    late = ", not ended by the deadline" if partial and record.active else ""
    return f"- {record.id}: {record.status}{late}, {record.title}"


def _section(record: DelegationRecord) -> str:
    result = record.result if isinstance(record.result, DelegationResult) else None
    lines = [
        f"{record.title} ({record.id})",
        f"Status: {record.status}",
        f"Write policy: {described(record.write_policy, record.policy_enforcement)}",
        f"Child session: {record.child_session_id}",
        _PAGING.format(record.id),
    ]
    if isinstance(record.post_submission_transport_error, str):
        lines.append(f"After the result was handed in: {record.post_submission_transport_error}")
    lines += ["", "Summary:", result.summary if result and result.summary else _NONE]
    lines += _list("Findings:", [_finding(one) for one in _of(result and result.findings)])
    lines += _list("Changed files:", _of(result and result.changed_files))
    lines += _list("Commands run:", [f"{one.command}: {one.status}" for one in _of(result and result.commands_run)])
    lines += _list("Notes:", _of(result and result.notes))
    return "\n".join(lines)


def _of(items: object) -> list:  # type: ignore[type-arg]
    return items if isinstance(items, list) else []


def _list(heading: str, items: list[str]) -> list[str]:
    return ["", heading, *([f"- {item}" for item in items] or [_NONE])]


def _finding(finding: DelegationFinding) -> str:
    place = finding.file if isinstance(finding.file, str) else ""
    if place and isinstance(finding.line, int):
        place += f":{finding.line}"
    return " - ".join(part for part in (f"[{finding.severity}] {place}".strip(), finding.message) if part)
