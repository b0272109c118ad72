"""A real daemon in a throw-away home: started as its own program, watched and killed from outside."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psutil

from termal.home import Home, find_home
from termal.wire.launch import MARK_VARIABLE
from tests.support.waiting import wait_until

START_S = 20.0
STOP_S = 15.0


class Daemon:
    """One home with a daemon that can be started, killed and started again. Use as a context manager."""

    def __init__(
        self,
        home: Path,
        *,
        environment: dict[str, str] | None = None,
        arguments: list[str] | None = None,
        faults: bool = True,
    ) -> None:
        self.home: Home = find_home(str(home))
        self._environment = environment or {}
        self._with_faults = faults
        self._arguments = arguments or []
        self._process: subprocess.Popen[bytes] | None = None
        self.faults = Path(str(home) + "-faults")
        self.output = Path(str(home) + "-output.txt")

    # -------------------------------------------------------------- life

    def start(self, *, ready: bool = True) -> "Daemon":
        self.faults.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            **({"TERMAL_FAULTS": str(self.faults)} if self._with_faults else {}),
            "TERMAL_PORT": "0",
            **self._environment,
        }
        environment.pop("TERMAL_HOME", None)
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "supervisor", "--home", str(self.home.root), *self._arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        if ready:
            self.wait_healthy()
        return self

    def wait_healthy(self, limit_s: float = START_S) -> None:
        wait_until(self.healthy, f"a healthy daemon; it printed: {self.printed()[-2000:]}", limit_s)

    def healthy(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"the daemon ended with {self._process.returncode}: {self.printed()[-3000:]}")
        try:
            body = httpx.get(self.url + "/api/health", timeout=2).json()
        except (httpx.HTTPError, OSError, ValueError, KeyError):
            return False
        return bool(body.get("state") == "ok")

    def stop(self) -> int:
        """SIGTERM and the exit status."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        status = process.wait(STOP_S)
        self._process = None
        return status

    def wait_exit(self, limit_s: float = START_S) -> int:
        assert self._process is not None
        status = self._process.wait(limit_s)
        self._process = None
        return status

    def kill_supervisor(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_S)
        self._process = None

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            # Nobody may read it any more; the daemon ends all the same.
            with contextlib.suppress(OSError):
                sys.stderr.write(self.describe())
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_S)
        left = self.marked()
        for process in left:
            process.kill()
        if kind is None:
            assert not left, f"processes left behind: {[describe(process) for process in left]}"

    # ------------------------------------------------------------- facts

    @property
    def url(self) -> str:
        return str(json.loads(self.home.daemon.read_text("utf-8"))["url"])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def printed(self) -> str:
        return self.output.read_text("utf-8", "replace") if self.output.exists() else ""

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.home.report.read_text("utf-8"))
        return report

    def row(self, name: str) -> dict[str, Any] | None:
        return next((row for row in self.report()["processes"] if row["name"] == name), None)

    def pid_of(self, name: str) -> int:
        """The pid of a process by its name in the report; ``gateway-worker`` is gunicorn's child."""
        if name == "gateway-worker":
            children = psutil.Process(self.pid_of("gateway")).children()
            return int(children[0].pid)
        row = self.row(name)
        assert row is not None, f"{name} is not in the report"
        assert row["pid"] is not None, f"{name} has no process"
        return int(row["pid"])

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        pid = self.pid_of(name)
        os.kill(pid, number)
        return pid

    def marked(self) -> list[psutil.Process]:
        """Every live process whose environment carries this home's mark."""
        found = []
        for process in psutil.process_iter():
            try:
                value = process.environ().get(MARK_VARIABLE, "")
                if value.startswith(self.home.mark) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def command_lines(self) -> list[str]:
        """Of every such process that still lives."""
        lines = []
        for process in self.marked():
            with contextlib.suppress(psutil.Error):
                lines.append(" ".join(process.cmdline()))
        return lines

    def describe(self) -> str:
        parts = [f"\n--- daemon in {self.home.root}\n{self.printed()[-4000:]}"]
        if self.home.logs.exists():
            files = sorted(self.home.logs.iterdir())
            parts += [f"--- {file.name}\n{file.read_text('utf-8', 'replace')[-3000:]}" for file in files]
        return "\n".join(parts)

    # ------------------------------------------------------------ faults

    def arm(self, point: str, action: str = "kill") -> None:
        (self.faults / point).write_text(action, "utf-8")

    def fired(self, point: str) -> bool:
        return not (self.faults / point).exists()

    # ----------------------------------------------------------- actions

    def client(self, timeout_s: float = 20.0) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=timeout_s)


