"""A daemon for the tests that kill its processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon


@pytest.fixture
def daemon(home_dir: Path) -> Iterator[Daemon]:
    """A running daemon in a fresh home; afterwards it is stopped, and nothing of it may be left."""
    with Daemon(home_dir) as running:
        running.start()
        yield running
