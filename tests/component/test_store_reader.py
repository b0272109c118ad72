"""Readers and backups: stable snapshots beside a writer that goes on."""

import threading
import time
from pathlib import Path

import apsw
import pytest

from termal.store.backup import back_up
from termal.store.connection import Cursorlike, StoreRefused, open_reader
from termal.wire.errors import Busy, NotFound
from tests.support.store_owner import Owner, create, insert, numbers


@pytest.fixture
def owner(owner: Owner) -> Owner:
    owner.writer().submit(create, owner.done("create"))
    owner.wait("create")
    return owner


def test_a_read_sees_one_snapshot_while_the_writer_commits(owner: Owner, run_dir: Path) -> None:
    writer, reader = owner.writers[0], owner.reader()
    writer.submit(insert(1), owner.done("1"))
    owner.wait("1")
    begun, go_on = threading.Event(), threading.Event()

    def look_twice(connection: Cursorlike) -> tuple[list[int], list[int]]:
        first = numbers(connection)
        begun.set()
        assert go_on.wait(5)
        return first, numbers(connection)

    reader.submit(look_twice, owner.done("looked"))
    assert begun.wait(5)
    writer.submit(insert(2), owner.done("2"))
    owner.wait("2")
    go_on.set()
    owner.wait("looked")
    assert owner.values["looked"] == ([1], [1])
    reader.submit(numbers, owner.done("again"))
    owner.wait("again")
    assert owner.values["again"] == [1, 2]


def test_a_read_does_not_wait_for_a_blocked_writer(owner: Owner) -> None:
    writer, reader = owner.writers[0], owner.reader()
    entered, go_on = threading.Event(), threading.Event()

    def block(connection: Cursorlike) -> None:
        insert(1)(connection)
        entered.set()
        assert go_on.wait(5)

    writer.submit(block, owner.done("blocked"))
    assert entered.wait(5)
    reader.submit(numbers, owner.done("read"))
    owner.wait("read")
    assert owner.values["read"] == []
    go_on.set()
    owner.wait("blocked")


def test_two_readers_work_at_the_same_time(owner: Owner) -> None:
    reader = owner.reader(threads=2)
    together = threading.Barrier(2)
    for label in ("a", "b"):
        reader.submit(lambda _: together.wait(5), owner.done(label))
    owner.wait("a", "b")
    assert owner.errors == {}


def test_a_read_that_is_late_before_it_begins_is_not_run(owner: Owner) -> None:
    reader = owner.reader()
    reader.submit(numbers, owner.done("late"), deadline_s=time.monotonic() - 0.001)
    owner.wait("late")
    error = owner.errors["late"]
    assert isinstance(error, Busy)
    assert error.code == "no_mutation_attempted"


def test_a_read_that_raises_ends_with_its_error_and_the_next_one_works(owner: Owner) -> None:
    reader = owner.reader()

    def missing(connection: Cursorlike) -> None:
        numbers(connection)
        raise NotFound("no such item")

    def wrong(connection: Cursorlike) -> None:
        connection.execute("SELECT nothing FROM nowhere")

    reader.submit(missing, owner.done("missing"))
    reader.submit(wrong, owner.done("wrong"))
    reader.submit(numbers, owner.done("right"))
    owner.wait("missing", "wrong", "right")
    assert isinstance(owner.errors["missing"], NotFound)
    assert isinstance(owner.errors["wrong"], apsw.SQLError)
    assert owner.values["right"] == []


def test_a_read_cannot_write(owner: Owner) -> None:
    reader = owner.reader()
    reader.submit(insert(1), owner.done("write"))
    owner.wait("write")
    assert isinstance(owner.errors["write"], apsw.ReadOnlyError)


def test_a_read_after_close_is_refused(owner: Owner) -> None:
    reader = owner.reader()
    assert reader.close(time.monotonic() + 5)
    reader.submit(numbers, owner.done("late"))
    owner.wait("late")
    assert isinstance(owner.errors["late"], Busy)


# -------------------------------------------------------------------------------- backup


def test_a_backup_is_one_instant_of_a_file_that_is_being_written(owner: Owner, run_dir: Path) -> None:
    writer = owner.writers[0]
    for number in range(0, 1200, 2):
        writer.submit(insert(number, f"{number}".ljust(4000, "x")), owner.done(str(number)))
    owner.wait_until(lambda: len(owner.ended) == 601, "the rows")
    steps: list[tuple[int, int]] = []

    def write_on(left: int, total: int) -> None:
        steps.append((left, total))
        number = 2 * len(steps) - 1
        writer.submit(insert(number), owner.done(f"during {number}"))
        owner.wait(f"during {number}")

    target = run_dir / "copy.sqlite"
    size = back_up(owner.path, target, on_step=write_on)
    assert len(steps) > 1
    assert steps[-1][0] == 0
    assert target.stat().st_size == size
    assert target.stat().st_mode & 0o777 == 0o600
    copy = open_reader(target)
    try:
        assert numbers(copy) == list(range(0, 1200, 2))
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        copy.close()
    source = open_reader(owner.path)
    try:
        assert len(numbers(source)) == 600 + len(steps)
    finally:
        source.close()


def test_a_backup_that_is_given_up_leaves_nothing(owner: Owner, run_dir: Path) -> None:
    def give_up(_: int, __: int) -> None:
        raise InterruptedError("stop")

    before = sorted(entry.name for entry in run_dir.iterdir())
    with pytest.raises(InterruptedError):
        back_up(owner.path, run_dir / "copy.sqlite", on_step=give_up)
    assert sorted(entry.name for entry in run_dir.iterdir()) == before


def test_a_backup_never_replaces_a_file(owner: Owner, run_dir: Path) -> None:
    target = run_dir / "copy.sqlite"
    target.write_text("mine")
    with pytest.raises(StoreRefused, match="there already"):
        back_up(owner.path, target)
    assert target.read_text() == "mine"


def test_a_backup_of_a_missing_file_is_refused(run_dir: Path) -> None:
    with pytest.raises(StoreRefused, match="not there"):
        back_up(run_dir / "missing.sqlite", run_dir / "copy.sqlite")
    assert list(run_dir.iterdir()) == []
