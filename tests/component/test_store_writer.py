"""The writer: order, group commit, isolation of bad jobs, deadlines, retries when the disk says no, its end."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from termal.store.connection import ConstraintError, Cursorlike, open_reader
from termal.store.writer import GROUP, Writer
from termal.wire.errors import Busy, Conflict, OutcomeUnknown
from tests.support.store_owner import Owner, create, insert, numbers


def stored(path: Path) -> list[int]:
    reader = open_reader(path)
    try:
        return numbers(reader)
    finally:
        reader.close()


class Gate:
    """A job that keeps the writer's thread until the test opens it, so that what follows waits in the queue."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._open = threading.Event()

    def __call__(self, connection: Cursorlike) -> None:
        self.entered.set()
        assert self._open.wait(5)

    def open(self) -> None:
        self._open.set()


def blocked(owner: Owner, writer: Writer) -> Gate:
    """The writer's thread is inside a group of its own; everything submitted now waits."""
    gate = Gate()
    writer.submit(gate, owner.done("gate"))
    assert gate.entered.wait(5)
    return gate


def test_jobs_are_carried_out_and_answered_in_the_order_of_their_submission(owner: Owner) -> None:
    writer = owner.writer()
    order: list[int] = []

    def job(number: int) -> Callable[[Cursorlike], None]:
        return lambda _: order.append(number)

    labels = [str(number) for number in range(300)]
    for number, label in enumerate(labels):
        writer.submit(job(number), owner.done(label))
    owner.wait(*labels)
    assert order == list(range(300))
    assert owner.ended == labels
    assert writer.depth == 0


