"""What the delegation routes answer. The records inside stay as they came: packets for agents pass them on whole."""

from typing import Any

from termal.model.message import Record

Json = dict[str, Any]


class DelegationReply(Record, frozen=True):
    revision: int
    delegation: Json
    server_instance_id: str


class DelegationCreated(Record, frozen=True):
    """``child_session`` is the new session, ``delegation`` its record; the child may have failed to start."""

    revision: int
    delegation: Json
    child_session: Json
    server_instance_id: str


class DelegationList(Record, frozen=True):
    revision: int
    delegations: list[Json]
    server_instance_id: str


class ResultReply(Record, frozen=True):
    revision: int
    result: Json
    server_instance_id: str
    policy_enforcement: str | None = None
    artifacts: list[Json] | None = None


class OutputPage(Record, frozen=True):
    """``next_offset_bytes`` is None on the last page."""

    revision: int
    delegation_id: str
    child_session_id: str
    output: str
    offset_bytes: int
    total_bytes: int
    complete: bool
    summary_fallback: bool
    server_instance_id: str
    next_offset_bytes: int | None = None


class WaitReply(Record, frozen=True):
    """``resume_dispatch_requested``: the parent was idle enough to be resumed at once."""

    revision: int
    wait: Json
    resume_prompt_queued: bool
    resume_dispatch_requested: bool
    server_instance_id: str


class AuditPage(Record, frozen=True):
    events: list[Json]
    next_after: int | None = None
