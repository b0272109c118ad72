"""The line before the writer of coordination: who comes first goes first, who waits too long is told and skipped."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from termal.log import Log
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.store.writer import Writer
from termal.wire.errors import Busy, TermalError
from tests.support.bus import BusThread, soon
from tests.support.waiting import wait_until
from workers.coordination.admission import Admission

MAIL, BOARD = 0, 1
LONG_S = 30.0


class Line:
    """A writer with both its connections, the line before it, and a loop that hands out the results."""

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / "line.sqlite"
        self.bus = BusThread("poll", run_dir)
        loop = self.bus.loop
        self.log = Log("test", run_dir / "line.log")
        self.writer = Writer(
            self.path,
            durability="normal",
            notify=lambda: loop.threadsafe(self.writer.finish),
            log=self.log,
            others=[lambda: None],
        )
        self.admission = Admission(loop, lambda: self.writer)
        self.ran: list[str] = []
        self.ended: list[str] = []
        self.errors: dict[str, Exception] = {}
        self.internal("create", job=lambda connection: connection.execute("CREATE TABLE rows (name TEXT)"))
        self.wait("create")

    def close(self) -> None:
        self.bus.run(lambda: self.writer.close(time.monotonic() + 5))
        self.bus.close()
        self.log.close()

    def job(self, name: str) -> Callable[[Cursorlike], None]:
        def run(connection: Cursorlike) -> None:
            self.ran.append(name)
            connection.execute("INSERT INTO rows VALUES (?)", (name,))

        return run

    def done(self, name: str) -> Callable[[object, Exception | None], None]:
        def end(_: object, error: Exception | None) -> None:
            self.ended.append(name)
            if error is not None:
                self.errors[name] = error

        return end

    def request(self, name: str, deadline_s: float, line: int = MAIL) -> None:
        """A waiter with a limit."""
        self.bus.run(lambda: self.admission.submit(self.job(name), self.done(name), deadline_s=deadline_s, line=line))

    def internal(self, name: str, line: int = MAIL, *, job: Callable[[Cursorlike], object] | None = None) -> None:
        """A waiter without one."""
        self.bus.run(lambda: self.writer.submit(job or self.job(name), self.done(name), line=line))

    def wait(self, *names: str) -> None:
        wait_until(lambda: set(names) <= set(self.ended), f"the end of {names}")

    def held(self) -> "Holder":
        """Somebody who has the line now."""
        holder = Holder()
        self.internal("holder", job=holder)
        wait_until(lambda: holder.entered, "the holder to have the line")
        return holder

    def rows(self) -> list[str]:
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return [name for (name,) in connection.execute("SELECT name FROM rows ORDER BY rowid")]
        finally:
            connection.close()


class Holder:
    """A job that keeps the writer's thread until `release`."""

    def __init__(self) -> None:
        self.entered = False
        self._released = threading.Event()

    def __call__(self, _: Cursorlike) -> None:
        self.entered = True
        assert self._released.wait(LONG_S)

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def line(run_dir: Path) -> Iterator[Line]:
    line = Line(run_dir)
    yield line
    line.close()


@pytest.mark.case("C68")
def test_a_request_before_an_internal_waiter_goes_first_and_one_that_gave_up_is_skipped(line: Line) -> None:
    holder = line.held()
    line.request("impatient", soon())
    line.request("request", time.monotonic() + LONG_S)
    line.internal("internal")
    line.wait("impatient")
    error = line.errors["impatient"]
    assert isinstance(error, Busy)
    assert error.code == "no_write_committed"
    assert line.ended == ["create", "impatient"], "told while somebody else still had the line"
    holder.release()
    line.wait("request", "internal")
    assert line.ran == ["request", "internal"]
    assert line.rows() == ["request", "internal"]


def test_waiters_with_and_without_a_limit_of_both_connections_share_one_line(line: Line) -> None:
    holder = line.held()
    names = [f"{number}" for number in range(40)]
    for number, name in enumerate(names):
        place = BOARD if number % 3 == 0 else MAIL
        if number % 2:
            line.request(name, time.monotonic() + LONG_S, place)
        else:
            line.internal(name, place)
    holder.release()
    line.wait(*names)
    assert line.ran == names
    assert line.rows() == names
    assert line.ended == ["create", "holder", *names]


def test_many_who_gave_up_leave_nothing_behind(line: Line) -> None:
    holder = line.held()
    late = [f"late {number}" for number in range(20)]
    for number, name in enumerate(late):
        line.request(name, soon(0.02 + 0.002 * (number % 5)), number % 2)
        line.internal(f"kept {number}", number % 2)
    line.wait(*late)
    holder.release()
    kept = [f"kept {number}" for number in range(20)]
    line.wait(*kept)
    assert line.ran == kept
    assert {type(line.errors[name]) for name in late} == {Busy}
    assert line.writer.depth == 0
    assert sorted(line.ended) == sorted(["create", "holder", *late, *kept]), "each ended once"


def test_without_any_time_a_free_line_is_taken_and_a_busy_one_is_not(line: Line) -> None:
    wait_until(lambda: line.writer.depth == 0, "the line to be free")
    line.request("free", 0.0)
    line.wait("free")
    assert line.errors == {}
    holder = line.held()
    line.request("busy", 0.0)
    line.wait("busy")
    assert isinstance(line.errors["busy"], Busy)
    holder.release()
    line.wait("holder")
    assert line.rows() == ["free"]


def test_a_request_that_has_begun_is_not_given_up(line: Line) -> None:
    holder = Holder()
    line.bus.run(lambda: line.admission.submit(holder, line.done("begun"), deadline_s=soon(1.0)))
    wait_until(lambda: holder.entered, "the request to have begun")
    line.request("behind", soon(1.05))
    line.wait("behind")
    assert line.ended == ["create", "behind"]
    holder.release()
    line.wait("begun")
    assert line.errors.keys() == {"behind"}


def test_readers_take_no_place_in_the_line(line: Line) -> None:
    line.request("before", time.monotonic() + LONG_S)
    line.wait("before")
    holder = line.held()
    line.request("waiting", time.monotonic() + LONG_S)
    found: list[object] = []
    reader = line.bus.run(
        lambda: Reader(line.path, notify=lambda: line.bus.loop.threadsafe(reader.finish), log=line.log)
    )
    try:
        reader.submit(
            lambda connection: connection.execute("SELECT name FROM rows").fetchall(),
            lambda rows, error: found.append(rows if error is None else error),
        )
        assert wait_until(lambda: found, "the read, beside a line that does not move") == [[("before",)]]
        assert line.ran == ["before"]
    finally:
        holder.release()
        reader.close(time.monotonic() + 5)
    line.wait("waiting")


def test_a_lock_of_another_program_ends_requests_as_busy_and_internal_waiters_never(line: Line) -> None:
    other = apsw.Connection(str(line.path))
    try:
        other.execute("BEGIN IMMEDIATE")
        line.request("request", soon(0.2), BOARD)
        line.internal("internal")
        line.wait("request")
        assert isinstance(line.errors["request"], TermalError)
        assert (line.errors["request"].status, line.errors["request"].code) == (503, "no_write_committed")
        assert line.ended == ["create", "request"]
        other.execute("ROLLBACK")
    finally:
        other.close()
    line.wait("internal")
    assert line.rows() == ["internal"]
