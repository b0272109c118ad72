"""How a daemon ends and reloads: the order, the deadlines, the second signal, and what systemd hears."""

import os
import signal
import socket
from pathlib import Path

import pytest

from supervisor.tree import Limits, Spec
from tests.support.supervised import DaemonUnderTest, life, tiny
from tests.support.waiting import wait_until


def whole_tree(**vices: str) -> list[Spec]:
    return [
        tiny("state", vices.get("state", "well"), role="core", stage=0),
        tiny("coordination", vices.get("coordination", "well"), role="core", after=["state"], stage=1),
        tiny("wake", vices.get("wake", "well"), after=["coordination"], stage=2),
        tiny("runtime-acp", vices.get("runtime", "well"), after=["wake"], stage=3),
        tiny("runtime-claude", after=["wake"], stage=3),
        tiny("gateway", vices.get("gateway", "drains"), role="essential", after=["wake"], stage=4, listens=True),
    ]


def serve(daemon: DaemonUnderTest) -> None:
    daemon.wait_until_serving()
    for name in ("runtime-acp", "runtime-claude"):
        daemon.wait_for(name, "ready")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_goes_from_the_gateway_down_to_state_and_exits_0(home_dir: Path, number: int) -> None:
    with DaemonUnderTest(home_dir, whole_tree()) as daemon:
        serve(daemon)
        assert daemon.stop(number) == 0
        stopped = [(line["worker"], line.get("code")) for line in daemon.log() if line["event"] == "worker.stopped"]
        assert [name for name, _ in stopped if not name.startswith("runtime")] == [
            "gateway",
            "wake",
            "coordination",
            "state",
        ]
        assert {name for name, _ in stopped[1:3]} == {"runtime-acp", "runtime-claude"}
        assert {code for _, code in stopped} == {0}
        assert daemon.told("state")[-1] == "Stop"
        report = daemon.report()
        assert report is None or report.state == "down"


@pytest.mark.slow
def test_workers_that_do_not_stop_are_killed_within_the_deadline_and_it_still_exits_0(home_dir: Path) -> None:
    limits = Limits(stop_s=4.0)
    with life(home_dir) as alive:
        with DaemonUnderTest(home_dir, whole_tree(wake="deaf", state="deaf"), limits) as daemon:
            serve(daemon)
            assert daemon.stop() == 0
            overdue = [line["worker"] for line in daemon.log() if line["event"] == "worker.stop_overdue"]
            assert overdue == ["wake", "state"]
        wait_until(alive.all_dead, "all workers to be dead")


def test_a_second_signal_does_not_wait(home_dir: Path) -> None:
    limits = Limits(stop_s=600.0)
    specs = [
        tiny("state", "deaf", role="core", stop_s=600.0),
        tiny("gateway", role="essential", after=["state"], stage=1),
    ]
    with life(home_dir) as alive, DaemonUnderTest(home_dir, specs, limits) as daemon:
        daemon.wait_until_serving()
        daemon.send(signal.SIGTERM)
        wait_until(lambda: "Stop" in daemon.told("state"), "state to be told to stop")
        assert daemon.stop() == 0
        assert daemon.events()[-1] == "daemon.ended"
        wait_until(alive.all_dead, "all workers to be dead")


def test_a_signal_during_the_start_stops_what_there_is(home_dir: Path) -> None:
    specs = [tiny("state", role="core"), tiny("coordination", "never-ready", role="core", after=["state"], stage=1)]
    with DaemonUnderTest(home_dir, specs) as daemon:
        daemon.wait_for("coordination", "starting")
        assert daemon.stop() == 0
        assert "worker.stop_overdue" not in daemon.events()


def test_a_daemon_starts_again_on_the_same_port_and_directory_after_a_stop(home_dir: Path) -> None:
    specs = [
        tiny("state", role="core"),
        tiny("gateway", "drains", role="essential", after=["state"], listens=True, stage=1),
    ]
    with DaemonUnderTest(home_dir, specs) as first:
        port = first.wait_until_serving().split(":")[2].split(" ")[0]
        assert first.stop() == 0
    with DaemonUnderTest(home_dir, specs, port=port) as second:
        assert f":{port} " in second.wait_until_serving()
        assert second.stop() == 0


def test_hang_up_has_everybody_read_the_configuration_again_and_a_wrong_one_is_refused(home_dir: Path) -> None:
    with DaemonUnderTest(home_dir, [tiny("state", role="core")]) as daemon:
        daemon.wait_until_serving()
        (home_dir / "config.toml").write_text("durability = 'never'")
        daemon.send(signal.SIGHUP)
        wait_until(lambda: "config.refused" in daemon.events(), "the configuration to be refused")
        assert "Reload" not in daemon.told("state")
        (home_dir / "config.toml").write_text("durability = 'full'")
        daemon.send(signal.SIGHUP)
        wait_until(lambda: "Reload" in daemon.told("state"), "state to be told")
        assert daemon.wait_for("state", "ready").restarts == 0
        assert daemon.stop() == 0


def test_systemd_hears_the_start_the_watchdog_the_reload_and_the_stop(home_dir: Path, run_dir: Path) -> None:
    daemon = DaemonUnderTest(home_dir, [tiny("state", role="core")])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(run_dir / "notify"))
        manager.setblocking(False)
        heard: list[str] = []

        def said(word: str) -> bool:
            try:
                heard.append(manager.recv(4096).decode())
            except BlockingIOError:
                return any(message.startswith(word) for message in heard)
            return False

        daemon.environment |= {"NOTIFY_SOCKET": str(run_dir / "notify"), "WATCHDOG_USEC": "400000"}
        with daemon:
            wait_until(lambda: said("READY=1\nSTATUS=serving"), "systemd to hear READY")
            heard.clear()
            wait_until(lambda: said("WATCHDOG=1"), "the watchdog to be fed")
            daemon.send(signal.SIGHUP)
            wait_until(lambda: said("RELOADING=1"), "systemd to hear of the reload")
            wait_until(lambda: said("READY=1\nSTATUS=ok"), "systemd to hear the end of the reload")
            heard.clear()
            assert daemon.stop() == 0
            assert said("nothing") or said("STOPPING=1") or wait_until(lambda: said("STOPPING=1"), "STOPPING")


def _folder_instead(file: Path) -> bool:
    """Whether ``file`` is a directory now: whoever writes it may have been faster."""
    file.unlink(missing_ok=True)
    try:
        file.mkdir()
    except FileExistsError:
        return False
    return True


def test_a_report_on_a_full_disk_keeps_nobody_from_serving(home_dir: Path) -> None:
    with DaemonUnderTest(home_dir, [tiny("state", role="core")]) as daemon:
        daemon.wait_until_serving()
        # As root no mode would keep it from writing, but nothing replaces a directory.
        wait_until(lambda: _folder_instead(daemon.home.report), "a moment in which no report is written")
        pid = daemon.starts("state")[0]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len(daemon.starts("state")) == 2, "state to be replaced")
        wait_until(lambda: "report.not_written" in daemon.events(), "the failure to be logged")
        assert daemon.stop() == 0
