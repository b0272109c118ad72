"""The status of a daemon that does not answer: from its files, its lock and the process table alone, within 300 ms."""

import time
from pathlib import Path

import psutil

from termal.cli.daemon import Running, is_alive, read_report, read_running
from termal.home import Home
from termal.model.status import (
    AgentProcess,
    DaemonStatus,
    DatabaseStatus,
    Latency,
    MailboxCounts,
    OutboxCounts,
    PendingCount,
    ProcessReport,
    ProcessState,
    ProcessStatus,
    RunningCount,
    SessionCounts,
)
from termal.procs.lock import is_held, read_owner
from termal.procs.meter import Meter, Usage
from termal.procs.tree import start_time

_SAMPLE_S = 0.1
"""CPU use is what the processes burn in this time."""
_RUNTIME = "runtime-"


def take_census(home: Home, why: str = "") -> DaemonStatus:
    """What can be seen of the daemon from outside; ``why`` is what happened when it was asked."""
    running, report = read_running(home), read_report(home)
    alive = running is not None and is_alive(running.pid, running.start_time)
    rows = report.processes if report is not None else []
    usage = _usage([row.pid for row in rows if row.pid and is_alive(row.pid, row.start_time_s)])
    return DaemonStatus(
        state="down",
        version=running.version if running else report.version if report else "",
        home=str(home.root),
        url=running.url if running else "",
        server_instance_id="",
        started_at=report.started_at if report is not None and alive else None,
        uptime_seconds=_uptime_s(running.pid) if running is not None and alive else 0.0,
        processes=[_status(row, usage.get(row.pid or 0)) for row in rows],
        databases=_databases(home),
        sessions=SessionCounts(),
        agents=[agent for row in rows if row.pid in usage for agent in _agents(row)],
        mailboxes=MailboxCounts(),
        delegations=RunningCount(),
        waits=PendingCount(),
        outbox=OutboxCounts(),
        reason="; ".join(filter(None, (why, _verdict(home, running, alive)))),
        source="process table",
    )


def _verdict(home: Home, running: Running | None, alive: bool) -> str:
    if alive and running is not None:
        return f"its supervisor runs (pid {running.pid}), but nobody answers at {running.url}"
    if is_held(home):
        owner = read_owner(home)
        return f"process {owner.pid if owner else 'unknown'} holds the lock: it is starting or stopping"
    if running is not None:
        return f"no daemon runs on {home.root} (the last one was process {running.pid}): start one with `termal serve`"
    return f"no daemon runs on {home.root}: start one with `termal serve`"


def _status(row: ProcessReport, usage: Usage | None) -> ProcessStatus:
    """A row of the supervisor's last report with what is true of that process now; ``usage`` None: it is gone."""
    paused = usage is not None and row.pid is not None and _is_paused(row.pid)
    state: ProcessState = "stopped" if usage is None else "unresponsive" if paused else row.state
    figures = usage or Usage(cpu_percent=0.0, rss_bytes=0, uss_bytes=None, fds=0, threads=0)
    return ProcessStatus(
        name=row.name,
        pid=row.pid if usage else None,
        state=state,
        started_at=row.started_at if usage else None,
        uptime_seconds=_uptime_s(row.pid) if usage and row.pid else 0.0,
        restarts=row.restarts,
        last_exit=row.last_exit,
        cpu_percent=figures.cpu_percent,
        rss_bytes=figures.rss_bytes,
        uss_bytes=figures.uss_bytes,
        fds=figures.fds,
        threads=figures.threads,
        queue_depth=row.queue_depth if usage else 0,
        op_latency_ms=row.op_latency_ms if usage else Latency(p50=0.0, p99=0.0),
        detail="paused by a signal" if paused else row.detail,
    )


def _usage(pids: list[int]) -> dict[int, Usage]:
    meter = Meter()
    if meter.usage(pids):
        time.sleep(_SAMPLE_S)
    return meter.usage(pids)


def _agents(row: ProcessReport) -> list[AgentProcess]:
    """What runs below a runtime worker. Which sessions it serves only that worker knows."""
    if not row.name.startswith(_RUNTIME) or row.pid is None:
        return []
    try:
        pids = [child.pid for child in psutil.Process(row.pid).children()]
    except psutil.Error:
        return []
    return [
        AgentProcess(
            session_ids=[],
            agent=row.name.removeprefix(_RUNTIME),
            pid=pid,
            processes=tree.processes,
            cpu_percent=tree.cpu_percent,
            rss_bytes=tree.rss_bytes,
        )
        for pid, tree in Meter().tree_usage(pids).items()
    ]


def _is_paused(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


def _uptime_s(pid: int) -> float:
    started = start_time(pid)
    return round(max(0.0, time.time() - started), 1) if started is not None else 0.0


def _databases(home: Home) -> list[DatabaseStatus]:
    """Sizes alone: what is inside a file is the business of the process that owns it."""
    return [
        DatabaseStatus(
            name=path.name,
            bytes=_size_bytes(path),
            wal_bytes=_size_bytes(path.with_name(f"{path.name}-wal")),
            schema_version="",
            sqlite_version="",
            quarantined=0,
        )
        for path in (home.termal_db, home.coordination_db)
        if path.exists()
    ]


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
