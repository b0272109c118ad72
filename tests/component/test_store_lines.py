"""Several connections of one writer: one queue, one thread, never two transactions at once; and locks waited for."""

import threading
import time
from collections.abc import Callable

import apsw

from termal.store.connection import Cursorlike
from termal.store.writer import Writer
from termal.wire.errors import Busy, Conflict
from tests.support.store_owner import Owner, create, insert, numbers


class Two:
    """A writer with two connections; the second one's rollbacks are counted."""

    def __init__(self, owner: Owner) -> None:
        self.forgotten = 0
        self.writer: Writer = owner.writer(others=[self._forget])
        self.writer.submit(create, owner.done("create"))
        owner.wait("create")

    def _forget(self) -> None:
        self.forgotten += 1


def gate(owner: Owner, writer: Writer) -> threading.Event:
    """Everything that is submitted from now on waits in the queue until the event is set."""
    entered, opened = threading.Event(), threading.Event()

    def job(_: Cursorlike) -> None:
        entered.set()
        assert opened.wait(5)

    writer.submit(job, owner.done("gate"))
    assert entered.wait(5)
    return opened


def test_neighbours_of_one_connection_share_a_commit_and_the_order_of_all_is_kept(owner: Owner) -> None:
    two = Two(owner)
    seen: list[tuple[int, int]] = []

    def job(number: int) -> Callable[[Cursorlike], None]:
        def run(connection: Cursorlike) -> None:
            seen.append((number, connection.sqlite3_pointer()))
            insert(number)(connection)

        return run

    opened = gate(owner, two.writer)
    lines = (0, 0, 1, 1, 1, 0)
    for number, line in enumerate(lines):
        two.writer.submit(job(number), owner.done(str(number)), line=line)
    groups = len(owner.groups)
    opened.set()
    owner.wait(*map(str, range(6)))
    assert [number for number, _ in seen] == list(range(6))
    first, second = seen[0][1], seen[2][1]
    assert first != second
    assert [pointer for _, pointer in seen] == [first, first, second, second, second, first]
    # The gate's own, and three runs of neighbours.
    assert len(owner.groups) - groups == 4
    assert owner.ended[2:] == list("012345")


def test_what_one_connection_wrote_the_other_sees(owner: Owner) -> None:
    two = Two(owner)
    two.writer.submit(insert(1), owner.done("first"), line=0)
    two.writer.submit(insert(2), owner.done("second"), line=1)
    two.writer.submit(numbers, owner.done("seen"), line=0)
    owner.wait("first", "second", "seen")
    assert owner.values["seen"] == [1, 2]


def test_a_failure_is_told_to_the_owner_of_its_connection_alone(owner: Owner) -> None:
    two = Two(owner)

    def refuse(connection: Cursorlike) -> None:
        insert(1)(connection)
        raise Conflict("the world moved")

    two.writer.submit(refuse, owner.done("second"), line=1)
    owner.wait("second")
    assert (owner.forgotten, two.forgotten) == (0, 1)
    two.writer.submit(refuse, owner.done("first"), line=0)
    owner.wait("first")
    assert (owner.forgotten, two.forgotten) == (1, 1)


def test_a_closed_writer_leaves_no_log_of_any_of_its_connections(owner: Owner) -> None:
    two = Two(owner)
    for number in range(20):
        two.writer.submit(insert(number), owner.done(str(number)), line=number % 2)
    assert two.writer.close(time.monotonic() + 5)
    wal = owner.path.with_name("things.sqlite-wal")
    assert not wal.exists() or wal.stat().st_size == 0


def test_a_job_that_may_run_once_waits_for_a_lock_and_runs_when_it_is_gone(owner: Owner) -> None:
    two = Two(owner)
    intruder = apsw.Connection(str(owner.path))
    try:
        intruder.execute("BEGIN IMMEDIATE")
        soon, late = time.monotonic() + 0.1, time.monotonic() + 60
        two.writer.submit(insert(1), owner.done("impatient"), deadline_s=soon, retry="unstarted")
        two.writer.submit(insert(2), owner.done("patient"), deadline_s=late, retry="unstarted")
        owner.wait("impatient")
        assert isinstance(owner.errors["impatient"], Busy)
        intruder.execute("ROLLBACK")
        owner.wait("patient")
    finally:
        intruder.close()
    assert owner.values["patient"] == 2


def test_a_job_that_may_run_once_is_not_run_again_when_its_group_failed(owner: Owner) -> None:
    two = Two(owner)
    runs: list[str] = []

    def full(_: Cursorlike) -> None:
        runs.append("full")
        raise apsw.FullError("FullError: database or disk is full")

    def innocent(_: Cursorlike) -> None:
        runs.append("innocent")

    opened = gate(owner, two.writer)
    two.writer.submit(innocent, owner.done("innocent"), retry="unstarted")
    two.writer.submit(full, owner.done("full"), retry="unstarted")
    opened.set()
    owner.wait("innocent", "full")
    for label in ("innocent", "full"):
        error = owner.errors[label]
        assert isinstance(error, Busy)
        assert error.code == "no_write_committed"
    assert runs == ["innocent", "full"]
