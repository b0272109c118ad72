"""Fixtures for tests with the real agents."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.log import Log
from tests.agents.kit import Scene, make_repository
from tests.support.scripted_model import ScriptedModel


@pytest.fixture
def scene(run_dir: Path) -> Iterator[Scene]:
    """A home, a repository and a model that belong to one test alone."""
    home = run_dir / "user"
    home.mkdir()
    log = Log("tests", run_dir / "tests.log")
    with contextlib.closing(log), ScriptedModel(run_dir) as model, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield Scene(home, make_repository(run_dir / "work"), model, log, closed.getsockname()[1])
