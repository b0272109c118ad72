"""Shared fixtures: short temporary folders for sockets, and the leak check after every component and system test."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import uvloop
from hypothesis import HealthCheck, settings

from tests.support.waiting import wait_until

_CHECKED = ("/component/", "/system/", "/chaos/", "/agents/", "/api/")

# A busy machine is no failure: no limit on time. In CI the same examples each run, so that a change fails or passes.
settings.register_profile(
    "termal",
    deadline=None,
    database=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("termal")


def pytest_configure() -> None:
    """A shell starts what runs in its background deaf to interrupts, and so would be every program of a test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A folder whose path is short enough for AF_UNIX sockets."""
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    folder.chmod(0o700)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def home_dir(run_dir: Path) -> Path:
    """A data directory that does not exist yet."""
    return run_dir / "home"


@pytest.fixture(scope="session")
def lasting_descriptors() -> None:
    """What a process opens once and keeps: libuv's pipe for signals."""
    uvloop.new_event_loop().close()


@pytest.fixture(autouse=True)
def leak_check(request: pytest.FixtureRequest) -> Iterator[None]:
    """No descriptor and no child process may be left behind by a test that had real ones."""
    if not any(part in str(request.node.path) for part in _CHECKED):
        yield
        return
    request.getfixturevalue("lasting_descriptors")
    me = psutil.Process()
    before = me.num_fds()
    known = {child.pid for child in me.children(recursive=True)}
    yield
    # A daemon that several tests share starts processes whenever it likes; its own end checks that none is left.
    shared = "shared_daemon" in request.fixturenames
    wait_until(
        lambda: (
            shared
            or not [child for child in me.children(recursive=True) if child.pid not in known and child.is_running()]
        ),
        "every child process of the test to be gone",
    )
    wait_until(lambda: me.num_fds() <= before, f"open descriptors to fall back to {before} (pid {os.getpid()})")
