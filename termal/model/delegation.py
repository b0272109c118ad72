"""Delegated work: one bounded task of a parent session, done by a child session of its own, and the waits for it.

`DelegationRecord` is both the stored row and what clients read; keys without a value are left out, null is read the
same. Times are RFC 3339 UTC with milliseconds.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from termal.model.message import Record
from termal.model.session import Session

Mode = Literal["reviewer", "explorer", "worker"]
Status = Literal["queued", "running", "completed", "failed", "canceled"]
PolicyKind = Literal["readOnly", "sharedWorktree", "isolatedWorktree"]
Enforcement = Literal["guaranteed", "requested"]
WaitMode = Literal["any", "all", "count"]
ConsumedReason = Literal["completed", "parentSessionUnavailable", "parentSessionRemoved"]
AuditKind = Literal[
    "spawn", "cancel", "timeout", "resultRead", "followup", "reviewSubmit", "terminal", "ownedPathViolation"
]
Actor = Literal["mcp", "rest", "system"]
AuditOutcome = Literal["ok", "noop", "rejected"]

ACTIVE: tuple[Status, ...] = ("queued", "running")
PARSER_VERSION = 5
"""Of the prose parser that made a result; a stored older one is parsed once more."""
REVIEW_SCHEMA_VERSION = 1


class Lenient(Record, frozen=True):
    """A record whose optional keys may also be null: read as left out."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) is None:
                msgspec.structs.force_setattr(self, name, UNSET)


class WritePolicy(Lenient, frozen=True):
    """``owned_paths`` is there for every kind but ``readOnly``; ``worktree_path`` for ``isolatedWorktree`` alone."""

    kind: PolicyKind = "readOnly"
    owned_paths: list[str] | UnsetType | None = UNSET
    worktree_path: str | UnsetType | None = UNSET

    @property
    def owned(self) -> list[str]:
        return self.owned_paths if isinstance(self.owned_paths, list) else []

    @property
    def worktree(self) -> str:
        """Empty where there is none."""
        return self.worktree_path if isinstance(self.worktree_path, str) else ""


READ_ONLY = WritePolicy()


class DelegationFinding(Lenient, frozen=True):
    """``severity`` is free in old prose results; ``Unavailable`` says that nothing can be said."""

    severity: str
    message: str
    file: str | UnsetType | None = UNSET
    line: int | UnsetType | None = UNSET


class DelegationCommandResult(Record, frozen=True):
    """``status``: ``running``, ``success`` or ``error``."""

    command: str
    status: str


class DelegationResult(Lenient, frozen=True):
    delegation_id: str
    child_session_id: str
    status: Status
    summary: str
    findings: list[DelegationFinding] | UnsetType | None = UNSET
    changed_files: list[str] | UnsetType | None = UNSET
    commands_run: list[DelegationCommandResult] | UnsetType | None = UNSET
    notes: list[str] | UnsetType | None = UNSET


class DelegationResultSummary(Record, frozen=True):
    """``summary`` is the public one; ``finding_count`` does not count ``Unavailable``."""

    delegation_id: str
    child_session_id: str
    status: Status
    summary: str
    finding_count: int = 0


class DelegationBase(Lenient, frozen=True):
    """What the record and its summary have in common."""

    id: str
    parent_session_id: str
    child_session_id: str
    mode: Mode = "explorer"
    status: Status = "failed"
    title: str = ""
    agent: str = ""
    model: str | UnsetType | None = UNSET
    write_policy: WritePolicy = WritePolicy()
    policy_enforcement: Enforcement = "requested"
    created_at: str = ""
    started_at: str | UnsetType | None = UNSET
    completed_at: str | UnsetType | None = UNSET
    post_submission_transport_error: str | UnsetType | None = UNSET
    review_result_recovery_error: str | UnsetType | None = UNSET
    review_result_required: bool = False
    result_parser_version: int = 0

    @property
    def active(self) -> bool:
        return self.status in ACTIVE


