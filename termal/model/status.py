"""What health and status report: the records behind ``termal status``, ``/api/status`` and the supervisor's report."""

from typing import Literal

from termal.model.message import Record

ProcessState = Literal["starting", "ready", "unresponsive", "restarting", "failed", "stopped"]
DaemonState = Literal["ok", "degraded", "down"]


class LastExit(Record, frozen=True):
    code: int | None
    signal: int | None
    at: str


class Latency(Record, frozen=True):
    """Milliseconds, over the operations of the last minute."""

    p50: float
    p99: float


class ProcessReport(Record, frozen=True):
    """What the supervisor knows of one process by itself; the reader of the report adds the figures of psutil."""

    name: str
    pid: int | None
    state: ProcessState
    started_at: str | None = None
    start_time_s: float | None = None
    restarts: int = 0
    last_exit: LastExit | None = None
    queue_depth: int = 0
    op_latency_ms: Latency = Latency(p50=0.0, p99=0.0)
    detail: str | None = None
    facts: dict[str, int | float | str | None] = {}


class DaemonReport(Record, frozen=True):
    """The supervisor's report, written to ``run/status.json`` atomically on each change and at most once a second."""

    state: DaemonState
    version: str
    home: str
    url: str
    pid: int
    started_at: str
    written_at: str
    serving: bool
    processes: list[ProcessReport]
    reason: str | None = None


class ProcessStatus(Record, frozen=True):
    """One row of ``processes[]`` of the status object."""

    name: str
    pid: int | None
    state: ProcessState
    started_at: str | None
    uptime_seconds: float
    restarts: int
    last_exit: LastExit | None
    cpu_percent: float
    rss_bytes: int
    uss_bytes: int | None
    fds: int
    threads: int
    queue_depth: int
    op_latency_ms: Latency
    detail: str | None


class DatabaseStatus(Record, frozen=True):
    name: str
    bytes: int
    wal_bytes: int
    schema_version: str
    sqlite_version: str
    quarantined: int


class SessionCounts(Record, frozen=True):
    total: int = 0
    active: int = 0
    idle: int = 0
    approval: int = 0
    error: int = 0


class AgentProcess(Record, frozen=True):
    """One running agent process with its whole tree."""

    session_ids: list[str]
    agent: str
    pid: int
    processes: int
    cpu_percent: float
    rss_bytes: int


class MailboxCounts(Record, frozen=True):
    """``unread_since`` and ``unwoken_since``: when the oldest of them was sent (RFC 3339 UTC)."""

    count: int = 0
    unread: int = 0
    unwoken: int = 0
    unread_since: str | None = None
    unwoken_since: str | None = None


class OutboxCounts(Record, frozen=True):
    scope_deletions: int = 0
    departures: int = 0
    wake_reports: int = 0


class RunningCount(Record, frozen=True):
    running: int = 0


class PendingCount(Record, frozen=True):
    pending: int = 0


class DaemonStatus(Record, frozen=True):
    """The object that ``GET /api/status`` and ``termal status --json`` return."""

    state: DaemonState
    version: str
    home: str
    url: str
    server_instance_id: str
    started_at: str | None
    uptime_seconds: float
    processes: list[ProcessStatus]
    databases: list[DatabaseStatus]
    sessions: SessionCounts
    agents: list[AgentProcess]
    mailboxes: MailboxCounts
    delegations: RunningCount
    waits: PendingCount
    outbox: OutboxCounts
    reason: str | None = None
    source: Literal["daemon", "process table"] = "daemon"
