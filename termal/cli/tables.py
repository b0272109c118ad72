"""The tables of ``termal status``. Gets records and shows them; asks nobody."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from termal.cli.console import plain_table, printable
from termal.cli.figures import as_count, as_duration, as_size
from termal.model.status import DaemonStatus, LastExit, ProcessStatus

_COLOURS = {
    "ok": "green",
    "ready": "green",
    "degraded": "yellow",
    "starting": "yellow",
    "restarting": "yellow",
    "unresponsive": "red",
    "failed": "red",
    "down": "red",
    "stopped": "dim",
}


def show_status(status: DaemonStatus) -> RenderableType:
    """Everything in the object, the most important first."""
    parts: list[RenderableType] = [_head(status)]
    if status.processes:
        parts += ["", _processes(status.processes)]
    if status.databases:
        parts += ["", _databases(status)]
    if status.agents:
        parts += ["", _agents(status)]
    if status.source == "daemon":
        parts += ["", _counts(status)]
    return Group(*parts)


def _head(status: DaemonStatus) -> Text:
    if status.source == "daemon":
        head = Text(f"TermAl {status.version} is ").append(status.state, _COLOURS[status.state])
        head.append(f" at {status.url}, up {as_duration(status.uptime_seconds)}, data in {printable(status.home)}")
        return head.append(f"\n{printable(status.reason)}" if status.reason else "")
    head = Text("The daemon does not answer", "red")
    head.append(f" ({printable(status.reason or '')}). From its files and the process table alone:")
    return head


def _processes(rows: list[ProcessStatus]) -> Table:
    table = plain_table(
        "process",
        "pid>",
        "state",
        "up>",
        "restarts>",
        "cpu>",
        "memory>",
        "fds>",
        "threads>",
        "queue>",
        "p50/p99 ms>",
        "note",
    )
    for row in rows:
        note = row.detail or (_exit(row.last_exit) if row.last_exit else "")
        table.add_row(
            row.name,
            str(row.pid or "-"),
            Text(row.state, _COLOURS.get(row.state, "")),
            as_duration(row.uptime_seconds) if row.pid else "-",
            str(row.restarts),
            f"{row.cpu_percent:.0f}%",
            as_size(row.rss_bytes),
            str(row.fds),
            str(row.threads),
            str(row.queue_depth),
            f"{row.op_latency_ms.p50:.1f}/{row.op_latency_ms.p99:.1f}",
            printable(note),
        )
    return table


def _databases(status: DaemonStatus) -> Table:
    table = plain_table("database", "size>", "WAL>", "schema>", "SQLite>", "set aside>")
    for row in status.databases:
        table.add_row(
            row.name,
            as_size(row.bytes),
            as_size(row.wal_bytes),
            row.schema_version or "-",
            row.sqlite_version or "-",
            str(row.quarantined),
        )
    return table


def _agents(status: DaemonStatus) -> Table:
    table = plain_table("agent", "pid>", "processes>", "cpu>", "memory>", "sessions")
    for row in status.agents:
        table.add_row(
            printable(row.agent),
            str(row.pid),
            str(row.processes),
            f"{row.cpu_percent:.0f}%",
            as_size(row.rss_bytes),
            ", ".join(row.session_ids) or "-",
        )
    return table


def _counts(status: DaemonStatus) -> Text:
    sessions, mail, outbox = status.sessions, status.mailboxes, status.outbox
    deletions, reports = (
        as_count(outbox.scope_deletions, "scope deletion"),
        as_count(outbox.wake_reports, "wake report"),
    )
    active = f"{sessions.active} active, {sessions.approval} waiting for an answer"
    rows = {
        "sessions": f"{sessions.total}: {active}, {sessions.idle} idle, {sessions.error} in error",
        "mail": f"{as_count(mail.count, 'mailbox', 'mailboxes')}, {mail.unread} unread{_since(mail.unread_since)},"
        f" {mail.unwoken} not woken{_since(mail.unwoken_since)}",
        "delegations": f"{status.delegations.running} running, {as_count(status.waits.pending, 'wait')} pending",
        "outbox": f"{deletions}, {as_count(outbox.departures, 'departure')}, {reports}",
    }
    return Text("\n".join(f"{name:<12} {figures}" for name, figures in rows.items()))


def _since(time: str | None) -> str:
    return f" since {printable(time[:19])}Z" if time else ""


def _exit(last: LastExit) -> str:
    how = f"signal {last.signal}" if last.signal is not None else f"code {last.code}"
    return f"last exit: {how} at {last.at}"