class DelegationRecord(DelegationBase, frozen=True):
    """``result`` is there exactly when the status is terminal. ``result_message_count``: the length of the child's
    transcript when it became terminal. ``base_tree``: the git tree that an isolated child was handed."""

    prompt: str = ""
    cwd: str = ""
    source_root: str | UnsetType | None = UNSET
    base_tree: str | UnsetType | None = UNSET
    result: DelegationResult | UnsetType | None = UNSET
    submitted_review_result: DelegationResult | UnsetType | None = UNSET
    review_result_schema_version: int | UnsetType | None = UNSET
    review_result_submission_attempt: int = 0
    result_message_count: int | UnsetType | None = UNSET


class DelegationSummary(DelegationBase, frozen=True):
    """The record as lists, `/api/state` and events show it: no prompt, no directory, the result cut short."""

    result: DelegationResultSummary | UnsetType | None = UNSET


class DelegationWaitRecord(Lenient, frozen=True):
    """``count``: how many of ``delegation_ids`` must be terminal, for the mode ``count``. After ``deadline_at`` the
    parent is resumed with what is there."""

    id: str
    parent_session_id: str
    delegation_ids: list[str]
    created_at: str
    mode: WaitMode = "all"
    title: str | UnsetType | None = UNSET
    count: int | UnsetType | None = UNSET
    deadline_at: str | UnsetType | None = UNSET


class AuditRecord(Record, frozen=True):
    """``detail`` has at most 500 characters and never holds a prompt or an output."""

    id: str
    at: str
    kind: AuditKind
    parent_session_id: str
    actor: Actor
    outcome: AuditOutcome
    delegation_id: str | UnsetType = UNSET
    child_session_id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class Artifact(Record, frozen=True):
    """``id``: a session id for ``transcript``, a change set id for ``diff``, a path for ``worktree``."""

    kind: Literal["transcript", "diff", "worktree"]
    id: str


# ------------------------------------------------------------------ what routes answer


class SpawnDelegationResponse(Record, frozen=True):
    revision: int
    delegation: DelegationRecord
    child_session: Session
    server_instance_id: str


class DelegationsResponse(Record, frozen=True):
    """``delegations`` are final JSON of `DelegationSummary`, in the order of their creation."""

    revision: int
    delegations: list[Raw]
    server_instance_id: str


class DelegationResponse(Record, frozen=True):
    revision: int
    delegation: DelegationRecord
    server_instance_id: str


class DelegationResultResponse(Record, frozen=True):
    revision: int
    result: DelegationResult
    policy_enforcement: Enforcement
    artifacts: list[Artifact]
    server_instance_id: str


class DelegationOutputPage(Record, frozen=True):
    """A page of the child's own final text, cut at a character. ``summary_fallback``: there was no such text."""

    revision: int
    delegation_id: str
    child_session_id: str
    output: str
    offset_bytes: int
    total_bytes: int
    complete: bool
    summary_fallback: bool
    server_instance_id: str
    next_offset_bytes: int | UnsetType = UNSET


class DelegationWaitResponse(Record, frozen=True):
    """``resume_prompt_queued``: the wait was met at once. ``resume_dispatch_requested``: and its parent was idle."""

    revision: int
    wait: DelegationWaitRecord
    resume_prompt_queued: bool
    resume_dispatch_requested: bool
    server_instance_id: str


class DelegationWaitsResponse(Record, frozen=True):
    """The pending waits of one session."""

    revision: int
    delegation_waits: list[DelegationWaitRecord]
    server_instance_id: str


class DelegationCapacity(Record, frozen=True):
    """How many more delegations the session may have now. ``depth``: how many ancestors it was delegated through."""

    revision: int
    running: int
    limit: int
    available: int
    depth: int
    depth_limit: int
    reviewers: bool
    server_instance_id: str


class AuditResponse(Record, frozen=True):
    """``events`` are final JSON of `AuditRecord`, oldest first; ``next_after`` is there while more may follow."""

    events: list[Raw]
    next_after: int | UnsetType = UNSET
