"""The budgets of the daemon itself: start, restart, accepting a prompt, event latency, idle memory and CPU."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from bench.figures import median, percentile, row
from bench.floor import Floor
from bench.http1 import Connection
from termal.bus.client import Client
from termal.bus.loop import PollLoop
from termal.wire.coordination_operations import COORDINATION_FACTS
from termal.wire.session_operations import STATE_FACTS
from termal.wire.turns import Anything
from tests.support.daemon import Daemon

ROUNDS = 7
PROMPTS = 120
STREAMS = 50


def import_floor_ms() -> float:
    """Milliseconds until a fresh interpreter has imported one worker."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import workers.state.__main__"], check=True)
        times.append((time.perf_counter() - began) * 1e3)
    return median(times)


def start_ms() -> float:
    times = []
    for _ in range(ROUNDS):
        with (
            tempfile.TemporaryDirectory(prefix="tml-") as folder,
            Daemon(Path(folder) / "home", faults=False) as daemon,
        ):
            began = time.perf_counter()
            daemon.start(ready=False)
            while not _healthy(daemon):
                time.sleep(0.005)
            times.append((time.perf_counter() - began) * 1e3)
            daemon.stop()
    return median(times)


def _healthy(daemon: Daemon) -> bool:
    try:
        connection = Connection(daemon.url)
    except (OSError, ValueError, KeyError):
        return False
    try:
        status, body = connection.request("GET", "/api/health")
    except (OSError, ConnectionError):
        return False
    finally:
        connection.close()
    return status == 200 and json.loads(body)["state"] == "ok"


def restart_ms(name: str) -> list[float]:
    """Milliseconds from SIGKILL of a worker to the next answer of a request that needs it; a fresh daemon each time,
    because a worker that dies again and again is restarted later and later on purpose."""
    times = []
    for _ in range(ROUNDS):
        with (
            tempfile.TemporaryDirectory(prefix="tml-") as folder,
            Daemon(Path(folder) / "home", faults=False) as daemon,
        ):
            daemon.start()
            loop = PollLoop()
            client = Client(loop, daemon.home.run, name, "bench")
            try:
                _ping(loop, client, name)
                time.sleep(2)
                daemon.kill(name, signal.SIGKILL)
                began = time.perf_counter()
                _ping(loop, client, name)
                times.append((time.perf_counter() - began) * 1e3)
            finally:
                loop.close()
            daemon.stop()
    return times


def _ping(loop: PollLoop, client: Client, name: str) -> None:
    done: list[object] = []
    op = {"state": STATE_FACTS, "coordination": COORDINATION_FACTS}[name]
    client.call(op, Anything(), lambda reply, error: done.append(error or reply))  # type: ignore[arg-type]
    while not done:
        loop.one_pass(0.05)
    assert not isinstance(done[0], Exception), done[0]


def accept_ms(url: str, session: str, *, idle: bool) -> list[float]:
    connection = Connection(url)
    path = f"/api/sessions/{session}/messages"
    times = []
    for number in range(PROMPTS):
        began = time.perf_counter()
        status, body = connection.request("POST", path, {"text": f"say {number}"})
        times.append((time.perf_counter() - began) * 1e3)
        assert status == 202, (status, body[:300])
        while idle and connection.json("GET", f"/api/sessions/{session}?tail=1")["session"]["status"] != "idle":
            time.sleep(0.003)
        # The floor gets the same pause: a processor that was idle wakes up slower.
        time.sleep(0.005)
    connection.close()
    return times[10:]


def create_session(url: str) -> str:
    connection = Connection(url)
    reply = connection.json("POST", "/api/sessions", {"agent": "Demo", "workdir": tempfile.gettempdir()})
    connection.close()
    return str(reply["sessionId"])


