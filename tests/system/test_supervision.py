"""No orphans, ever: whoever is killed, nothing of an agent's tree survives. Linux's way and the portable one.

The agent is the worst case: a child, and a double-forked daemon in a session of its own that ignores SIGTERM.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from supervisor.tree import Spec
from termal.procs.tree import find_marked
from tests.support.supervised import DaemonUnderTest, Life, life, tiny
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

AGENT = "acd"
EVERYBODY = "srw" + AGENT


def tree(vice: str = "agent") -> list[Spec]:
    return [
        tiny("state", role="core", has_boot=True),
        tiny("wake", after=["state"], stage=1),
        tiny("runtime-acp", vice, after=["wake"], stage=2),
    ]


@pytest.fixture(params=[False, True], ids=["linux", "portable"])
def portable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def alive(home_dir: Path) -> Iterator[Life]:
    with life(home_dir) as made:
        yield made


@pytest.fixture
def daemon(home_dir: Path, alive: Life, portable: bool) -> Iterator[DaemonUnderTest]:
    with DaemonUnderTest(home_dir, tree(), portable=portable) as started:
        started.wait_until_serving()
        alive.wait_for(EVERYBODY)
        yield started


def shim_of(daemon: DaemonUnderTest) -> int:
    return int(daemon.note("agent", "runtime-acp"))


def worker_of(daemon: DaemonUnderTest) -> int:
    return int(daemon.note("starts", "runtime-acp")["pid"])


def test_a_killed_supervisor_takes_everything_with_it(daemon: DaemonUnderTest, alive: Life) -> None:
    daemon.send(signal.SIGKILL)
    wait_until(alive.all_dead, "every process of the daemon and of its agent to be dead")
    wait_until(lambda: not find_marked(daemon.home.mark), "nothing to carry the mark")


def test_a_killed_runtime_worker_takes_its_agent_with_it_and_is_replaced(daemon: DaemonUnderTest, alive: Life) -> None:
    agent = psutil.Process(shim_of(daemon)).children(recursive=True)
    old = [process for process in agent if process.pid != worker_of(daemon)]
    os.kill(worker_of(daemon), signal.SIGKILL)
    daemon.wait_for("runtime-acp", "ready", restarts=1)
    alive.wait_for(EVERYBODY + "r" + AGENT)
    wait_until(lambda: not any(process.is_running() for process in old), "the old agent's processes to be gone")
    assert daemon.wait_for("state", "ready").restarts == 0
    assert daemon.stop() == 0
    wait_until(alive.all_dead, "the new agent to be gone as well")


def test_a_killed_shim_takes_its_agent_with_it_and_the_worker_stays(daemon: DaemonUnderTest, alive: Life) -> None:
    marked = {process.pid for process in find_marked(daemon.home.mark)}
    workers = {start["pid"] for name in ("state", "wake", "runtime-acp") for start in daemon.starts(name)}
    shim = shim_of(daemon)
    os.kill(shim, signal.SIGKILL)
    wait_until(
        lambda: {process.pid for process in find_marked(daemon.home.mark)} <= workers,
        "the agent's processes to be gone",
    )
    assert marked > workers
    assert daemon.wait_for("runtime-acp", "ready").restarts == 0
    assert daemon.stop() == 0
    wait_until(alive.all_dead, "the workers to be gone")


def test_what_survives_the_death_of_all_three_at_once_is_ended_by_the_next_start(
    daemon: DaemonUnderTest, alive: Life, home_dir: Path, portable: bool
) -> None:
    shim, worker = shim_of(daemon), worker_of(daemon)
    guardian = [
        process.pid
        for process in psutil.Process(shim).children()
        if portable and "shim.py" in " ".join(process.cmdline())
    ]
    for pid in (shim, *guardian, worker, daemon.pid):
        os.kill(pid, signal.SIGSTOP)
    for pid in (shim, *guardian, worker, daemon.pid):
        os.kill(pid, signal.SIGKILL)
    daemon.ended()
    left = wait_until(lambda: find_marked(daemon.home.mark), "the agent's daemon to be orphaned")
    assert left
    with DaemonUnderTest(home_dir, [tiny("state", role="core")], portable=portable) as second:
        second.wait_until_serving()
        swept = [line["ended"] for line in second.log() if line["event"] == "boot.leftovers"]
        assert swept
        assert swept[0]
        assert second.stop() == 0
    wait_until(alive.all_dead, "everything of both daemons to be dead")


def test_an_orderly_stop_leaves_nothing(daemon: DaemonUnderTest, alive: Life) -> None:
    assert daemon.stop() == 0
    wait_until(alive.all_dead, "everything to be dead")
    assert find_marked(daemon.home.mark) == []


def test_two_signals_leave_nothing(daemon: DaemonUnderTest, alive: Life) -> None:
    daemon.send(signal.SIGTERM)
    daemon.send(signal.SIGTERM)
    assert daemon.ended()[0] == 0
    wait_until(alive.all_dead, "everything to be dead")


def test_an_agent_that_was_started_without_a_shim_dies_with_its_worker_through_the_subreaper(
    home_dir: Path, alive: Life
) -> None:
    with DaemonUnderTest(home_dir, tree("plain-agent")) as daemon:
        daemon.wait_until_serving()
        alive.wait_for(EVERYBODY)
        before = {process.pid for process in find_marked(daemon.home.mark)}
        os.kill(worker_of(daemon), signal.SIGKILL)
        alive.wait_for(EVERYBODY + "r" + AGENT)
        # State and wake alone are the same as before.
        wait_until(
            lambda: len(before & {process.pid for process in find_marked(daemon.home.mark)}) == 2,
            "the old worker and its agent to be gone",
        )
        assert daemon.stop() == 0


def test_a_killed_worker_serves_again_without_a_word_from_the_others(daemon: DaemonUnderTest) -> None:
    for restarts in (1, 2, 3):
        pid = daemon.wait_for("wake", "ready", restarts=restarts - 1).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        daemon.wait_for("wake", "ready", restarts=restarts)
    assert daemon.wait_for("state", "ready").restarts == 0
    assert daemon.stop() == 0
