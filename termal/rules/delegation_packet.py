"""Result packets: from prose, from a failure, from a review that never came; everything within its bounds."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.delegation import (
    DelegationCommandResult,
    DelegationFinding,
    DelegationResult,
    Status,
)
from termal.model.message import Command, Message
from termal.rules.delegation_result import Prose
from termal.rules.delegation_summary import UNAVAILABLE

SUMMARY_CHARS = 8000
ITEMS = 200
TEXT_CHARS = 16384

NO_REASON = "Failed without a stated reason."
CANCELED = "Canceled on request."
START_FAILED = "The child session could not be started."
NO_RESULT = "The child finished without a usable result."
CHILD_GONE = "The child session no longer exists."
CHILD_REMOVED = "The child session was removed."
PARENT_REMOVED = "The parent session was removed."
REVIEW_MISSING = "The review ended without its structured result and was not counted as clean."
_NOTHING_SUBMITTED = "Nothing can be said about findings: no structured result was submitted."
_NOTHING_CANCELED = "Nothing can be said about findings: the review was canceled."
_OWN_TEXT = "The reviewer's own text is readable through result/output."
_SET_ASIDE = "A stored review envelope was set aside: "
_OUTSIDE = "Changed outside owned paths: "
IDLE_AFTER = "idle without a closing message after acceptance"
MISSING_AFTER = "child session missing after acceptance"


class Ids(NamedTuple):
    delegation_id: str
    child_session_id: str


def exited(agent: str) -> str:
    """The detail of a turn whose runtime went away."""
    return f"{agent} exited before its turn ended."


def failed_after(detail: str) -> str:
    """The transport error of an accepted review whose child failed later."""
    return f"runtime failed after acceptance: {detail}"


def ended_after(detail: str) -> str:
    """The transport error of an accepted review whose child never started, or was removed."""
    return f"lifecycle ended after acceptance: {detail}"


def canceled_summary(pending: str | None = None) -> str:
    """``pending``: what the child waited for."""
    return f"Canceled while waiting: {pending}" if pending else CANCELED


def set_aside(reason: str) -> str:
    """The note about an envelope that nobody can use."""
    return _SET_ASIDE + reason


def prose_result(
    ids: Ids,
    prose: Prose,
    *,
    changed: Iterable[str] = (),
    transcript: Iterable[Message] = (),
    strays: Sequence[str] = (),
) -> DelegationResult:
    """``transcript``: the messages of the child's turn; ``strays``: changed files outside the owned paths."""
    notes = [*prose.notes, *(_OUTSIDE + path for path in strays)]
    return DelegationResult(
        delegation_id=ids.delegation_id,
        child_session_id=ids.child_session_id,
        status=prose.status,
        summary=short_summary(prose.summary),
        findings=[_bounded(finding) for finding in prose.findings] or UNSET,
        changed_files=[_cut(path) for path in sorted(set(changed))[:ITEMS]] or UNSET,
        commands_run=commands_run(transcript) or UNSET,
        notes=[_cut(note) for note in notes[:ITEMS]] or UNSET,
    )


def commands_run(transcript: Iterable[Message]) -> list[DelegationCommandResult]:
    """The newest `ITEMS` commands of a transcript in their order."""
    commands = [message for message in transcript if isinstance(message, Command)]
    return [DelegationCommandResult(command=_cut(one.command), status=one.status) for one in commands[-ITEMS:]]


def ended_result(
    ids: Ids, status: Status, detail: str, *, review: bool = False, quarantined: str | None = None
) -> DelegationResult:
    """A failure or a cancellation. ``review``: a structured result was required, so the list must not read as clean."""
    text = _NOTHING_CANCELED if status == "canceled" else _NOTHING_SUBMITTED
    return DelegationResult(
        delegation_id=ids.delegation_id,
        child_session_id=ids.child_session_id,
        status=status,
        summary=short_summary(detail) or (CANCELED if status == "canceled" else NO_REASON),
        findings=[DelegationFinding(severity=UNAVAILABLE, message=text)] if review else UNSET,
        notes=[set_aside(quarantined)] if quarantined else UNSET,
    )


def missing_review(ids: Ids, quarantined: str | None = None) -> DelegationResult:
    """A required review whose child finished without handing in a result; its prose is not read."""
    result = ended_result(ids, "failed", REVIEW_MISSING, review=True)
    notes = [_OWN_TEXT] + ([set_aside(quarantined)] if quarantined else [])
    return replace(result, notes=notes)


def with_note(result: DelegationResult, note: str) -> DelegationResult:
    """``result`` with one more note, unless it is there."""
    notes = result.notes if isinstance(result.notes, list) else []
    return result if note in notes else replace(result, notes=[*notes, note][:ITEMS])


def with_changed(result: DelegationResult, changed: Iterable[str]) -> DelegationResult:
    """An accepted review with what the host saw change; every other field stays as it was handed in."""
    return replace(result, changed_files=[_cut(path) for path in sorted(set(changed))[:ITEMS]] or UNSET)


def short_summary(text: str) -> str:
    text = text.strip()
    return text if len(text) <= SUMMARY_CHARS else text[:SUMMARY_CHARS] + "..."


def _bounded(finding: DelegationFinding) -> DelegationFinding:
    file = _cut(finding.file) if isinstance(finding.file, str) else UNSET
    return replace(finding, message=_cut(finding.message), file=file)


def _cut(text: str) -> str:
    return text[:TEXT_CHARS]