class Stream(threading.Thread):
    """One event stream; notes when each prompt's message arrived, by the prompt's text."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=60)
        self._host = parts.netloc
        self.arrived: dict[str, float] = {}
        self.ready = threading.Event()

    def run(self) -> None:
        self._socket.sendall(f"GET /api/events HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        lines = self._socket.makefile("rb")
        while line := lines.readline():
            now = time.perf_counter()
            self.ready.set()
            if line.startswith(b"data: {") and b'"messageAdded"' in line and b'"author":"you"' in line:
                self.arrived[json.loads(line[6:])["message"]["text"]] = now

    def end(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self.join(5)
        self._socket.close()


def event_latency_ms(daemon: Daemon, session: str) -> list[float]:
    """From before the prompt is posted until a stream has its message: an upper bound of commit to client. Three of
    the streams are read; reading all of them in one interpreter would measure the reader."""
    readers = [Stream(daemon.url) for _ in range(3)]
    others = [Connection(daemon.url) for _ in range(STREAMS - len(readers))]
    for connection in others:
        connection.send("GET", "/api/events")
    for reader in readers:
        reader.start()
        assert reader.ready.wait(10)
    connection = Connection(daemon.url)
    latencies = []
    for number in range(PROMPTS):
        text = f"say event {number}"
        began = time.perf_counter()
        connection.json("POST", f"/api/sessions/{session}/messages", {"text": text})
        while connection.json("GET", f"/api/sessions/{session}?tail=1")["session"]["status"] != "idle":
            time.sleep(0.003)
        latencies += [(reader.arrived[text] - began) * 1e3 for reader in readers if text in reader.arrived]
    for reader in readers:
        reader.end()
    for connection in others:
        connection.close()
    assert len(latencies) > PROMPTS, "events are missing"
    return latencies


def open_streams_ms(daemon: Daemon, count: int = 200) -> float:
    """Milliseconds from the first connection until every one of ``count`` event streams has its headers."""
    began = time.perf_counter()
    connections = [Connection(daemon.url) for _ in range(count)]
    for connection in connections:
        connection.send("GET", "/api/events")
    for connection in connections:
        connection.headers()
    elapsed = (time.perf_counter() - began) * 1e3
    for connection in connections:
        connection.close()
    return elapsed


def memory_mib(daemon: Daemon) -> list[tuple[str, float]]:
    processes = [psutil.Process(daemon.pid), *psutil.Process(daemon.pid).children(recursive=True)]
    return [(" ".join(one.cmdline()[1:4])[:40], one.memory_full_info().uss / (1 << 20)) for one in processes]


def idle_cpu_percent(daemon: Daemon, seconds: float = 10.0) -> float:
    processes = [psutil.Process(daemon.pid), *psutil.Process(daemon.pid).children(recursive=True)]
    before = sum(process.cpu_times().user + process.cpu_times().system for process in processes)
    time.sleep(seconds)
    after = sum(process.cpu_times().user + process.cpu_times().system for process in processes)
    return (after - before) / seconds * 100


def main() -> bool:
    good = True
    floor = import_floor_ms()
    started = start_ms()
    limit = min(1200.0, 4 * floor)
    good &= row(
        "start to healthy",
        f"{started:.0f} ms ({started / floor:.1f} x {floor:.0f} ms)",
        f"{limit:.0f} ms",
        started <= limit,
    )
    with tempfile.TemporaryDirectory(prefix="tml-") as folder, Daemon(Path(folder) / "home", faults=False) as daemon:
        daemon.start()
        time.sleep(2)
        sizes = memory_mib(daemon)
        total = sum(size for _, size in sizes)
        good &= row("idle memory, unique", f"{total:.0f} MiB", "220 MiB", total < 220)
        for name, size in sizes:
            print(f"          {size:6.1f} MiB  {name}")
        cpu = idle_cpu_percent(daemon)
        good &= row("idle CPU", f"{cpu:.2f} %", "1 %", cpu < 1)
    for name in ("state", "coordination"):
        times = restart_ms(name)
        good &= row(
            f"SIGKILL of {name} to the next answer",
            f"median {median(times):.0f}, worst {max(times):.0f} ms",
            "150 / 250 ms",
            median(times) <= 150 and max(times) <= 250,
        )
    with (
        tempfile.TemporaryDirectory(prefix="tml-") as folder,
        Daemon(Path(folder) / "home", faults=False) as daemon,
        Floor() as plain,
    ):
        daemon.start()
        session = create_session(daemon.url)
        ratios, product, raw = [], [], []
        for _ in range(3):
            raw = accept_ms(plain.url, "s", idle=False)
            product = accept_ms(daemon.url, session, idle=True)
            ratios.append(median(product) / median(raw))
        good &= row(
            "prompt accepted, p50",
            f"{median(product):.2f} ms ({median(ratios):.2f} x {median(raw):.2f} ms)",
            "3.5 x floor",
            median(ratios) <= 3.5,
        )
        opened = median([open_streams_ms(daemon) for _ in range(ROUNDS)])
        good &= row("opening 200 event streams", f"{opened:.0f} ms", "100 ms", opened < 100)
        latencies = event_latency_ms(daemon, session)
        worst = percentile(latencies, 0.99)
        good &= row(
            f"event latency, {STREAMS} streams",
            f"p50 {median(latencies):.2f}, p99 {worst:.2f} ms",
            "p99 20 ms",
            worst < 20,
        )
    return good


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(0 if main() else 1)
