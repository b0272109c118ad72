"""Loops of the bus on their own threads, and workers in their own processes; all ended after each test."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from termal.log import Log
from tests.support.bus import LOOPS, BusThread
from tests.support.bus_server import WorkerProcess
from tests.support.codex_kit import CodexKit
from tests.support.mail_worker import MailWorker
from tests.support.state_worker import StateWorker
from tests.support.store_owner import Owner

MakeBus = Callable[[str], BusThread]
Spawn = Callable[..., WorkerProcess]


@pytest.fixture
def owner(run_dir: Path) -> Iterator[Owner]:
    """Of a file that is not there yet."""
    owner = Owner(run_dir / "things.sqlite")
    yield owner
    owner.close(time.monotonic() + 5)


@pytest.fixture
def make_bus(run_dir: Path) -> Iterator[MakeBus]:
    """Makes a loop of a kind (``poll``, ``asyncio``, ``uvloop``) on its own thread."""
    made: list[BusThread] = []

    def make(kind: str) -> BusThread:
        made.append(BusThread(kind, run_dir))
        return made[-1]

    yield make
    with contextlib.ExitStack() as ends:
        for bus in made:
            ends.callback(bus.close)


@pytest.fixture(params=LOOPS)
def bus(request: pytest.FixtureRequest, make_bus: MakeBus) -> BusThread:
    """A loop on its own thread, once of each kind."""
    return make_bus(request.param)


@pytest.fixture
def peer(make_bus: MakeBus) -> BusThread:
    """A second loop, for the other side of what is tested."""
    return make_bus("poll")


@pytest.fixture
def spawn(run_dir: Path) -> Iterator[Spawn]:
    """Starts `tests.support.bus_server` for a role."""
    started: list[WorkerProcess] = []

    def start(role: str, mode: str = "answer") -> WorkerProcess:
        started.append(WorkerProcess(run_dir, role, mode))
        return started[-1]

    yield start
    for process in started:
        process.close()


@pytest.fixture
def state(home_dir: Path, run_dir: Path) -> Iterator[StateWorker]:
    """The `state` worker over a data directory of its own; the test starts it."""
    worker = StateWorker(home_dir, run_dir)
    yield worker
    worker.close()


@pytest.fixture
def mail_worker(home_dir: Path, run_dir: Path) -> Iterator[MailWorker]:
    """The coordination worker over a data directory of its own; the test starts it."""
    worker = MailWorker(home_dir, run_dir)
    yield worker
    worker.close()


@pytest.fixture
def codex(run_dir: Path) -> Iterator[CodexKit]:
    """Codex adapters over a scripted app-server."""
    log = Log("tests", run_dir / "tests.log")
    with contextlib.closing(log):
        yield CodexKit(run_dir, log)
