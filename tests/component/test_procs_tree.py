"""Processes found by descent and by mark, ended and measured, on Linux's way and on the portable one."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from termal.procs.meter import Meter
from termal.procs.tree import Process, descendants, end, find_marked, identify, start_time, sweep
from termal.wire.launch import MARK_VARIABLE
from tests.support.supervised import Life, life
from tests.support.waiting import wait_until

AGENT = [sys.executable, "-S", str(Path(__file__).parent.parent / "support" / "agents_tree.py")]


@pytest.fixture(params=[False, True], ids=["linux", "portable"])
def portable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def alive(run_dir: Path) -> Iterator[Life]:
    with life(run_dir) as made:
        yield made


@pytest.fixture
def agent(run_dir: Path, alive: Life, mark: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A marked agent with a child and a daemon that is nobody's child any more."""
    environment = {**os.environ, "TEST_LIFE": str(run_dir / "life"), MARK_VARIABLE: mark}
    started = subprocess.Popen([*AGENT, "agent"], stdin=subprocess.PIPE, env=environment, start_new_session=True)
    try:
        alive.wait_for("acd")
        yield started
    finally:
        sweep(mark)
        started.communicate()
        wait_until(alive.all_dead, "the agent's tree to be gone")


def test_a_sweep_ends_everything_that_carries_the_mark_and_says_what(
    agent: "subprocess.Popen[bytes]", alive: Life, mark: str, portable: bool
) -> None:
    swept = sweep(mark, portable=portable)
    assert agent.pid in swept.ended
    assert (len(swept.ended), swept.left) == (3, [])
    wait_until(alive.all_dead, "all three to be dead")
    assert find_marked(mark, portable=portable) == []


def test_a_sweep_leaves_processes_with_another_mark_alone(
    agent: "subprocess.Popen[bytes]", mark: str, portable: bool
) -> None:
    assert sweep(mark[:-1], portable=portable).ended == []
    assert sweep(mark + "0", portable=portable).ended == []
    assert agent.poll() is None


def test_a_mark_may_carry_more_behind_a_colon(portable: bool, mark: str) -> None:
    sleeper = subprocess.Popen([*AGENT, "daemon"], env={**os.environ, MARK_VARIABLE: f"{mark}:session-7"})
    sleeper.wait()
    found = wait_until(lambda: find_marked(mark, portable=portable), "the daemon to be found")
    assert len(found) == 1
    assert sweep(mark, portable=portable).ended == [found[0].pid]


def test_a_sweep_spares_whoever_asks_for_it_and_its_ancestors(mark: str, portable: bool) -> None:
    code = (
        "import sys\n"
        "from termal.procs.tree import find_marked, sweep\n"
        f"mark, portable = {mark!r}, {portable}\n"
        "print(len(find_marked(mark, portable=portable)), sweep(mark, portable=portable).ended)\n"
    )
    command = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}], check=True)"
    environment = {**os.environ, MARK_VARIABLE: mark}
    said = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout == "2 []\n"


def test_descendants_are_all_below_and_nobody_that_left(agent: "subprocess.Popen[bytes]", portable: bool) -> None:
    below = descendants(os.getpid(), portable=portable)
    assert agent.pid in below
    assert len(descendants(agent.pid, portable=portable)) == 1


def test_a_process_is_ended_only_when_it_is_the_one_that_was_meant(
    agent: "subprocess.Popen[bytes]", portable: bool
) -> None:
    found = identify(agent.pid, portable=portable)
    assert found is not None
    stranger = Process(found.pid, found.started_s + 1)
    assert end(stranger, signal.SIGKILL, portable=portable) is False
    assert agent.poll() is None
    assert end(found, signal.SIGKILL, portable=portable) is True
    agent.wait(5)
    assert end(found, signal.SIGKILL, portable=portable) is False


def test_a_dead_process_that_nobody_waited_for_is_no_process(agent: "subprocess.Popen[bytes]", portable: bool) -> None:
    agent.kill()
    wait_until(lambda: psutil.Process(agent.pid).status() == psutil.STATUS_ZOMBIE, "a zombie")
    assert identify(agent.pid, portable=portable) is None


def test_the_start_time_is_the_one_that_psutil_says() -> None:
    assert start_time(os.getpid()) == pytest.approx(psutil.Process().create_time(), abs=1.0)
    assert start_time(2**22 + 1) is None


def test_the_meter_gives_figures_of_the_living_without_waiting(agent: "subprocess.Popen[bytes]") -> None:
    meter = Meter()
    figures = meter.usage([agent.pid, os.getpid(), 2**22 + 1])
    assert set(figures) == {agent.pid, os.getpid()}
    mine = figures[os.getpid()]
    assert mine.rss_bytes > 0
    assert mine.uss_bytes is not None
    assert 0 < mine.uss_bytes <= mine.rss_bytes
    assert mine.fds > 2
    assert mine.threads >= 1
    assert mine.cpu_percent > 0
    assert figures[agent.pid].threads == 1


def test_the_meter_counts_only_what_was_used_since_its_last_look() -> None:
    meter = Meter()
    busy = subprocess.Popen(
        [sys.executable, "-S", "-c", "sum(range(3_000_000)); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert busy.stdout is not None
    busy.stdout.readline()
    first = meter.usage([busy.pid])[busy.pid].cpu_percent
    second = meter.usage([busy.pid])[busy.pid].cpu_percent
    busy.communicate(b"\n")
    assert first > 0
    assert second == 0


def test_the_meter_sums_a_tree(agent: "subprocess.Popen[bytes]") -> None:
    trees = Meter().tree_usage([agent.pid, 2**22 + 1])
    assert set(trees) == {agent.pid}
    assert trees[agent.pid].processes == 2
    assert trees[agent.pid].rss_bytes > psutil.Process(agent.pid).memory_info().rss
