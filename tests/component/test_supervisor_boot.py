"""The first steps of a start and everything that ends it there: each with its exit status and a sentence."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.tree import Limits
from termal.home import Home, socket_folder
from tests.support.supervised import DaemonUnderTest, tiny
from tests.support.waiting import wait_until

ALONE = [tiny("state", role="core")]


def refused(daemon: DaemonUnderTest, *arguments: str) -> tuple[int, str]:
    """Start it, and wait for its end: exit status and stderr."""
    daemon.start(*arguments)
    return daemon.ended()


def test_a_daemon_says_that_it_serves_who_it_is_and_where(home_dir: Path) -> None:
    with DaemonUnderTest(home_dir, ALONE) as daemon:
        line = daemon.wait_until_serving()
        said = json.loads(daemon.home.daemon.read_text())
        assert line == f"TermAl {said['version']} serving {said['url']} (home {home_dir})"
        assert (said["pid"], said["home"]) == (daemon.pid, str(home_dir))
        assert said["startTime"] > 0
        assert [file.stat().st_mode & 0o777 for file in (daemon.home.daemon, daemon.home.report)] == [0o600, 0o600]
        assert home_dir.stat().st_mode & 0o777 == 0o700
        assert daemon.stop() == 0
        assert not daemon.home.daemon.exists()


def test_a_second_daemon_on_one_directory_exits_75_and_names_the_first_and_its_address(home_dir: Path) -> None:
    with DaemonUnderTest(home_dir, ALONE) as first:
        first.wait_until_serving()
        url = json.loads(first.home.daemon.read_text())["url"]
        second = DaemonUnderTest(home_dir, ALONE)
        code, errors = refused(second)
        assert code == 75
        assert errors == f"termal: {home_dir} belongs to a running daemon: process {first.pid} at {url}\n"
        assert first.wait_for("state", "ready").restarts == 0
        assert first.stop() == 0


def test_a_port_in_use_exits_74_and_names_its_owner_before_any_worker_starts(home_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        daemon = DaemonUnderTest(home_dir, ALONE, port=str(port))
        code, errors = refused(daemon)
    assert code == 74
    assert f"port {port} on 127.0.0.1 is in use by process {os.getpid()} (" in errors
    assert daemon.starts("state") == []


def test_the_port_of_a_daemon_that_does_not_listen_yet_is_in_use_as_well(run_dir: Path) -> None:
    with DaemonUnderTest(run_dir / "first", ALONE) as first:
        port = first.wait_until_serving().split(":")[2].split(" ")[0]
        code, errors = refused(DaemonUnderTest(run_dir / "second", ALONE, port=port))
        assert code == 74
        assert f"port {port} on 127.0.0.1 is in use" in errors
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)))


@pytest.mark.parametrize("folder", ["/proc/termal", "/dev/null/termal"])
def test_a_directory_that_cannot_be_made_exits_73(run_dir: Path, folder: str) -> None:
    daemon = DaemonUnderTest(run_dir / "unused", ALONE)
    daemon.home = Home(Path(folder))
    code, errors = refused(daemon)
    assert code == 73
    assert errors.startswith(f"termal: {folder} cannot be made")
    assert errors.endswith("give another --home\n")


@pytest.mark.parametrize(
    ("config", "arguments", "words"),
    [
        pytest.param("port = 'x'", [], "config.toml", id="wrong value in the configuration"),
        pytest.param("", ["--host", "0.0.0.0"], 'auth = "token"', id="open to others without a token"),
        pytest.param("", ["--port", "70000"], "70000 is no port", id="no such port"),
        pytest.param("", ["--port", "x"], "--port", id="port no number"),
        pytest.param("", ["--frobnicate"], "--frobnicate", id="unknown argument"),
    ],
)
def test_a_start_that_was_asked_for_wrongly_exits_64_and_says_why(
    home_dir: Path, config: str, arguments: list[str], words: str
) -> None:
    daemon = DaemonUnderTest(home_dir, ALONE)
    (home_dir / "config.toml").write_text(config)
    code, errors = refused(daemon, *arguments)
    assert code == 64
    assert words in errors
    assert "Traceback" not in errors


def test_the_port_comes_from_the_command_line_then_the_environment_then_the_configuration(home_dir: Path) -> None:
    daemon = DaemonUnderTest(home_dir, ALONE)
    (home_dir / "config.toml").write_text("port = 1")
    daemon.environment["TERMAL_PORT"] = "0"
    daemon.port = "0"
    program = [sys.executable, str(Path(__file__).parent.parent / "support" / "supervise.py"), str(daemon.tree)]
    started = subprocess.Popen(
        [*program, "--home", str(home_dir)], stdout=subprocess.PIPE, text=True, env=daemon.environment
    )
    try:
        assert started.stdout is not None
        wait_until(daemon.home.daemon.exists, "the daemon to say who it is")
        assert json.loads(daemon.home.daemon.read_text())["url"] != "http://127.0.0.1:1"
    finally:
        started.terminate()
        started.communicate(timeout=10)


@pytest.mark.parametrize(
    ("vice", "argument", "code", "words"),
    [("refuses", "", 65, "the file is of another program"), ("exits", "64", 64, "the last words")],
)
def test_a_core_worker_that_refuses_at_boot_ends_the_daemon_with_its_message(
    home_dir: Path, vice: str, argument: str, code: int, words: str
) -> None:
    specs = [tiny("state", vice, argument, role="core"), tiny("coordination", after=["state"])]
    daemon = DaemonUnderTest(home_dir, specs)
    ended, errors = refused(daemon)
    assert ended == code
    assert errors.startswith(f"termal: state refused to start: exit {code}: {words}")
    assert errors.count("\n") == 1
    assert len(daemon.starts("state")) == 1
    assert daemon.starts("coordination") == []
    report = daemon.report()
    assert report is not None
    assert report.state == "down"
    row = daemon.row("state")
    assert row is not None
    assert (row.state, row.last_exit and row.last_exit.code) == ("failed", code)


def test_a_home_whose_path_is_too_long_for_sockets_gets_a_short_folder_for_them(run_dir: Path) -> None:
    long_home = run_dir / ("x" * 100)
    with DaemonUnderTest(long_home, [tiny("state", role="core")]) as daemon:
        daemon.wait_until_serving()
        launch = daemon.note("launch", "state")
        folder = Path(launch["run_dir"])
        assert folder == socket_folder(Home(long_home))
        assert folder != long_home / "run"
        assert len(os.fsencode(folder / "runtime-claude.events")) <= 107
        assert daemon.stop() == 0
    folder.rmdir()


def test_workers_are_told_everything_and_inherit_nothing_that_was_meant_for_the_daemon(home_dir: Path) -> None:
    daemon = DaemonUnderTest(home_dir, [tiny("state", role="core")], Limits())
    daemon.environment |= {"NOTIFY_SOCKET": "/no/where", "WATCHDOG_USEC": "9000000", "LISTEN_FDS": "1", "KEPT": "yes"}
    with daemon:
        daemon.wait_until_serving()
        launch = daemon.note("launch", "state")
        environment = daemon.note("environment", "state")
        assert (launch["name"], launch["home"], launch["mark"]) == ("state", str(home_dir), daemon.home.mark)
        assert (launch["start"], launch["running"], launch["portable"]) == ("boot", [], False)
        assert environment["TERMAL_RUNTIME"] == daemon.home.mark
        assert environment["KEPT"] == "yes"
        assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS"} & set(environment)
        assert daemon.stop() == 0


def test_leftovers_of_an_earlier_daemon_are_ended_before_a_worker_starts(home_dir: Path) -> None:
    daemon = DaemonUnderTest(home_dir, ALONE)
    environment = {**os.environ, "TERMAL_RUNTIME": daemon.home.mark}
    leftover = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=environment)
    with daemon:
        daemon.wait_until_serving()
        assert leftover.wait(5) == -9
        assert [line["ended"] for line in daemon.log() if line["event"] == "boot.leftovers"] == [[leftover.pid]]
        assert daemon.stop() == 0
