"""A worker as a real process, with the test as its supervisor: launch, control lines, stop, kill."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from termal.home import Home, find_home, prepare
from termal.wire.control import Beat, Stop, ToSupervisor, ToWorker, decode_to_supervisor, encode_line
from termal.wire.launch import Launch, StartKind
from tests.support.waiting import wait_until

LineT = TypeVar("LineT")


class ControlPeer:
    """Starts ``python -m module *arguments`` at once; use as a context manager, which leaves no process behind.

    ``name`` defaults to the module's last part. ``faults`` becomes ``TERMAL_FAULTS``. `lines` holds what the worker
    has said so far (read only by the methods here; no thread). Its stderr goes to the file `errors`.
    """

    def __init__(
        self,
        module: str,
        home: Path,
        run_dir: Path,
        *,
        name: str | None = None,
        start: StartKind = "boot",
        arguments: Sequence[str] = (),
        running: Sequence[str] = (),
        portable: bool = False,
        faults: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.home: Home = find_home(str(home))
        self.name = name or module.rpartition(".")[2]
        self.lines: list[ToSupervisor] = []
        self.errors = run_dir / f"{self.name}.stderr"
        self._received = b""
        prepare(self.home)
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.launch = Launch(
            name=self.name,
            home=str(self.home.root),
            run_dir=str(run_dir),
            control_fd=theirs.fileno(),
            start=start,
            mark=self.home.mark,
            running=list(running),
            portable=portable,
        )
        with theirs, self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=self._environment(faults, environment or {}),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        ours.setblocking(False)

    @property
    def pid(self) -> int:
        return self.process.pid

    # ---------------------------------------------------------------------- lines

    def said(self, kind: type[LineT]) -> list[LineT]:
        """All lines of ``kind`` so far."""
        self._read()
        return [line for line in self.lines if isinstance(line, kind)]

    def wait_for(self, kind: type[LineT], count: int = 1) -> LineT:
        """The ``count``-th line of ``kind``; fails the test after five seconds, with the worker's stderr."""
        try:
            return wait_until(lambda: self.said(kind)[count - 1 : count], f"{kind.__name__} from {self.name}")[0]
        except AssertionError as error:
            raise AssertionError(f"{error}; lines {self.lines}; stderr: {self.stderr()}") from None

    def forget_beats(self) -> None:
        """Drop the heartbeats seen so far, so that `wait_for` means a new one."""
        self._read()
        self.lines = [line for line in self.lines if not isinstance(line, Beat)]

    def order(self, line: ToWorker) -> None:
        self.socket.send(encode_line(line) + b"\n")

    # ------------------------------------------------------------------------ end

    def stop(self, within_s: float = 5.0) -> int:
        """Order a stop and return the exit code."""
        self.order(Stop(time.monotonic() + within_s))
        return self.wait()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(5)

    def hang_up(self) -> None:
        """Close our end of the control socket, as the death of a supervisor does."""
        self.socket.close()

    def wait(self, limit_s: float = 5.0) -> int:
        """The exit code (negative: the signal), read to the last line."""
        try:
            code = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end; lines {self.lines}; stderr: {self.stderr()}") from None
        self._read()
        return code

    def stderr(self) -> str:
        return self.errors.read_text("utf-8", "replace")

    def __enter__(self) -> "ControlPeer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        self.socket.close()

    # -------------------------------------------------------------------- private

    def _environment(self, faults: Path | None, more: Mapping[str, str]) -> dict[str, str]:
        environment = {**os.environ, **self.launch.to_environment(), **more}
        environment.pop("TERMAL_FAULTS", None)
        if faults is not None:
            faults.mkdir(exist_ok=True)
            environment["TERMAL_FAULTS"] = str(faults)
        return environment

    def _read(self) -> None:
        while self.socket.fileno() >= 0:
            try:
                data = self.socket.recv(1 << 16)
            except (BlockingIOError, ConnectionResetError):
                return
            if not data:
                return
            *lines, self._received = (self._received + data).split(b"\n")
            self.lines += [decode_to_supervisor(line) for line in lines]
