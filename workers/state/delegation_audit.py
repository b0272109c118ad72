"""What was done about delegations and by whom: append-only rows that never hold a prompt or an output."""

import uuid

from msgspec import UNSET

from termal.model.delegation import Actor, AuditKind, AuditOutcome, AuditRecord, DelegationRecord
from termal.wire.codec import encode_json
from workers.state.clock import now_text
from workers.state.journal import Journal

DETAIL_CHARS = 500


class Audit:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def add(
        self,
        kind: AuditKind,
        parent_session_id: str,
        record: DelegationRecord | None = None,
        *,
        actor: Actor = "system",
        outcome: AuditOutcome = "ok",
        detail: str = "",
    ) -> None:
        """One more row, stored with the next commit."""
        entry = AuditRecord(
            id=f"audit-{uuid.uuid4()}",
            at=now_text(),
            kind=kind,
            parent_session_id=parent_session_id,
            actor=actor,
            outcome=outcome,
            delegation_id=UNSET if record is None else record.id,
            child_session_id=UNSET if record is None else record.child_session_id,
            status=UNSET if record is None else record.status,
            detail=detail[:DETAIL_CHARS] or UNSET,
        )
        self._journal.audit(parent_session_id, encode_json(entry).decode())
