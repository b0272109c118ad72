"""SIGKILL of a writing process at named points and at random ones: nothing acknowledged is lost, no file is harmed."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from termal.store.connection import StoreError, open_reader
from tests.support.store_owner import numbers
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(run_dir: Path) -> Path:
    return run_dir / "things.sqlite"


@pytest.fixture
def faults(run_dir: Path) -> Path:
    folder = run_dir / "faults"
    folder.mkdir()
    return folder


@contextmanager
def child(path: Path, *arguments: str, faults: Path | None = None) -> Iterator["subprocess.Popen[str]"]:
    environment = {**os.environ}
    if faults is not None:
        environment["TERMAL_FAULTS"] = str(faults)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.store_child", str(path), *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def acknowledged(output: str) -> set[int]:
    return {int(line.split()[1]) for line in output.splitlines() if line.startswith("ack ")} - {0}


def stored(path: Path) -> list[int]:
    reader = open_reader(path)
    try:
        assert reader.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return numbers(reader)
    finally:
        reader.close()


def test_killed_inside_a_group_nothing_of_it_is_there_and_nobody_was_answered(path: Path, faults: Path) -> None:
    (faults / "things.in_group").write_text("kill 2")
    with child(path, "1", "5", faults=faults) as process:
        output, _ = process.communicate(timeout=10)
    assert process.returncode == -signal.SIGKILL
    assert acknowledged(output) == set()
    assert stored(path) == []


def test_killed_behind_the_commit_the_whole_group_is_there_though_nobody_was_answered(path: Path, faults: Path) -> None:
    (faults / "things.after_commit").write_text("kill 2")
    with child(path, "1", "5", faults=faults) as process:
        output, _ = process.communicate(timeout=10)
    assert process.returncode == -signal.SIGKILL
    assert acknowledged(output) == set()
    assert stored(path) == [1, 2, 3, 4, 5]


def test_nobody_is_answered_while_a_group_is_held_before_its_commit(path: Path, faults: Path) -> None:
    (faults / "things.in_group").write_text("hold")
    with child(path, "1", "5", faults=faults) as process:
        assert process.stdout is not None
        wait_until((faults / "things.in_group.held").exists, "the first group, which makes the table, to be held")
        assert select.select([process.stdout], [], [], 0)[0] == []
        with pytest.raises(StoreError, match="no such table"):
            stored(path)
        (faults / "things.in_group.go").touch()
        output, _ = process.communicate(timeout=10)
    assert acknowledged(output) == {1, 2, 3, 4, 5}
    assert output.endswith("end\n")


@pytest.mark.slow
@pytest.mark.parametrize("pages", ["1000", "8"], ids=["between checkpoints", "in checkpoints"])
def test_after_fifty_kills_at_random_moments_every_acknowledged_row_is_there_and_the_file_is_whole(
    path: Path, pages: str
) -> None:
    with child(path, "storm", "50", pages) as process:
        output, errors = process.communicate(timeout=60)
    assert output.endswith("end\n"), errors
    promised = acknowledged(output)
    assert len(promised) > 50
    assert promised <= set(stored(path))