class Person:
    """One user of the daemon with a session of their own; repeats a request under its key until it has an answer.

    ``waits_out_pauses``: also where it is refused because the agent ended right after its start, which whoever kills
    agents by chance will do to some.
    """

    def __init__(
        self,
        daemon: Daemon,
        name: str,
        *,
        agent: str = "Demo",
        workdir: Path | None = None,
        waits_out_pauses: bool = False,
    ) -> None:
        self._daemon = daemon
        self._http = daemon.client()
        self.name = name
        self.waits_out_pauses = waits_out_pauses
        self.repeats = 0
        self.failed_reads: list[str] = []
        reply = self.until_answered(
            "POST",
            "/api/sessions",
            {"agent": agent, "name": name, "workdir": str(workdir or daemon.home.root)},
            key=f"create-{name}",
        )
        self.session_id: str = reply["sessionId"]

    def close(self) -> None:
        self._http.close()

    def reconnect(self) -> None:
        """Use the address of the daemon that runs now."""
        self._http.close()
        self._http = self._daemon.client()

    def until_answered(
        self, method: str, path: str, body: dict[str, Any] | None, *, key: str, limit_s: float = 30.0, refusal: int = 0
    ) -> Any:
        """The JSON of the first 2xx reply, None for ``refusal``; lost connections, 503 and 504 are repeated by key."""
        end = time.monotonic() + limit_s
        last = ""
        while time.monotonic() < end:
            try:
                reply = self._http.request(method, path, json=body, headers={"Idempotency-Key": key})
            except httpx.HTTPError as error:
                last = repr(error)
            else:
                if reply.is_success:
                    return reply.json()
                last = f"{reply.status_code} {reply.text[:300]}"
                if reply.status_code == refusal:
                    return None
                paused = reply.status_code == 409 and reply.json().get("reason") == "agentExits"
                if reply.status_code not in (503, 504) and not (paused and self.waits_out_pauses):
                    raise AssertionError(f"{method} {path}: {last}")
            self.repeats += 1
            time.sleep(0.02)
        raise AssertionError(f"{method} {path} had no answer in {limit_s} s: {last}")

    def prompt(self, text: str, key: str) -> bool:
        """True when it was acknowledged; False when the answer says that its turn failed to start (500): the prompt is
        in the transcript, and nobody works on it."""
        path = f"/api/sessions/{self.session_id}/messages"
        return self.until_answered("POST", path, {"text": text}, key=key, refusal=500) is not None

    def read(self, tail: int = 64) -> dict[str, Any]:
        """The session with its newest messages. Only a lost connection (a killed gateway) is repeated."""
        for attempt in range(200):
            try:
                reply = self._http.get(f"/api/sessions/{self.session_id}", params={"tail": tail})
            except httpx.TransportError:
                time.sleep(0.02 * (attempt > 0))
                continue
            if not reply.is_success:
                self.failed_reads.append(f"{reply.status_code} {reply.text[:200]}")
                time.sleep(0.02)
                continue
            session: dict[str, Any] = reply.json()["session"]
            return session
        raise AssertionError(f"no read in 200 attempts: {self.failed_reads[-3:]}")

    def wait_idle(self, limit_s: float = 20.0) -> dict[str, Any]:
        """The session once no turn runs (idle or error)."""
        return wait_until(
            lambda: session if (session := self.read())["status"] in ("idle", "error") else None,
            f"{self.name} to be idle",
            limit_s,
        )

    def transcript(self) -> list[dict[str, Any]]:
        """The whole transcript by pages, oldest first."""
        messages: list[dict[str, Any]] = []
        cursor: dict[str, Any] = {"from": "start"}
        while True:
            reply = self._http.get(f"/api/sessions/{self.session_id}/history", params={**cursor, "limit": 64})
            assert reply.is_success, reply.text
            page = reply.json()
            assert page["messageStartIndex"] == len(messages), "pages must be dense"
            messages += page["messages"]
            if not page["hasNewer"]:
                assert page["messageCount"] == len(messages)
                return messages
            cursor = {"after": page["nextAfter"]}


def describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:120]}"
    except psutil.Error:
        return str(process.pid)
