"""The life that every poll-loop worker has: heartbeats, orders, an orderly end, refusals and faults."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from termal.wire.control import (
    EXIT_INTERNAL,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_USAGE,
    Beat,
    Peers,
    Ready,
    Refused,
    Reload,
    Stop,
)
from termal.wire.errors import Busy, OutcomeUnknown, TermalError
from termal.wire.launch import VARIABLE
from termal.wire.operation import Operation
from termal.wire.session_operations import SESSION_KILL, SESSION_STOP, OneSession
from termal.wire.turns import JsonReply
from tests.support.bus_peer import call
from tests.support.control_peer import ControlPeer
from tests.support.waiting import wait_until

MODULE = "tests.support.slow_worker"
ONE = OneSession("session-1")


class Asked:
    """A call that is open in another thread while the test goes on; ``faults/asked`` tells that it has arrived."""

    def __init__(self, run_dir: Path, op: Operation[OneSession, JsonReply]) -> None:
        self.reply: JsonReply | None = None
        self.error: TermalError | None = None
        self._run_dir = run_dir
        self._op = op
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        wait_until((run_dir / "faults" / "asked").exists, "the request to arrive")

    def join(self) -> None:
        self._thread.join(10)

    def _ask(self) -> None:
        try:
            self.reply = call(self._run_dir, "slow_worker", self._op, ONE)
        except TermalError as error:
            self.error = error


def slow_worker(home: Path, run_dir: Path, *arguments: str) -> ControlPeer:
    return ControlPeer(MODULE, home, run_dir, faults=run_dir / "faults", arguments=arguments)


def test_a_heartbeat_carries_the_depth_and_the_facts_of_its_worker(home_dir: Path, run_dir: Path) -> None:
    with slow_worker(home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        beat = worker.wait_for(Beat, count=2)
        assert (beat.queue_depth, beat.facts) == (7, {"things": 3})


def test_orders_reach_the_worker(home_dir: Path, run_dir: Path) -> None:
    log = home_dir / "logs" / "slow_worker.log"
    with slow_worker(home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        worker.order(Peers(["state", "runtime-acp"]))
        (home_dir / "config.toml").write_text('durability = "full"')
        worker.order(Reload())
        wait_until(lambda: "slow.reloaded" in log.read_text(), "the configuration to be read")
        text = log.read_text()
        assert '"running":["state","runtime-acp"]' in text
        assert '"durability":"full"' in text


def test_a_stop_lets_an_open_request_end_and_refuses_new_ones(home_dir: Path, run_dir: Path) -> None:
    with slow_worker(home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        open_call = Asked(run_dir, SESSION_STOP)
        worker.order(Stop(time.monotonic() + 5))
        log = home_dir / "logs" / "slow_worker.log"
        wait_until(lambda: "worker.draining" in log.read_text(), "the worker to drain")
        with pytest.raises(Busy, match="stopping"):
            call(run_dir, "slow_worker", SESSION_KILL, ONE)
        assert worker.process.poll() is None
        (run_dir / "faults" / "answer").touch()
        assert worker.wait() == EXIT_OK
        open_call.join()
        assert open_call.reply == JsonReply(b"{}")
        assert log.read_text().count("slow.closed") == 1


def test_a_request_that_does_not_end_is_cut_off_before_the_deadline(home_dir: Path, run_dir: Path) -> None:
    with slow_worker(home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        open_call = Asked(run_dir, SESSION_KILL)
        assert worker.stop(within_s=0.6) == EXIT_OK
        open_call.join()
        assert isinstance(open_call.error, OutcomeUnknown)
    log = (home_dir / "logs" / "slow_worker.log").read_text()
    assert "worker.cut_off" in log
    assert "slow.closed" in log


def test_a_second_stop_shortens_the_first(home_dir: Path, run_dir: Path) -> None:
    with slow_worker(home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        open_call = Asked(run_dir, SESSION_KILL)
        worker.order(Stop(time.monotonic() + 60))
        assert worker.stop(within_s=0.2) == EXIT_OK
        open_call.join()


def test_a_refusal_is_told_to_the_operator_and_has_its_exit_code(home_dir: Path, run_dir: Path) -> None:
    with slow_worker(home_dir, run_dir, "refuse") as worker:
        assert worker.wait() == EXIT_REFUSED
        assert worker.said(Refused) == [Refused("things.sqlite is of another build")]
        assert worker.stderr() == ""


def test_a_bug_at_the_start_ends_the_worker_with_its_stack_in_the_log(home_dir: Path, run_dir: Path) -> None:
    with slow_worker(home_dir, run_dir, "break") as worker:
        assert worker.wait() == EXIT_INTERNAL
        assert worker.said(Refused) == []
        assert "ZeroDivisionError" in worker.stderr()
    assert "ZeroDivisionError" in (home_dir / "logs" / "slow_worker.log").read_text()


def test_a_bug_at_the_end_ends_the_worker_all_the_same(home_dir: Path, run_dir: Path) -> None:
    with slow_worker(home_dir, run_dir, "stuck") as worker:
        worker.wait_for(Ready)
        assert worker.stop() == EXIT_INTERNAL
    assert (home_dir / "logs" / "slow_worker.log").read_text().count("slow.closed") == 1


def test_a_configuration_that_cannot_be_used_is_told_in_one_line(home_dir: Path, run_dir: Path) -> None:
    home_dir.mkdir(mode=0o700)
    (home_dir / "config.toml").write_text("port = 'x'\n")
    with ControlPeer("workers.runtime", home_dir, run_dir, name="runtime-acp", arguments=["acp"]) as worker:
        assert worker.wait() == EXIT_USAGE
        assert len(worker.stderr().splitlines()) == 1
        assert "port" in worker.stderr()


@pytest.mark.parametrize("module", ["workers.state", "workers.runtime acp", "termal.gateway"])
def test_a_person_who_starts_a_part_by_hand_is_told_what_to_start(module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", *module.split()],
        env={name: value for name, value in os.environ.items() if name != VARIABLE},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == EXIT_USAGE
    assert ended.stderr == "this program is a part of TermAl and is started by it: run `termal serve`\n"
