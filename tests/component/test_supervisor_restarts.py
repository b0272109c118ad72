"""Workers with one vice each, and what the supervisor makes of them. It stays well itself whatever they do."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from supervisor.policy import Rules
from supervisor.tree import Limits
from tests.support.supervised import DaemonUnderTest, life, tiny
from tests.support.waiting import wait_until

IMPATIENT = Limits(late_s=1.0, abort_s=2.0, kill_s=0.3)
"""Twenty missed heartbeats of a tiny worker, so that a busy machine makes nobody late."""
QUICK_TO_HOLD = Limits(rules=Rules(first_s=0.01, longest_s=0.05, most=2, hold_s=0.5, healthy_s=60.0))


def test_a_killed_worker_is_replaced_and_told_who_runs_while_nobody_else_restarts(home_dir: Path) -> None:
    specs = [tiny("state", role="core", has_boot=True), tiny("wake", after=["state"], has_boot=True)]
    with DaemonUnderTest(home_dir, specs) as daemon:
        daemon.wait_until_serving()
        first = daemon.wait_for("wake", "ready")
        pid = daemon.wait_for("state", "ready").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        row = daemon.wait_for("state", "ready", restarts=1)
        assert row.last_exit is not None
        assert (row.last_exit.code, row.last_exit.signal) == (None, signal.SIGKILL)
        assert row.pid != pid
        assert [(start["start"], start["running"]) for start in daemon.starts("state")] == [
            ("boot", []),
            ("replacement", ["wake"]),
        ]
        wake = daemon.row("wake")
        assert wake is not None
        assert (wake.pid, wake.restarts) == (first.pid, 0)
        assert daemon.stop() == 0


def test_figures_of_the_heartbeats_are_in_the_report(home_dir: Path) -> None:
    with DaemonUnderTest(home_dir, [tiny("state", role="core")]) as daemon:
        row = daemon.wait_for_row("state", lambda row: row.facts, "in the report with its figures")
        assert (row.queue_depth, row.op_latency_ms.p50, row.op_latency_ms.p99, row.facts) == (3, 0.5, 2.5, {"kept": 7})
        assert daemon.stop() == 0


def test_a_worker_stays_boot_until_it_says_that_its_part_of_the_boot_is_done(home_dir: Path) -> None:
    specs = [tiny("state", "fails-first", "2", role="core", has_boot=True)]
    with DaemonUnderTest(home_dir, specs) as daemon:
        daemon.wait_until_serving()
        assert [start["start"] for start in daemon.starts("state")] == ["boot", "boot", "boot"]
        assert daemon.stop() == 0


@pytest.mark.slow
def test_a_crash_loop_is_held_and_its_last_words_are_shown_without_secrets(home_dir: Path) -> None:
    specs = [tiny("state", role="core"), tiny("wake", "exits", "1", after=["state"])]
    with DaemonUnderTest(home_dir, specs, QUICK_TO_HOLD) as daemon:
        row = daemon.wait_for("wake", "failed", restarts=2)
        assert row.detail == "exit 1, tried again every 0.5 s: the last words | API_[...]"
        report = daemon.report()
        assert report is not None
        assert report.state == "degraded"
        assert report.reason == f"wake is failed ({row.detail})"
        tried = len(daemon.starts("wake"))
        wait_until(lambda: len(daemon.starts("wake")) > tried, "another attempt")
        assert daemon.stop() == 0


def test_the_gateway_starts_without_a_wake_that_is_held_and_the_daemon_is_degraded(home_dir: Path) -> None:
    specs = [
        tiny("state", role="core"),
        tiny("wake", "exits", "1", after=["state"], has_boot=True),
        tiny("gateway", role="essential", after=["state", "wake"], listens=True, stage=1),
    ]
    with DaemonUnderTest(home_dir, specs, QUICK_TO_HOLD) as daemon:
        daemon.wait_until_serving()
        assert all(start["start"] == "boot" for start in daemon.starts("wake"))
        report = daemon.report()
        assert report is not None
        wait_until(lambda: (now := daemon.report()) and now.serving and now.state == "degraded", "to be degraded")
        assert daemon.note("listens", "gateway") == 1
        assert daemon.stop() == 0


def test_an_optional_worker_that_refuses_keeps_nothing_from_starting(home_dir: Path) -> None:
    specs = [
        tiny("state", role="core"),
        tiny("wake", "refuses", after=["state"]),
        tiny("gateway", role="essential", after=["wake"]),
    ]
    with DaemonUnderTest(home_dir, specs) as daemon:
        daemon.wait_until_serving()
        row = daemon.wait_for("wake", "failed")
        assert row.detail == "exit 65: the file is of another program"
        assert len(daemon.starts("wake")) == 1
        assert daemon.stop() == 0


def test_a_core_worker_that_refuses_later_leaves_the_daemon_down_with_the_reason(home_dir: Path) -> None:
    # Ready once, and from its second start on not any more.
    with DaemonUnderTest(home_dir, [tiny("state", "refuses-later", role="core")]) as daemon:
        daemon.wait_until_serving()
        pid = daemon.wait_for("state", "ready").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        daemon.wait_for("state", "failed", restarts=1)
        report = daemon.report()
        assert report is not None
        assert (report.state, report.serving) == ("down", True)
        assert report.reason == "state is failed (exit 65: the file is of another program)"
        assert daemon.stop() == 0


def test_an_essential_worker_that_fails_for_too_long_ends_the_daemon_with_70(home_dir: Path) -> None:
    limits = Limits(give_up_s=0.5, rules=QUICK_TO_HOLD.rules)
    daemon = DaemonUnderTest(
        home_dir, [tiny("state", role="core"), tiny("gateway", "exits", "3", role="essential")], limits
    )
    daemon.start()
    code, errors = daemon.ended()
    assert code == 70
    # A slow start says before that what it is waiting for.
    *waiting, last = errors.splitlines()
    assert [
        line for line in waiting if not re.match(r"termal: (starting$|(starting: )?(state|gateway) is )", line)
    ] == []
    assert last.startswith("termal: gateway keeps failing: exit 3, tried again every 0.5 s: the last words")


def test_a_worker_that_is_never_ready_is_ended_and_after_two_such_starts_held(home_dir: Path) -> None:
    specs = [tiny("state", role="core"), tiny("wake", "never-ready", ready_s=0.5)]
    with DaemonUnderTest(home_dir, specs, Limits(kill_s=0.3)) as daemon:
        row = daemon.wait_for("wake", "failed", restarts=1)
        assert row.detail is not None
        assert row.detail.startswith(f"signal {int(signal.SIGABRT)}, tried again every 30 s: was not ready in time")
        # faulthandler wrote where it was.
        assert "tiny_worker.py" in (daemon.home.logs / "wake.stderr.log").read_text()
        assert daemon.stop() == 0


@pytest.mark.slow
def test_a_long_start_that_extends_its_limit_is_waited_for(home_dir: Path) -> None:
    with DaemonUnderTest(home_dir, [tiny("state", "extends", "3", role="core", ready_s=0.8)]) as daemon:
        daemon.wait_for_row("state", lambda row: row.detail == "migrating", "shown with the reason")
        daemon.wait_until_serving()
        row = daemon.wait_for("state", "ready")
        assert (row.restarts, row.detail) == (0, None)
        assert daemon.stop() == 0


@pytest.mark.slow
def test_the_patience_that_a_start_asked_for_ends_with_that_start(home_dir: Path) -> None:
    with DaemonUnderTest(home_dir, [tiny("state", "extends", "60", role="core")], IMPATIENT) as daemon:
        daemon.wait_until_serving()
        row = daemon.wait_for("state", "ready")
        assert row.pid is not None
        os.kill(row.pid, signal.SIGSTOP)
        daemon.wait_for("state", "unresponsive")
        daemon.wait_for_row("state", lambda row: row.restarts, "replaced")
        assert daemon.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("vice", ["silent", "blocked"])
def test_a_worker_that_stops_beating_is_shown_then_aborted_then_killed_and_replaced(home_dir: Path, vice: str) -> None:
    with DaemonUnderTest(home_dir, [tiny("state", vice, role="core", stop_s=0.5)], IMPATIENT) as daemon:
        daemon.wait_for("state", "unresponsive")
        report = daemon.report()
        assert report is not None
        assert (report.state, report.reason) == ("down", "state is unresponsive")
        row = daemon.wait_for_row("state", lambda row: row.restarts, "replaced")
        assert row.last_exit is not None
        assert row.last_exit.signal == (signal.SIGABRT if vice == "silent" else signal.SIGKILL)
        assert daemon.stop() == 0


@pytest.mark.slow
def test_a_paused_worker_is_replaced(home_dir: Path) -> None:
    with DaemonUnderTest(home_dir, [tiny("state", role="core")], IMPATIENT) as daemon:
        daemon.wait_until_serving()
        pid = daemon.wait_for("state", "ready").pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        assert daemon.wait_for("state", "ready", restarts=1).pid != pid
        assert daemon.stop() == 0


def test_a_worker_that_beats_again_in_time_is_ready_again(home_dir: Path) -> None:
    limits = Limits(late_s=0.5, abort_s=60.0)
    with DaemonUnderTest(home_dir, [tiny("state", role="core")], limits) as daemon:
        daemon.wait_until_serving()
        pid = daemon.wait_for("state", "ready").pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        daemon.wait_for("state", "unresponsive")
        os.kill(pid, signal.SIGCONT)
        assert daemon.wait_for("state", "ready").pid == pid
        assert daemon.stop() == 0


@pytest.mark.slow
def test_a_supervisor_that_stood_still_blames_nobody(home_dir: Path) -> None:
    specs = [tiny("state", role="core"), tiny("wake", role="optional")]
    with DaemonUnderTest(home_dir, specs, Limits(late_s=1.5, abort_s=2.5)) as daemon:
        daemon.wait_until_serving()
        daemon.wait_for("wake", "ready")
        workers = [start["pid"] for name in ("state", "wake") for start in daemon.starts(name)]
        # All of it at once, as when a machine sleeps.
        for pid in [daemon.pid, *workers]:
            os.kill(pid, signal.SIGSTOP)
        report = daemon.report()
        assert report is not None
        limit = time.monotonic() + 4.0
        wait_until(lambda: time.monotonic() > limit, "four seconds to go by")
        for pid in [daemon.pid, *workers]:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: "daemon.stood_still" in daemon.events(), "the pause to be noticed")
        wait_until(lambda: (now := daemon.report()) and now.written_at > report.written_at, "a fresh report")
        assert [daemon.wait_for(name, "ready").restarts for name in ("state", "wake")] == [0, 0]
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("vice", "why"),
    [
        ("babbles", "sent (more than 1000 control lines in a second|lines that are none of ours)"),
        ("long-line", "sent a control line of more than 65536 bytes"),
    ],
)
def test_a_worker_that_floods_its_control_line_is_ended_and_hurts_nobody(home_dir: Path, vice: str, why: str) -> None:
    specs = [tiny("state", role="core"), tiny("wake", vice)]
    with DaemonUnderTest(home_dir, specs, QUICK_TO_HOLD) as daemon:
        row = daemon.wait_for("wake", "failed", restarts=2)
        assert row.detail is not None
        assert re.search(why, row.detail)
        state = daemon.wait_for("state", "ready")
        assert state.restarts == 0
        assert daemon.stop() == 0


def test_a_few_lines_of_garbage_are_ignored(home_dir: Path) -> None:
    with DaemonUnderTest(home_dir, [tiny("state", "garbage", role="core")]) as daemon:
        row = daemon.wait_for_row("state", lambda row: row.facts, "heard again after the garbage")
        assert (row.state, row.restarts) == ("ready", 0)
        assert daemon.stop() == 0


def test_a_program_that_cannot_be_started_is_held_like_one_that_crashes(home_dir: Path) -> None:
    missing = tiny("wake")
    missing.argv[0] = "/no/such/python"
    with DaemonUnderTest(home_dir, [tiny("state", role="core"), missing], QUICK_TO_HOLD) as daemon:
        row = daemon.wait_for("wake", "failed", restarts=2)
        assert row.detail == "exit 127, tried again every 0.5 s: cannot be started: No such file or directory"
        assert daemon.stop() == 0


def test_a_transient_worker_starts_when_it_is_needed_and_everybody_learns_who_runs(home_dir: Path) -> None:
    specs = [
        tiny("state", "needs", "runtime-acp", role="core"),
        tiny("runtime-acp", restart="transient", stage=1),
        tiny("runtime-claude", restart="transient", stage=1),
    ]
    with DaemonUnderTest(home_dir, specs) as daemon:
        first = daemon.wait_for("runtime-acp", "ready")
        wait_until(lambda: ["state", "runtime-acp"] in daemon.told("state"), "state to be told")
        wait_until(lambda: ["state", "runtime-acp"] in daemon.told("runtime-acp"), "the new one to be told")
        assert daemon.starts("runtime-claude") == []
        assert daemon.row("runtime-claude") is None
        assert [line["worker"] for line in daemon.log() if line["event"] == "daemon.unknown_worker_wanted"] == [
            "no-such-worker"
        ]
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        assert daemon.wait_for("runtime-acp", "ready", restarts=1).pid != first.pid
        assert [start["start"] for start in daemon.starts("runtime-acp")] == ["boot", "replacement"]
        assert daemon.stop() == 0


def test_a_transient_worker_that_ends_well_is_not_started_again_until_needed(home_dir: Path) -> None:
    specs = [
        tiny("state", "needs", "runtime-acp", role="core"),
        tiny("runtime-acp", "dies-ready", "0", restart="transient", stage=1),
    ]
    with DaemonUnderTest(home_dir, specs) as daemon:
        daemon.wait_until_serving()
        daemon.wait_for("runtime-acp", "stopped")
        report = daemon.report()
        assert report is not None
        assert report.state == "ok"
        pid = daemon.wait_for("state", "ready").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len(daemon.starts("runtime-acp")) == 2, "the next need to start it again")
        assert daemon.stop() == 0


def test_a_daemon_that_a_worker_forked_off_dies_with_the_worker(home_dir: Path) -> None:
    specs = [tiny("state", role="core"), tiny("wake", "daemonises", stage=1)]
    with life(home_dir) as alive, DaemonUnderTest(home_dir, specs, Limits(orphan_grace_s=60.0)) as daemon:
        daemon.wait_until_serving()
        alive.wait_for("swd")
        assert daemon.stop() == 0
        wait_until(alive.all_dead, "all of them to be dead")


@pytest.mark.slow
def test_a_process_that_lost_its_parent_and_came_to_the_supervisor_is_ended(home_dir: Path) -> None:
    specs = [tiny("state", "daemonises", role="core")]
    with life(home_dir) as alive, DaemonUnderTest(home_dir, specs) as daemon:
        daemon.wait_until_serving()
        alive.wait_for("sd")
        wait_until(lambda: "daemon.orphans_ended" in daemon.events(), "the orphan to be ended")
        assert [len(line["pids"]) for line in daemon.log() if line["event"] == "daemon.orphans_ended"] == [1]
        state = daemon.wait_for("state", "ready")
        assert state.restarts == 0
        assert daemon.stop() == 0
        wait_until(alive.all_dead, "state to be dead")
