"""The budgets of talking agents: from an agent's pipe to a client of the event stream, and what that costs."""

import json
import re
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from bench.figures import median, percentile, row
from bench.http1 import Connection
from tests.support.daemon import Daemon

SESSIONS = 10
PER_S = 20.0
PIECES = 300
_NUMBER = re.compile(r"\d+")


class Listener(threading.Thread):
    """One event stream; ``late_ms`` is the age of every piece at its arrival."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=60)
        self._socket.sendall(f"GET /api/events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        self.late_ms: list[float] = []
        self.deltas = 0

    def run(self) -> None:
        for line in self._socket.makefile("rb"):
            now = time.monotonic_ns() // 1000
            if line.startswith(b"data: {") and b'"textDelta"' in line:
                self.deltas += 1
                text = json.loads(line[6:])["delta"]
                self.late_ms += [(now - int(number)) / 1e3 for number in _NUMBER.findall(text)]

    def end(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self.join(5)
        self._socket.close()


def _workers(daemon: Daemon) -> list[psutil.Process]:
    """The daemon's own processes: agents and their shims are not ours to count."""
    root = psutil.Process(daemon.pid)
    return [root, *(p for p in root.children(recursive=True) if not _is_agent(p))]


def _is_agent(process: psutil.Process) -> bool:
    return any("speaking_agent" in part or "shim.py" in part for part in process.cmdline())


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def main() -> bool:
    agent = Path(__file__).with_name("speaking_agent.py")
    with tempfile.TemporaryDirectory(prefix="tml-") as folder, Daemon(Path(folder) / "home", faults=False) as daemon:
        daemon.home.root.mkdir(mode=0o700)
        command = json.dumps([sys.executable, str(agent)])
        daemon.home.config.write_text(f"[agents.Speaking]\ncommand = {command}\n")
        daemon.start()
        return _measure(daemon)


def _measure(daemon: Daemon) -> bool:
    connection = Connection(daemon.url)
    create = {"agent": "Speaking", "workdir": tempfile.gettempdir()}
    sessions = [connection.json("POST", "/api/sessions", create)["sessionId"] for _ in range(SESSIONS)]
    for session in sessions:
        connection.json("POST", f"/api/sessions/{session}/messages", {"text": "1 20"})
    time.sleep(3)
    listener = Listener(daemon.url)
    listener.start()
    time.sleep(1)
    processes = _workers(daemon)
    before, began = {process: _cpu_s([process]) for process in processes}, time.monotonic()
    for session in sessions:
        connection.json("POST", f"/api/sessions/{session}/messages", {"text": f"{PIECES} {PER_S}"})
        # Agents do not speak in step.
        time.sleep(1 / PER_S / SESSIONS)
    while len(listener.late_ms) < PIECES * SESSIONS and time.monotonic() - began < PIECES / PER_S + 20:
        time.sleep(0.05)
    elapsed = time.monotonic() - began
    used = {process: _cpu_s([process]) - before[process] for process in processes}
    share = sum(used.values()) / elapsed * 100
    runtime = next(process for process in processes if "workers.runtime" in " ".join(process.cmdline()))
    names = {process: " ".join(process.cmdline()[2:4]) for process in processes}
    resident = runtime.memory_info().rss / (1 << 20)
    listener.end()
    connection.close()
    assert len(listener.late_ms) == PIECES * SESSIONS, f"{len(listener.late_ms)} of {PIECES * SESSIONS} pieces came"
    worst = percentile(listener.late_ms, 0.99)
    good = row(
        f"{PER_S * SESSIONS:.0f} deltas/s of {SESSIONS} sessions, pipe to client",
        f"p50 {median(listener.late_ms):.1f}, p99 {worst:.1f} ms ({listener.deltas} deltas)",
        "p99 30 ms",
        worst < 30,
    )
    good &= row("CPU of the daemon meanwhile", f"{share:.1f} % of one core", "40 %", share < 40)
    for process, seconds in used.items():
        print(f"          {seconds / elapsed * 100:6.1f} %  {names[process]}")
    good &= row(f"resident memory of the runtime, {SESSIONS} sessions", f"{resident:.0f} MB", "80 MB", resident < 80)
    return good
