"""The board under load: writers on keys of their own, each over the revision that it wrote last; readers; watchers."""

import selectors
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.figures import median, percentile, row
from bench.http1 import Connection
from tests.support.daemon import Daemon

ROUNDS = 3
ROUND_S = 3.0
WARM_S = 1.0
CLIENTS = 16
Ask = Callable[[int], tuple[str, str, dict[str, object] | None]]
"""The next request of a client: method, path, body."""


class Run(NamedTuple):
    rate: float
    p50_ms: float
    p99_ms: float


class Writers:
    """Client n sets ``bench.n``; what it expects is what it wrote before."""

    def __init__(self, path: str, count: int) -> None:
        self._path = path
        self._revisions = [0] * count

    def __call__(self, client: int) -> tuple[str, str, dict[str, object] | None]:
        revision = self._revisions[client]
        self._revisions[client] += 1
        body = {
            "key": f"bench.{client}",
            "expectedRevision": revision,
            "idempotencyKey": f"{client}-{revision}",
            "value": {"ok": True, "run": revision},
        }
        return "POST", f"{self._path}/set", body


def closed_loop(url: str, clients: int, ask: Ask, seconds: float) -> Run:
    """Every client asks again as soon as it has its answer. A refusal ends the measurement."""
    selector = selectors.DefaultSelector()
    connections = [Connection(url) for _ in range(clients)]
    began = [0.0] * clients
    times: list[float] = []
    for number, connection in enumerate(connections):
        selector.register(connection.socket, selectors.EVENT_READ, number)
        began[number] = time.perf_counter()
        connection.send(*ask(number))
    start = time.perf_counter()
    waiting = clients
    while waiting:
        for key, _ in selector.select():
            number = key.data
            status, data = connections[number].read()
            now = time.perf_counter()
            assert status < 300, (status, data[:500])
            times.append((now - began[number]) * 1e3)
            if now - start < seconds:
                began[number] = now
                connections[number].send(*ask(number))
            else:
                waiting -= 1
    elapsed = time.perf_counter() - start
    for connection in connections:
        selector.unregister(connection.socket)
        connection.close()
    selector.close()
    return Run(len(times) / elapsed, percentile(times, 0.5), percentile(times, 0.99))


def measured(url: str, clients: int, make: Callable[[], Ask]) -> Run:
    ask = make()
    closed_loop(url, clients, ask, WARM_S)
    runs = [closed_loop(url, clients, ask, ROUND_S) for _ in range(ROUNDS)]
    return Run(*(median(figures) for figures in zip(*runs, strict=True)))


def board_of(url: str, root: Path, name: str) -> str:
    """The path of the board of a new project."""
    (root / name).mkdir()
    connection = Connection(url)
    project = connection.json("POST", "/api/projects", {"rootPath": str(root / name)})["projectId"]
    session = connection.json("POST", "/api/sessions", {"agent": "Demo", "projectId": project})["sessionId"]
    connection.close()
    return f"/api/sessions/{session}/board"


def told(what: str, run: Run, budget: str, good: bool) -> bool:
    return row(what, f"{run.rate:,.0f}/s; {run.p50_ms:.2f} / {run.p99_ms:.1f} ms", budget, good)


def main() -> bool:
    with tempfile.TemporaryDirectory(prefix="tml-") as folder, Daemon(Path(folder) / "home", faults=False) as daemon:
        daemon.start()
        url, root = daemon.url, Path(folder)
        many = measured(url, CLIENTS, lambda: Writers(board_of(url, root, "many"), CLIENTS))
        good = told("board set, 16 clients on keys of their own; p50 / p99", many, "2,000/s", many.rate >= 2000)
        one = measured(url, 1, lambda: Writers(board_of(url, root, "one"), 1))
        good &= told("board set, 1 client; p50 / p99", one, "p50 5 ms", one.p50_ms < 5)
        path = board_of(url, root, "read")
        closed_loop(url, CLIENTS, Writers(path, CLIENTS), 0.1)
        reads = measured(url, CLIENTS, lambda: lambda client: ("GET", f"{path}/keys/bench.{client}", None))
        good &= told("one key, 16 clients; p50 / p99", reads, "2,000/s", reads.rate >= 2000)
        pages = measured(url, CLIENTS, lambda: lambda _: ("GET", path, None))
        good &= told("a page of 16 keys, 16 clients; p50 / p99", pages, "2,000/s", pages.rate >= 2000)
        daemon.stop()
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
