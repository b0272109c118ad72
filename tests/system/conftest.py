"""One real daemon for the tests of a module that do no harm to it, and one of their own for those that do."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    try:
        with Daemon(folder / "home") as running:
            running.start()
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def daemon(home_dir: Path) -> Iterator[Daemon]:
    with Daemon(home_dir) as running:
        running.start()
        yield running
