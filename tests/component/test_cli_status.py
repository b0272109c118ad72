"""Status and health when the daemon does not answer: files, locks, sockets and processes are real."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from termal.cli import main as cli
from termal.home import Home, prepare
from termal.procs.lock import DirectoryLock, Owner
from termal.procs.tree import start_time
from tests.support.waiting import wait_until


@pytest.fixture
def home(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    found = Home(home_dir)
    prepare(found)
    monkeypatch.setenv("TERMAL_HOME", str(home_dir))
    monkeypatch.delenv("TERMAL_BASE_URL", raising=False)
    return found


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for one of the daemon's."""
    program = "import sys; print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        process.kill()


@pytest.fixture
def silent_url() -> Iterator[str]:
    """An address where connections are taken and nothing is ever answered, as by a daemon that was paused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return int(ended.value.code or 0)


def write_daemon(home: Home, pid: int, url: str, started: float | None) -> None:
    home.daemon.write_text(
        json.dumps({"pid": pid, "startTime": started, "url": url, "version": "1.2.3", "home": str(home.root)}), "utf-8"
    )


def write_report(home: Home, *rows: dict[str, Any]) -> None:
    report = {
        "state": "ok",
        "version": "1.2.3",
        "home": str(home.root),
        "url": "http://127.0.0.1:1",
        "pid": os.getpid(),
        "startedAt": "2026-01-01T10:00:00Z",
        "writtenAt": "2026-01-01T10:00:00Z",
        "serving": True,
        "processes": list(rows),
    }
    home.report.write_text(json.dumps(report), "utf-8")


def row(name: str, pid: int, started: float | None, state: str = "ready") -> dict[str, Any]:
    return {"name": name, "pid": pid, "state": state, "startTimeS": started, "restarts": 2, "queueDepth": 7}


def status(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run("status", "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_without_a_data_directory_no_daemon_runs(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERMAL_HOME", str(home_dir))
    found = status(capsys)
    assert (found["state"], found["source"], found["processes"], found["databases"]) == (
        "down",
        "process table",
        [],
        [],
    )
    assert run("health") == 2
    assert capsys.readouterr().out == f"down: no daemon runs on {home_dir}: start one with `termal serve`\n"


def test_a_reused_pid_is_not_taken_for_the_daemon(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    mine = start_time(os.getpid())
    assert mine is not None
    write_daemon(home, os.getpid(), "http://127.0.0.1:1", mine - 1000)
    write_report(home, row("state", os.getpid(), mine - 1000))
    found = status(capsys)
    assert "the last one was process" in found["reason"]
    [process] = found["processes"]
    assert (process["pid"], process["state"], process["rssBytes"]) == (None, "stopped", 0)
    assert run("sessions", "list") == 69


def test_a_daemon_that_hangs_is_shown_from_the_process_table(
    home: Home, silent_url: str, worker: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    write_daemon(home, os.getpid(), silent_url, start_time(os.getpid()))
    write_report(home, row("state", worker.pid, start_time(worker.pid)), row("wake", 2**22 - 1, 1.0))
    home.termal_db.write_bytes(b"x" * 5000)
    found = status(capsys)
    assert f"its supervisor runs (pid {os.getpid()}), but nobody answers at {silent_url}" in found["reason"]
    by_name = {process["name"]: process for process in found["processes"]}
    assert by_name["state"]["pid"] == worker.pid
    assert by_name["state"]["rssBytes"] > 1 << 20
    assert by_name["state"]["fds"] >= 3
    assert (by_name["wake"]["state"], by_name["wake"]["queueDepth"]) == ("stopped", 0)
    assert [(database["name"], database["bytes"]) for database in found["databases"]] == [("termal.sqlite", 5000)]


def test_a_paused_worker_is_shown_as_unresponsive(
    home: Home, worker: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    write_report(home, row("state", worker.pid, start_time(worker.pid)))
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED, "the pause")
    [process] = status(capsys)["processes"]
    assert (process["state"], process["detail"]) == ("unresponsive", "paused by a signal")


def test_the_children_of_a_runtime_worker_are_its_agents(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    program = """
import subprocess, sys
child = subprocess.Popen(["cat"])
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
child.wait()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as runtime:
        assert runtime.stdout is not None
        agent = int(runtime.stdout.readline())
        write_report(home, row("runtime-acp", runtime.pid, start_time(runtime.pid)))
        [found] = status(capsys)["agents"]
        runtime.communicate("")
    assert (found["agent"], found["pid"], found["processes"]) == ("acp", agent, 1)


def test_who_holds_the_lock_without_an_address_is_named(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    lock = DirectoryLock(home, Owner(pid=os.getpid()))
    try:
        assert f"process {os.getpid()} holds the lock" in status(capsys)["reason"]
    finally:
        lock.close()


@pytest.mark.parametrize("text", ["", "{", '{"pid": "x"}', "[]"])
def test_damaged_files_are_no_reason_to_fail(home: Home, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    home.daemon.write_text(text, "utf-8")
    home.report.write_text(text, "utf-8")
    assert status(capsys)["processes"] == []


def test_the_tables_say_in_their_first_line_that_the_daemon_does_not_answer(
    home: Home, silent_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_daemon(home, os.getpid(), silent_url, start_time(os.getpid()))
    assert run("status") == 0
    assert capsys.readouterr().out.startswith("The daemon does not answer (")


@pytest.mark.slow
def test_a_hanging_daemon_keeps_neither_status_nor_health_waiting(home: Home, silent_url: str) -> None:
    write_daemon(home, os.getpid(), silent_url, start_time(os.getpid()))
    call = [sys.executable, "-c", "from termal.cli.main import main; main()"]
    # The limits are the commands' own; this one only turns a hang into a failure.
    assert subprocess.run([*call, "status"], stdout=subprocess.DEVNULL, timeout=10, check=False).returncode == 0
    assert subprocess.run([*call, "health"], stdout=subprocess.DEVNULL, timeout=10, check=False).returncode == 2


@pytest.mark.parametrize("option", [True, False], ids=["--base-url", "TERMAL_BASE_URL"])
def test_of_an_address_of_another_daemon_the_files_here_say_nothing(
    home: Home,
    silent_url: str,
    option: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A daemon runs on the usual directory, but it is not the one that was asked."""
    write_daemon(home, os.getpid(), silent_url, start_time(os.getpid()))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("TERMAL_BASE_URL", "" if option else url)
        given = ["--base-url", url] if option else []
        assert run("health", *given) == 2
        said = capsys.readouterr().out
        assert (said.startswith(f"down: no daemon answers at {url}"), silent_url in said) == (True, False)
        assert run("status", *given) == 69
        shown = capsys.readouterr()
        assert (shown.out, shown.err.startswith(f"termal: no daemon answers at {url}")) == ("", True)
