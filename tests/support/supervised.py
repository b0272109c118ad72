"""A supervisor as a real process with a tree of tiny workers, seen from outside: files, signals and pipes."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from msgspec.structs import replace

from supervisor.tree import Limits, Spec
from termal.home import Home
from termal.model.status import DaemonReport, ProcessReport
from termal.procs.tree import sweep
from tests.support.supervise import Tree
from tests.support.waiting import wait_until

_HERE = Path(__file__).parent
REPORT_S = 0.02
"""Tests read the report instead of waiting for it; a real daemon writes it once a second."""


def tiny(name: str, vice: str = "well", argument: str = "", **fields: Any) -> Spec:
    return Spec(name=name, argv=[sys.executable, str(_HERE / "tiny_worker.py"), vice, argument], **fields)


class DaemonUnderTest:
    """A context manager: whatever a test did, no process is left behind."""

    def __init__(
        self, home: Path, specs: list[Spec], limits: Limits | None = None, *, portable: bool = False, port: str = "0"
    ) -> None:
        self.home = Home(home)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.tree = home.parent / f"{home.name}.tree.json"
        self.tree.write_bytes(msgspec.json.encode(Tree(specs, replace(limits or Limits(), report_s=REPORT_S))))
        self.environment = {**os.environ, "TERMAL_PORTABLE": "1" if portable else "0"}
        self.port = port
        self.process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str) -> "DaemonUnderTest":
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(_HERE / "supervise.py"),
                str(self.tree),
                "--home",
                str(self.home.root),
                "--port",
                self.port,
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=_HERE.parent.parent,
        )
        return self

    def __enter__(self) -> "DaemonUnderTest":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        sweep(self.home.mark)

    # -- what it says

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def report(self) -> DaemonReport | None:
        try:
            report = msgspec.json.decode(self.home.report.read_bytes(), type=DaemonReport)
        except FileNotFoundError:
            return None
        return report if report.pid == self.pid else None

    def row(self, name: str) -> ProcessReport | None:
        report = self.report()
        return next((row for row in report.processes if row.name == name), None) if report else None

    def wait_for(self, name: str, state: str, *, restarts: int = 0) -> ProcessReport:
        return self.wait_for_row(name, lambda row: row.state == state and row.restarts >= restarts, state)

    def wait_for_row(self, name: str, condition: Callable[[ProcessReport], object], what: str) -> ProcessReport:
        def there() -> ProcessReport | None:
            row = self.row(name)
            return row if row is not None and condition(row) else None

        return wait_until(there, f"{name} to be {what}: {self.report()}")

    def wait_until_serving(self) -> str:
        """The line with which it says so."""
        assert self.process is not None
        assert self.process.stdout is not None
        pipe = self.process.stdout
        wait_until(lambda: select.select([pipe], [], [], 0)[0], f"the daemon to serve: {self.report()}")
        line = pipe.readline()
        assert line, self.process.communicate()
        return line.strip()

    def starts(self, name: str) -> list[dict[str, Any]]:
        return self._notes("starts", name)

    def told(self, name: str) -> list[Any]:
        return self._notes("told", name)

    def note(self, file: str, name: str) -> Any:
        return wait_until(lambda: self._notes(file, name), f"{name} to note {file}")[-1]

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.home.log("supervisor").read_text("utf-8").splitlines()]

    def events(self) -> list[str]:
        return [line["event"] for line in self.log()]

    def _notes(self, file: str, name: str) -> list[Any]:
        with contextlib.suppress(FileNotFoundError):
            # The last line may still be on its way.
            lines = (self.home.root / f"{file}.{name}").read_text("utf-8").split("\n")[:-1]
            return [json.loads(line) for line in lines]
        return []

    # -- what is done to it

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.send(number)
        return self.ended()[0]

    def ended(self) -> tuple[int, str]:
        """Its exit status and what it wrote to stderr."""
        assert self.process is not None
        _, errors = self.process.communicate(timeout=15)
        return self.process.returncode, errors


class Life:
    """A FIFO that processes hold open: `letters` says who began to live, `all_dead` that nobody does any more."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.letters = b""

    def wait_for(self, letters: str) -> None:
        wait_until(
            lambda: self._read() and sorted(self.letters) == sorted(letters.encode()), f"signs of life: {letters}"
        )

    def all_dead(self) -> bool:
        return not self._read()

    def close(self) -> None:
        os.close(self._fd)

    def _read(self) -> bool:
        """Whether anybody holds the other end."""
        try:
            data = os.read(self._fd, 4096)
        except BlockingIOError:
            return True
        self.letters += data
        return bool(data)


@contextlib.contextmanager
def life(home: Path) -> Iterator[Life]:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Life(home / "life")
    try:
        yield made
    finally:
        made.close()
