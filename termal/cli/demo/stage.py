"""A throw-away daemon: its own temporary home, started as a real program, gone without a trace when it closes."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import psutil

from termal.cli.daemon import read_report, read_running
from termal.client.errors import Unreachable
from termal.client.http import Http
from termal.home import Home, socket_folder
from termal.procs.signals import KILL, TERMINATE
from termal.procs.spawn import Child, Exit, spawn
from termal.procs.tree import find_marked, sweep
from termal.wire.errors import TermalError

START_S = 20.0
STOP_S = 12.0
_STEP_S = 0.005
_SHOWN_BYTES = 3000

T = TypeVar("T")


class StageFailed(Exception):
    """What was waited for did not come. The text says what it was."""


class Stage:
    """Use as a context manager: however it is left, no process and no file stays. Made on the main thread."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="termal-demo-"))
        self.home = Home(self.folder.resolve() / "home")
        self.work = self.folder / "work"
        self.work.mkdir()
        self._output = self.folder / "output.txt"
        self._child: Child | None = None

    def __enter__(self) -> "Stage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._child is not None:
                self.stop()
        except StageFailed:
            # Whatever was wrong is being told already; here only nothing may stay behind.
            self._child = None
        finally:
            sweep(self.home.mark)
            self._remove()

    def start(self) -> float:
        """Start the daemon; the milliseconds until it said that it is healthy. Raises `StageFailed`."""
        begun = time.monotonic()
        environment = {name: value for name, value in os.environ.items() if name not in ("TERMAL_HOME", "TERMAL_PORT")}
        environment["TERMAL_DEMO_HOME"] = str(self.folder / "conversations")
        environment["TERMAL_DEMO_REVIEWER"] = "1"
        argv = [sys.executable, "-P", "-m", "supervisor", "--home", str(self.home.root), "--port", "0"]
        with self._output.open("ab") as output:
            self._child = spawn(argv, environment=environment, output_fd=output.fileno())
        wait_for(self._is_healthy, "a healthy daemon", START_S)
        return (time.monotonic() - begun) * 1e3

    @property
    def url(self) -> str:
        running = read_running(self.home)
        if running is None:
            raise StageFailed("the daemon has written no address")
        return running.url

    def pid_of(self, process: str) -> int:
        report = read_report(self.home)
        rows = [row.pid for row in report.processes if row.name == process] if report is not None else []
        if not rows or rows[0] is None:
            raise StageFailed(f"{process} is not running")
        return rows[0]

    def kill(self, process: str) -> int:
        """SIGKILL to a process of the daemon by its name; its pid."""
        pid = self.pid_of(process)
        os.kill(pid, KILL)
        return pid

    def stop(self) -> tuple[Exit, float]:
        """SIGTERM; how the daemon ended and the milliseconds that it took. Raises `StageFailed`."""
        child = self._child
        if child is None:
            raise StageFailed("the daemon was never started")
        begun = time.monotonic()
        child.signal(TERMINATE)
        ended = wait_for(child.poll, "the end of the daemon", STOP_S)
        self._child = None
        return ended, (time.monotonic() - begun) * 1e3

    def leftovers(self) -> list[str]:
        """Processes that still carry the mark of this daemon."""
        return [_describe(process.pid) for process in find_marked(self.home.mark)]

    def output(self) -> str:
        """The end of what the daemon printed and logged."""
        files = [self._output, *sorted(self.home.logs.glob("*.log"))]
        parts = [
            f"--- {file.name}\n{file.read_text('utf-8', 'replace')[-_SHOWN_BYTES:]}" for file in files if file.exists()
        ]
        return "\n".join(parts)

    def _is_healthy(self) -> bool:
        if self._child is not None and (ended := self._child.poll()) is not None:
            raise StageFailed(f"the daemon ended at its start with {ended}")
        running = read_running(self.home)
        if running is None:
            return False
        try:
            with Http(running.url, reply_s=2.0, repeat_s=0.0) as http:
                return http.health().state == "ok"
        except (Unreachable, TermalError):
            return False

    def _remove(self) -> None:
        sockets = socket_folder(self.home) if self.home.root.exists() else self.home.run
        if sockets != self.home.run:
            shutil.rmtree(sockets, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_for(question: Callable[[], T | None], what: str, limit_s: float) -> T:
    """The first truthy answer. Raises `StageFailed` after ``limit_s`` seconds."""
    end = time.monotonic() + limit_s
    while not (answer := question()):
        if time.monotonic() > end:
            raise StageFailed(f"waited {limit_s:g} s in vain for {what}")
        time.sleep(_STEP_S)
    return answer


def _describe(pid: int) -> str:
    try:
        return f"{pid} {' '.join(psutil.Process(pid).cmdline())[:100]}"
    except psutil.Error:
        return str(pid)
