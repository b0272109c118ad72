"""Figures that the workers report for ``termal status`` and ``/metrics``."""

import msgspec

from termal.model.status import (
    DatabaseStatus,
    MailboxCounts,
    OutboxCounts,
    PendingCount,
    RunningCount,
    SessionCounts,
)


class OperationCount(msgspec.Struct, frozen=True):
    """How often an operation ended with ``outcome`` (``ok`` or an error code) since the worker started."""

    operation: str
    outcome: str
    count: int


class WorkerFacts(msgspec.Struct, frozen=True):
    operations: list[OperationCount] = []


class StateFacts(msgspec.Struct, frozen=True):
    server_instance_id: str
    revision: int
    databases: list[DatabaseStatus]
    sessions: SessionCounts
    delegations: RunningCount
    waits: PendingCount
    outbox: OutboxCounts
    operations: list[OperationCount] = []


class CoordinationFacts(msgspec.Struct, frozen=True):
    databases: list[DatabaseStatus]
    mailboxes: MailboxCounts
    operations: list[OperationCount] = []
