"""Starts and stops the floor: gunicorn with the same worker class, and one worker process with one table."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from types import TracebackType


class Floor:
    """``url`` answers once it is entered."""

    def __init__(
        self,
        worker: str = "bench.floor_worker",
        app: str = "bench.floor_app:app",
        environment: dict[str, str] | None = None,
    ) -> None:
        self._worker = worker
        self._app = app
        self._environment = environment or {}
        self._folder = tempfile.TemporaryDirectory(prefix="tml-floor-")
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> "Floor":
        environment = {
            **os.environ,
            "FLOOR_RUN": self._folder.name,
            "FLOOR_HOME": self._folder.name,
            **self._environment,
        }
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        server = [
            *(sys.executable, "-m", "gunicorn", "-k", "gunicorn.workers.gasgi.ASGIWorker", "-w", "1"),
            *("-b", f"127.0.0.1:{port}", "--log-level", "error", self._app),
        ]
        for command in ([sys.executable, "-m", self._worker], server):
            self._processes.append(subprocess.Popen(command, env=environment))
        end = time.monotonic() + 15
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return self
        raise AssertionError("the floor did not start")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
        self._folder.cleanup()
