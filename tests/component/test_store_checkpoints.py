"""Checkpoints beside the writer, on a real file: it is filled while the writer goes on, and its log stays short."""

import itertools
import time
from contextlib import closing
from pathlib import Path

import pytest

from termal.store.checkpoint import FULL_PAGES, MOST_PAGES
from termal.store.connection import open_reader
from tests.support.store_owner import Owner, create, insert, numbers
from tests.support.waiting import wait_until

PAGE = 4096
FRAME = PAGE + 24
TEXT = "x" * 3000


@pytest.fixture
def store(owner: Owner) -> Owner:
    owner.writer().submit(create, owner.done("create"))
    owner.wait("create")
    return owner


def write(store: Owner, first: int, count: int, line: int = 0) -> None:
    """Rows of about a page each, a few in each commit."""
    for number in range(first, first + count):
        store.writers[0].submit(insert(number, f"{number} {TEXT}"), store.done(str(number)), line=line)
        if number % 20 == 0 or number == first + count - 1:
            store.wait(str(number))


def log(store: Owner) -> Path:
    return store.path.with_name(f"{store.path.name}-wal")


def life(store: Owner) -> bytes:
    """Another one after each time that the log began anew."""
    return log(store).read_bytes()[16:24]


def test_the_file_fills_while_the_writer_goes_on_and_the_log_begins_anew(store: Owner) -> None:
    lives = set()
    for first in range(0, 4 * FULL_PAGES, 100):
        write(store, first, 100)
        lives.add(life(store))
    assert len(lives) > 2
    assert log(store).stat().st_size < MOST_PAGES * FRAME
    assert store.path.stat().st_size > 2 * FULL_PAGES * PAGE, "that much is in the file itself"
    with closing(open_reader(store.path)) as reader:
        assert numbers(reader) == list(range(4 * FULL_PAGES))


def test_a_reader_of_an_old_state_holds_the_log_and_stops_nobody(store: Owner) -> None:
    with closing(open_reader(store.path)) as reader, reader:
        assert numbers(reader) == []
        before = life(store)
        write(store, 0, 2 * FULL_PAGES)
        assert life(store) == before
        assert numbers(reader) == []
    left = itertools.count(2 * FULL_PAGES)

    def anew() -> bool:
        write(store, next(left), 1)
        return life(store) != before

    wait_until(anew, "the log to begin anew")


def test_a_close_in_a_checkpoint_leaves_no_log(store: Owner) -> None:
    write(store, 0, FULL_PAGES)
    assert store.writers[0].close(time.monotonic() + 5)
    assert not log(store).exists() or log(store).stat().st_size == 0
    with closing(open_reader(store.path)) as reader:
        assert numbers(reader) == list(range(FULL_PAGES))


def test_every_connection_of_a_writer_is_watched(owner: Owner) -> None:
    """The second one wrote all of it."""
    writer = owner.writer(others=[lambda: None])
    writer.submit(create, owner.done("create"), line=1)
    owner.wait("create")
    first = life(owner)
    write(owner, 0, 2 * FULL_PAGES, line=1)
    assert life(owner) != first
