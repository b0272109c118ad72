"""What stays in memory, what waits for the disk, and in which order the world hears of it."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from tests.support.state_memory import Memory
from tests.support.waiting import wait_until
from workers.state.journal import OPEN_DELTAS

Open = Callable[[], Memory]


@pytest.fixture
def open_memory(home_dir: Path) -> Iterator[Open]:
    """Opens the store of one data directory, again and again."""
    opened: list[Memory] = []

    def make() -> Memory:
        if opened:
            opened[-1].close()
        opened.append(Memory(home_dir / "termal.sqlite"))
        return opened[-1]

    yield make
    if opened:
        opened[-1].close()


@pytest.mark.case("S14")
def test_a_burst_is_trimmed_once_it_is_stored(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    memory.say(record, 200)
    stamp, revision = record.stamp, memory.registry.revision
    assert len(record.messages) == 200
    memory.commit()
    assert (len(record.messages), record.start, record.count) == (64, 136, 200)
    assert (record.stamp, memory.registry.revision) == (stamp, revision)
    assert record.positions[record.messages[0].id] == 136


@pytest.mark.case("S15")
def test_a_running_session_keeps_what_it_has_until_its_turn_is_stored(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    record.status = "active"
    memory.say(record, 200)
    memory.commit()
    assert len(record.messages) == 200
    record.status = "idle"
    change = memory.book.change()
    change.summary(record)
    change.commit()
    memory.commit()
    assert (len(record.messages), record.count) == (64, 200)


@pytest.mark.case("S11")
def test_a_load_keeps_the_newest_64_under_their_global_positions(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    memory.say(record, 130)
    memory.commit()
    again = open_memory().registry.sessions[record.id]
    assert (len(again.messages), again.start, again.count) == (64, 66, 130)
    assert [message.id for message in again.messages] == [f"message-{number}" for number in range(67, 131)]


def test_a_load_keeps_64_messages_of_a_session_however_many_it_has(open_memory: Open) -> None:
    memory = open_memory()
    records = [memory.create() for _ in range(3)]
    for record, count in zip(records, (10, 64, 3000), strict=True):
        memory.say(record, count)
    memory.commit()
    sessions = open_memory().registry.sessions
    assert [len(sessions[record.id].messages) for record in records] == [10, 64, 64]


def test_pieces_are_published_before_they_are_stored_and_after_what_came_first(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    position = memory.open_text(record)
    memory.book.extend_text(record, position, "early")
    assert memory.published == []
    memory.commit()
    assert [json.loads(event.json)["type"] for event in memory.published] == [
        "sessionCreated",
        "messageAdded",
        "textDelta",
    ]
    memory.book.extend_text(record, position, " and at once")
    assert len(memory.published) == 4
    revisions = [event.revision for event in memory.published]
    assert revisions == sorted(revisions)


def test_pieces_are_joined_when_they_are_stored(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    position = memory.open_text(record)
    for _ in range(500):
        memory.book.extend_text(record, position, "xy")
    memory.commit()
    assert memory.registry.sessions[record.id].at(position) == open_memory().registry.sessions[record.id].at(position)


def test_unstored_pieces_are_counted_until_their_commit(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    position = memory.open_text(record)
    memory.commit()
    told: list[int] = []
    memory.journal.on_room.append(lambda: told.append(1))
    crowded = []
    for _ in range(OPEN_DELTAS):
        crowded.append(memory.journal.crowded)
        memory.book.extend_text(record, position, "x")
    crowded.append(memory.journal.crowded)
    told.clear()
    memory.commit()
    assert crowded == [False] * OPEN_DELTAS + [True]
    assert (memory.journal.crowded, bool(told)) == (False, True)


def test_a_change_that_waits_for_the_disk_is_shown_to_readers_in_a_moment(open_memory: Open, home_dir: Path) -> None:
    memory = open_memory()
    memory.commit()
    lock = apsw.Connection(str(home_dir / "termal.sqlite"))
    lock.execute("BEGIN IMMEDIATE")
    committed: list[float] = []
    shown: list[float] = []
    change = memory.book.change()
    change.create(memory.create())
    change.commit(after=lambda: committed.append(time.monotonic()))
    memory.journal.settle(lambda: shown.append(time.monotonic()))

    def seen() -> bool:
        memory.one_pass()
        return bool(shown)

    wait_until(seen, "the reader to be answered")
    assert committed == []
    lock.execute("ROLLBACK")
    lock.close()
    memory.commit()
    assert len(committed) == len(shown) == 1


def test_a_session_row_is_written_once_for_all_that_happened_in_a_pass(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    for _ in range(5):
        memory.say(record, 1)
    memory.commit()
    assert memory.writer.depth == 0
    assert memory.registry.sessions[record.id].count == 5
    assert [json.loads(event.json)["revision"] for event in memory.published] == [1, 2, 3, 4, 5, 6]


def test_a_removed_session_is_not_written_again(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    memory.commit()
    change = memory.book.change()
    change.remove(record)
    change.commit()
    memory.journal.touch(record)
    memory.journal.stream(record, 1)
    memory.commit()
    assert open_memory().registry.sessions == {}
