"""Figures as Prometheus text. Imported at the first scrape; holds no state, makes its registry anew each time."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from termal.gateway.census import Figures
from termal.gateway.meters import BOUNDS_S, Histogram, Sample
from termal.model.status import DaemonStatus, ProcessStatus

_STATES = ("starting", "ready", "unresponsive", "restarting", "failed", "stopped")
Labelled = Iterable[tuple[tuple[str, ...], float]]


def expose(figures: Figures, sample: Sample) -> tuple[bytes, str]:
    """The text and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(figures, sample))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Collected(Collector):
    def __init__(self, figures: Figures, sample: Sample) -> None:
        self._figures = figures
        self._sample = sample

    def collect(self) -> Iterator[Metric]:
        yield from _daemon(self._figures.status)
        yield from _processes(self._figures.status.processes)
        yield from _stores(self._figures.status)
        yield _operation_counts(self._figures)
        yield from _gateway(self._sample)


def _daemon(status: DaemonStatus) -> Iterator[Metric]:
    yield _gauge("termal_up", "1 while sessions can be read and written.", [((), float(status.state != "down"))])
    yield _gauge("termal_degraded", "1 while a part of the daemon is missing.", [((), float(status.state != "ok"))])
    yield _gauge("termal_uptime_seconds", "Since the start of the daemon.", [((), status.uptime_seconds)])
    counts = {name: getattr(status.sessions, name) for name in ("active", "idle", "approval", "error")}
    yield _gauge("termal_sessions", "Sessions by status.", [((name,), n) for name, n in counts.items()], "status")
    yield _gauge("termal_delegations_running", "Running delegations.", [((), status.delegations.running)])
    yield _gauge("termal_waits_pending", "Waits for delegations.", [((), status.waits.pending)])
    boxes = {name: getattr(status.mailboxes, name) for name in ("count", "unread", "unwoken")}
    yield _gauge("termal_mailboxes", "Mailboxes and their mail.", [((name,), n) for name, n in boxes.items()], "of")
    outbox = {name: getattr(status.outbox, name) for name in ("scope_deletions", "departures", "wake_reports")}
    yield _gauge("termal_outbox", "Facts to be told yet.", [((name,), n) for name, n in outbox.items()], "kind")
    agents = [((row.agent, str(row.pid)), row) for row in status.agents]
    names = ("agent", "pid")
    yield _gauge("termal_agent_processes", "Size of the tree.", [(key, row.processes) for key, row in agents], *names)
    yield _gauge("termal_agent_cpu_percent", "Of one core.", [(key, row.cpu_percent) for key, row in agents], *names)
    yield _gauge("termal_agent_rss_bytes", "Of the tree.", [(key, row.rss_bytes) for key, row in agents], *names)


def _processes(rows: list[ProcessStatus]) -> Iterator[Metric]:
    states = [((row.name, state), float(row.state == state)) for row in rows for state in _STATES]
    yield _gauge("termal_process_state", "1 for the state that a process is in.", states, "process", "state")
    columns: list[tuple[str, str, str]] = [
        ("uptime_seconds", "uptime_seconds", "Since its start."),
        ("cpu_percent", "cpu_percent", "Of one core."),
        ("rss_bytes", "rss_bytes", "Resident memory."),
        ("uss_bytes", "uss_bytes", "Memory that its end would free."),
        ("fds", "open_fds", "Open descriptors."),
        ("threads", "threads", "Threads."),
        ("queue_depth", "queue_depth", "Requests that wait."),
    ]
    for field, name, text in columns:
        values = [((row.name,), getattr(row, field)) for row in rows if getattr(row, field) is not None]
        yield _gauge(f"termal_process_{name}", text, values, "process")
    latencies = [
        ((row.name, quantile), ms / 1e3)
        for row in rows
        for quantile, ms in (("0.5", row.op_latency_ms.p50), ("0.99", row.op_latency_ms.p99))
    ]
    yield _gauge("termal_process_operation_latency_seconds", "Over the last minute.", latencies, "process", "quantile")
    restarts = [((row.name,), float(row.restarts)) for row in rows]
    yield _counter("termal_process_restarts", "Restarts by the supervisor.", restarts, "process")


def _stores(status: DaemonStatus) -> Iterator[Metric]:
    rows = [((row.name,), row) for row in status.databases]
    yield _gauge("termal_database_bytes", "Size of the file.", [(key, row.bytes) for key, row in rows], "database")
    yield _gauge("termal_database_wal_bytes", "Its log.", [(key, row.wal_bytes) for key, row in rows], "database")
    yield _gauge(
        "termal_database_quarantined_rows", "Set aside.", [(key, row.quarantined) for key, row in rows], "database"
    )


def _operation_counts(figures: Figures) -> Metric:
    values = [
        ((process, count.operation, count.outcome), float(count.count))
        for process, counts in figures.operations.items()
        for count in counts
    ]
    labels = ("process", "operation", "outcome")
    return _counter("termal_operations", "Operations that a worker ended, by outcome.", values, *labels)


def _gateway(sample: Sample) -> Iterator[Metric]:
    requests = [((method, route, str(status)), float(n)) for (method, route, status), n in sample.requests.items()]
    yield _counter("termal_http_requests", "Answered requests.", requests, "method", "route", "status")
    seconds = {(route,): histogram for route, histogram in sample.request_seconds.items()}
    yield _histogram("termal_http_request_seconds", "Without event streams.", seconds, "route")
    yield _gauge("termal_http_open_requests", "Under way, event streams too.", [((), sample.open_requests)])
    yield _histogram(
        "termal_call_seconds", "Calls to workers as seen here.", sample.operation_seconds, "operation", "outcome"
    )
    yield _gauge("termal_event_streams", "Open event streams.", [((), sample.streams)])
    yield _counter("termal_event_streams_lagged", "Times that a stream fell behind.", [((), float(sample.lagged))])


def _gauge(name: str, text: str, values: Labelled, *labels: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values:
        family.add_metric(key, float(value))
    return family


def _counter(name: str, text: str, values: Labelled, *labels: str) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def _histogram(
    name: str, text: str, values: "dict[tuple[str], Histogram] | dict[tuple[str, str], Histogram]", *labels: str
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for key, histogram in values.items():
        total, buckets = 0, []
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), histogram.counts, strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric(key, buckets, histogram.total_s)
    return family
