"""Everyday work from a shell, against a real daemon: the README's first ten minutes, and what comes after a crash."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.daemon import Daemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

TERMAL = [sys.executable, "-c", "from termal.cli.main import main; main()"]


class Shell:
    """Runs ``termal`` with the daemon's home in the environment."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self._environment = {**os.environ, "TERMAL_HOME": str(daemon.home.root)}
        self._environment.pop("TERMAL_BASE_URL", None)
        self._folder = folder

    def run(self, *arguments: str, text: str = "", code: int = 0) -> str:
        ran = subprocess.run(
            [*TERMAL, *arguments],
            env=self._environment,
            cwd=self._folder,
            input=text,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert ran.returncode == code, (ran.stdout, ran.stderr)
        assert "Traceback" not in ran.stderr
        return ran.stdout if code == 0 or ran.stdout else ran.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))


@pytest.fixture
def daemon(home_dir: Path) -> Iterator[Daemon]:
    with Daemon(home_dir) as running:
        yield running.start()


@pytest.fixture
def shell(daemon: Daemon, run_dir: Path) -> Shell:
    folder = run_dir / "work"
    folder.mkdir()
    return Shell(daemon, folder)


def test_the_first_ten_minutes_of_the_readme(daemon: Daemon, shell: Shell) -> None:
    assert shell.run("health").startswith("ok: ")
    assert f"at {daemon.url}" in shell.run("status")
    session = shell.run("sessions", "create", "--agent", "Demo", "--name", "First").strip()
    assert shell.run("send", session, "say Hello", "--follow") == "assistant: Hello\n"
    assert shell.run("send", session, "run echo $((6 * 7))").endswith(" running\n")
    wait_until(lambda: shell.json("status")["sessions"]["approval"], "the agent's question", 20)
    assert "termal approve" in shell.run("sessions", "list")
    assert "accepted" in shell.run("approve", session)
    wait_until(lambda: "42" in shell.run("tail", session), "the command's output", 20)
    shell.run("send", session, "wait 60")
    assert "queued" in shell.run("send", session, "-", text="say queued\n")
    assert "queued" in shell.run("sessions", "show", session)
    shell.run("stop", session)
    wait_until(lambda: "assistant: queued" in shell.run("tail", session), "the queued prompt to run", 20)
    shell.run("kill", session)
    assert "no sessions yet" in shell.run("sessions", "list")


def test_the_rest_of_the_readme(shell: Shell) -> None:
    first, reader = (shell.run("sessions", "create", "--agent", "Demo").strip() for _ in range(2))
    assert "deliveredToIdleSession" in shell.run("mail", "send", first, reader, "The parser is done.")
    wait_until(lambda: "1 unread message" in shell.run("tail", reader), "the receiver to be told", 20)
    assert "The parser is done." in shell.run("mail", "read", reader, first)
    assert "0 unread" in shell.run("mail", "ack", reader, first)
    made = shell.run("delegate", "spawn", first, "say All is well.", "--mode", "explorer").strip()
    shell.run("delegate", "wait", first)
    assert made in shell.run("delegate", "list", first)
    assert "All is well." in shell.run("search", "well")
    project = shell.run("projects", "add", ".").strip()
    lead = shell.run("sessions", "create", "--agent", "Demo", "--project", project).strip()
    shell.run("board", "set", lead, "gates.build", "true")
    assert "gates.build" in shell.run("board", "list", lead)
    shell.run("kill", first)
    assert first not in {session["id"] for session in shell.json("sessions", "list")}


def test_a_repeat_with_the_same_key_sends_nothing_again(shell: Shell) -> None:
    session = shell.json("sessions", "create", "--agent", "Demo")["sessionId"]
    first = shell.json("send", session, "say once", "--key", "k")
    assert shell.json("send", session, "say once", "--key", "k")["promptId"] == first["promptId"]
    wait_until(
        lambda: shell.json("sessions", "show", session)["session"]["status"] == "idle", "the end of the turn", 20
    )
    messages = shell.json("tail", session)["session"]["messages"]
    assert [message["text"] for message in messages] == ["say once", "once"]


def test_what_the_daemon_refuses_is_one_line_and_exit_code_1(shell: Shell) -> None:
    session = shell.run("sessions", "create", "--agent", "Demo").strip()
    refused = {
        "no such session": ["stop", "session-99"],
        "waits for no answer": ["approve", session],
        "termal: ": ["stop", session],
        "director": ["sessions", "create", "--agent", "Demo", "--workdir", "/does/not/exist"],
    }
    for words, arguments in refused.items():
        said = shell.run(*arguments, code=1)
        assert said.startswith("termal: ")
        assert words in said
        assert said.count("\n") == 1


def test_following_a_turn_that_fails_ends_with_exit_code_1(shell: Shell) -> None:
    session = shell.run("sessions", "create", "--agent", "Demo").strip()
    assert "no more ideas" in shell.run("send", session, "fail no more ideas", "--follow", code=1)


def test_status_and_health_tell_of_a_daemon_that_stands_still(daemon: Daemon, shell: Shell) -> None:
    worker = psutil.Process(daemon.pid_of("gateway-worker"))
    worker.send_signal(signal.SIGSTOP)
    try:
        assert shell.run("status").startswith("The daemon does not answer (")
        assert shell.run("health", code=2).startswith("down: ")
    finally:
        worker.send_signal(signal.SIGCONT)
    wait_until(daemon.healthy, "health after the pause")


def test_status_tells_of_a_daemon_that_was_killed(daemon: Daemon, shell: Shell) -> None:
    pid = daemon.pid
    daemon.kill_supervisor()
    wait_until(lambda: not daemon.marked(), "every process to be gone")
    assert f"the last one was process {pid}" in shell.run("status")
    assert shell.run("sessions", "list", code=69).startswith("termal: no daemon runs")
    assert shell.json("doctor")["ok"]


def test_doctor_finds_a_running_daemon_in_order(shell: Shell) -> None:
    findings = shell.json("doctor")["findings"]
    assert [finding for finding in findings if finding["level"] == "problem"] == []
    assert {finding["subject"] for finding in findings if finding["text"] == "is whole"} == {
        "termal.sqlite",
        "coordination.sqlite",
    }