def test_submissions_of_several_threads_keep_the_order_of_each(owner: Owner) -> None:
    writer = owner.writer()
    order: list[tuple[int, int]] = []

    def job(thread: int, number: int) -> Callable[[Cursorlike], None]:
        return lambda _: order.append((thread, number))

    def submit(thread: int) -> None:
        for number in range(100):
            writer.submit(job(thread, number), owner.done(f"{thread} {number}"))

    threads = [threading.Thread(target=submit, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    owner.wait_until(lambda: len(owner.ended) == 400, "all jobs")
    for number in range(4):
        assert [key for key in order if key[0] == number] == [(number, step) for step in range(100)]
    assert owner.ended == [f"{thread} {number}" for thread, number in order]


def test_what_waits_shares_one_commit_of_at_most_64(owner: Owner) -> None:
    writer = owner.writer()
    writer.submit(create, owner.done("create"))
    owner.wait("create")
    gate = blocked(owner, writer)
    for number in range(GROUP + 1):
        writer.submit(insert(number), owner.done(str(number)))
    assert writer.depth == GROUP + 2
    groups = len(owner.groups)
    gate.open()
    owner.wait(*map(str, range(GROUP + 1)))
    assert len(owner.groups) - groups == 3
    assert stored(owner.path) == list(range(GROUP + 1))
    assert writer.commit_ms > 0


def test_a_bad_job_fails_alone_with_its_own_error(owner: Owner) -> None:
    writer = owner.writer()
    writer.submit(create, owner.done("create"))
    owner.wait("create")

    def refuse(connection: Cursorlike) -> None:
        connection.execute("INSERT INTO items VALUES (100, 'half done')")
        raise Conflict("the world moved")

    gate = blocked(owner, writer)
    writer.submit(insert(1), owner.done("first"))
    writer.submit(insert(2, "item 1"), owner.done("double"))
    writer.submit(refuse, owner.done("refusal"))
    writer.submit(lambda connection: connection.execute("NO SQL"), owner.done("no sql"))
    writer.submit(insert(3), owner.done("last"))
    gate.open()
    owner.wait("first", "double", "refusal", "no sql", "last")
    assert isinstance(owner.errors["double"], ConstraintError)
    assert isinstance(owner.errors["refusal"], Conflict)
    assert isinstance(owner.errors["no sql"], apsw.SQLError)
    assert owner.values["last"] == 3
    assert stored(owner.path) == [1, 3]
    assert owner.forgotten == 3
    assert owner.trouble == []


def test_no_owner_is_answered_before_the_commit_of_its_group(owner: Owner) -> None:
    writer = owner.writer()
    writer.submit(create, owner.done("create"))
    owner.wait("create")
    before = blocked(owner, writer)
    gate = Gate()
    writer.submit(insert(1), owner.done("row"))
    writer.submit(gate, owner.done("last of the group"))
    before.open()
    assert gate.entered.wait(5)
    owner.finish()
    assert "row" not in owner.ended
    assert stored(owner.path) == []
    gate.open()
    owner.wait("row", "last of the group")
    assert stored(owner.path) == [1]


def test_a_job_that_is_late_before_it_starts_is_never_run(owner: Owner) -> None:
    writer = owner.writer()
    writer.submit(create, owner.done("create"))
    owner.wait("create")
    gate = blocked(owner, writer)
    writer.submit(insert(1), owner.done("late"), deadline_s=time.monotonic() - 0.001)
    writer.submit(insert(2), owner.done("in time"), deadline_s=time.monotonic() + 30)
    gate.open()
    owner.wait("late", "in time")
    error = owner.errors["late"]
    assert isinstance(error, Busy)
    assert error.code == "no_write_committed"
    assert stored(owner.path) == [2]
    assert writer.depth == 0


# --------------------------------------------------------------------- the disk says no


class Disk:
    """Fills the database's file up to its present size, for real: SQLite itself then reports that it is full."""

    def __init__(self, owner: Owner, writer: Writer) -> None:
        self.free = threading.Event()
        writer.submit(create, owner.done("create"))
        writer.submit(self._limit, owner.done("limit"))
        owner.wait("create", "limit")

    def job(self, number: int) -> Callable[[Cursorlike], int]:
        """Adds a row that needs pages which are not there until `free` is set."""

        def run(connection: Cursorlike) -> int:
            if self.free.is_set():
                connection.execute("PRAGMA max_page_count = 100000").fetchall()
            return insert(number, f"{number}".ljust(40_000, "x"))(connection)

        return run

    @staticmethod
    def _limit(connection: Cursorlike) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone() or (0,)
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()


def test_a_full_disk_loses_nothing_and_keeps_the_order(owner: Owner) -> None:
    writer = owner.writer()
    disk = Disk(owner, writer)
    owner.ended.clear()
    for number in range(1, 4):
        writer.submit(disk.job(number), owner.done(str(number)))
    owner.wait_until(lambda: owner.trouble, "the trouble to be told")
    for number in range(4, 6):
        writer.submit(disk.job(number), owner.done(str(number)))
    assert owner.ended == []
    assert isinstance(owner.trouble[0], apsw.FullError)
    disk.free.set()
    owner.wait(*map(str, range(1, 6)))
    assert owner.ended == list("12345")
    assert owner.errors == {}
    assert stored(owner.path) == [1, 2, 3, 4, 5]
    assert owner.trouble[-1] is None
    assert owner.forgotten >= 1
    assert "store.trouble" in owner.log_path.read_text()


def test_a_job_that_was_taken_up_ends_as_unknown_at_its_deadline_and_is_committed_later_once(owner: Owner) -> None:
    writer = owner.writer()
    disk = Disk(owner, writer)
    writer.submit(disk.job(1), owner.done("taken up"), deadline_s=time.monotonic() + 0.1)
    owner.wait_until(lambda: owner.trouble, "the trouble to be told")
    writer.submit(disk.job(2), owner.done("waiting"), deadline_s=time.monotonic() + 0.05)
    writer.submit(disk.job(3), owner.done("patient"))
    owner.wait("taken up", "waiting")
    assert isinstance(owner.errors["taken up"], OutcomeUnknown)
    waiting = owner.errors["waiting"]
    assert isinstance(waiting, Busy)
    assert waiting.code == "no_write_committed"
    disk.free.set()
    owner.wait("patient")
    assert stored(owner.path) == [1, 3]
    assert owner.ended.count("taken up") == 1
    assert writer.depth == 0


def test_a_job_that_must_not_be_run_again_ends_at_once_with_proof_that_nothing_was_written(owner: Owner) -> None:
    writer = owner.writer()
    disk = Disk(owner, writer)
    gate = blocked(owner, writer)
    writer.submit(disk.job(1), owner.done("once"), retry=False)
    writer.submit(disk.job(2), owner.done("again"))
    gate.open()
    owner.wait("once")
    error = owner.errors["once"]
    assert isinstance(error, Busy)
    assert error.code == "no_write_committed"
    assert isinstance(error.__cause__, apsw.FullError)
    disk.free.set()
    owner.wait("again")
    assert stored(owner.path) == [2]


def test_a_lock_of_another_process_ends_impatient_jobs_as_busy_and_the_others_wait(owner: Owner) -> None:
    writer = owner.writer()
    writer.submit(create, owner.done("create"))
    owner.wait("create")
    intruder = apsw.Connection(str(owner.path))
    try:
        intruder.execute("BEGIN IMMEDIATE")
        writer.submit(insert(1), owner.done("impatient"), deadline_s=time.monotonic() + 0.1)
        writer.submit(insert(2), owner.done("patient"))
        owner.wait("impatient")
        error = owner.errors["impatient"]
        assert isinstance(error, Busy)
        assert error.code == "no_write_committed"
        intruder.execute("ROLLBACK")
        owner.wait("patient")
    finally:
        intruder.close()
    assert stored(owner.path) == [2]


def test_a_file_system_error_gives_the_next_attempt_a_fresh_connection(owner: Owner) -> None:
    writer = owner.writer()
    writer.submit(create, owner.done("create"))
    owner.wait("create")
    failures = iter([apsw.IOError("IOError: disk I/O error"), apsw.ReadOnlyError("ReadOnlyError: moved")])
    connections: list[int] = []

    def job(connection: Cursorlike) -> None:
        connections.append(connection.sqlite3_pointer())
        insert(1)(connection)
        for failure in failures:
            raise failure

    writer.submit(job, owner.done("job"))
    owner.wait("job")
    assert len(connections) == 3
    assert stored(owner.path) == [1]
    assert writer.close(time.monotonic() + 5)


# --------------------------------------------------------------------------- the end


def test_close_writes_what_waits_and_leaves_no_write_ahead_log(owner: Owner) -> None:
    writer = owner.writer()
    writer.submit(create, owner.done("create"))
    for number in range(200):
        writer.submit(insert(number), owner.done(str(number)))
    assert writer.close(time.monotonic() + 5)
    assert owner.ended == ["create", *map(str, range(200))]
    wal = owner.path.with_name("things.sqlite-wal")
    assert not wal.exists() or wal.stat().st_size == 0
    assert stored(owner.path) == list(range(200))
    assert writer.close(time.monotonic() + 5)


def test_close_keeps_trying_and_gives_up_at_its_deadline(owner: Owner) -> None:
    writer = owner.writer()
    disk = Disk(owner, writer)
    writer.submit(disk.job(1), owner.done("tried"))
    owner.wait_until(lambda: owner.trouble, "the trouble to be told")
    assert not writer.close(time.monotonic() + 0.8)
    assert isinstance(owner.errors["tried"], OutcomeUnknown)
    assert len(owner.trouble) > 1
    assert "store.gave_up" in owner.log_path.read_text()


def test_close_takes_the_last_chance_of_a_disk_that_works_again(owner: Owner) -> None:
    writer = owner.writer()
    disk = Disk(owner, writer)
    writer.submit(disk.job(1), owner.done("tried"))
    owner.wait_until(lambda: owner.trouble, "the trouble to be told")
    disk.free.set()
    assert writer.close(time.monotonic() + 5)
    assert owner.values["tried"] == 1


def test_a_job_after_close_is_refused(owner: Owner) -> None:
    writer = owner.writer()
    assert writer.close(time.monotonic() + 5)
    writer.submit(create, owner.done("late"))
    owner.wait("late")
    assert isinstance(owner.errors["late"], Busy)


def test_a_callback_that_raises_is_logged_and_stops_no_other(owner: Owner) -> None:
    writer = owner.writer()

    def broken(_: object, __: Exception | None) -> None:
        raise ValueError("a bug of the owner")

    writer.submit(create, broken)
    writer.submit(insert(1), owner.done("next"))
    owner.wait("next")
    assert "a bug of the owner" in owner.log_path.read_text()


def test_durability_can_change_while_the_writer_works(owner: Owner) -> None:
    writer = owner.writer("normal")

    def level(connection: Cursorlike) -> int:
        (found,) = connection.execute("PRAGMA synchronous").fetchone() or (0,)
        return int(found)

    writer.submit(level, owner.done("before"))
    owner.wait("before")
    writer.set_durability("full")
    writer.submit(level, owner.done("after"))
    owner.wait("after")
    assert (owner.values["before"], owner.values["after"]) == (1, 2)
