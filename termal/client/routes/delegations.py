"""Delegations of a parent session: create, list, look, read results, cancel, follow up, wait."""

from collections.abc import Mapping, Sequence
from typing import Any

from termal.client.call import Call, read, session_path, write
from termal.client.delegation_replies import (
    AuditPage,
    DelegationCreated,
    DelegationList,
    DelegationReply,
    OutputPage,
    ResultReply,
    WaitReply,
)
from termal.model.mail import Receipt

SPAWN_S = 30.0
"""A worktree may have to be made first; above the daemon's own limit of 25 s."""


def create(parent_id: str, request: Mapping[str, Any]) -> Call[DelegationCreated]:
    """``request``: ``prompt`` and optionally ``title``, ``cwd``, ``agent``, ``model``, ``mode``, ``writePolicy``."""
    return write(session_path(parent_id, "delegations"), DelegationCreated, request, limit_s=SPAWN_S)


def delegations(parent_id: str) -> Call[DelegationList]:
    return read(session_path(parent_id, "delegations"), DelegationList)


def status(parent_id: str, delegation_id: str) -> Call[DelegationReply]:
    return read(session_path(parent_id, "delegations", delegation_id), DelegationReply)


def result(parent_id: str, delegation_id: str) -> Call[ResultReply]:
    """Raises `Conflict` (reason ``resultNotAvailable``) while the child is at work."""
    return read(session_path(parent_id, "delegations", delegation_id, "result"), ResultReply)


def output(
    parent_id: str, delegation_id: str, *, offset_bytes: int | None = None, limit_bytes: int | None = None
) -> Call[OutputPage]:
    """A page of the child's last text; sizes in UTF-8 bytes, 256 to 8192 a page."""
    path = session_path(parent_id, "delegations", delegation_id, "result", "output")
    return read(path, OutputPage, offsetBytes=offset_bytes, limitBytes=limit_bytes)


def cancel(parent_id: str, delegation_id: str) -> Call[DelegationReply]:
    """A second time it answers with what is there."""
    return write(session_path(parent_id, "delegations", delegation_id, "cancel"), DelegationReply, {})


def follow_up(parent_id: str, delegation_id: str, message: str) -> Call[DelegationReply]:
    path = session_path(parent_id, "delegations", delegation_id, "followup")
    return write(path, DelegationReply, {"message": message})


def create_wait(
    parent_id: str, delegation_ids: Sequence[str], *, mode: str | None = None, title: str | None = None
) -> Call[WaitReply]:
    body = {"delegationIds": list(delegation_ids), "mode": mode, "title": title}
    return write(session_path(parent_id, "delegation-waits"), WaitReply, body)


def submit_review(child_id: str, payload: Mapping[str, Any]) -> Call[Receipt]:
    """The same payload again is answered with the first receipt."""
    return write(session_path(child_id, "delegation-review-result"), Receipt, payload, repeatable=True)


def record_timeout(parent_id: str, delegation_ids: Sequence[str], timeout_ms: int) -> Call[dict[str, Any]]:
    body = {"kind": "timeout", "delegationIds": list(delegation_ids), "timeoutMs": timeout_ms}
    return write(session_path(parent_id, "delegation-audit-events"), dict[str, Any], body)


def audit(parent_id: str, *, after: int | None = None, limit: int | None = None) -> Call[AuditPage]:
    return read(session_path(parent_id, "delegation-audit-events"), AuditPage, after=after, limit=limit)
