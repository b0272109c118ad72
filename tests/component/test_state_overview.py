"""The overview: the same whatever is in memory, complete or an error, never a guess."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from termal.log import Log
from termal.model.message import Message
from termal.rules.overview import byte_of
from termal.wire.errors import Conflict, Internal, InvalidRequest, NotFound
from termal.wire.session_operations import SESSION_OVERVIEW, CreateMarker, ReadOverview
from termal.wire.turns import ToolEnded, ToolStarted
from tests.support.state_memory import Asked, Memory
from tests.support.state_worker import Json, StateWorker
from tests.support.stored import StoredSessions, of_kinds
from tests.support.waiting import wait_until
from workers.state.markers import Markers
from workers.state.overview import KEPT, Overview, resident_map
from workers.state.session_record import SessionRecord

QUARTERS = of_kinds(["text"] * 25 + ["command"] * 25 + ["diff"] * 25 + ["error"] * 25)


def overview(state: StateWorker, session_id: str, buckets: int = 200) -> Json:
    return state.json(SESSION_OVERVIEW, ReadOverview(session_id, buckets))


def stored(state: StateWorker, count: int, kinds: list[str] | None = None) -> str:
    with StoredSessions(state.home.termal_db) as sessions:
        return sessions.add(count, of_kinds(kinds or ["answer"]))


@pytest.mark.case("S93")
def test_few_messages_have_a_bucket_each(state: StateWorker) -> None:
    session_id = stored(state, 3)
    state.start()
    assert [bucket["c"] for bucket in overview(state, session_id, 512)["buckets"]] == [1, 1, 1]


@pytest.mark.case("S94")
def test_an_empty_session_has_one_empty_bucket(state: StateWorker) -> None:
    state.start()
    shown = overview(state, state.create())
    assert shown["buckets"] == [{"c": 0, "k": "text", "u": 0, "m": False}]
    assert (shown["latestPosition"], shown["messageCount"], shown["markers"]) == (0, 0, [])


def test_the_reply_says_of_which_moment_it_is(state: StateWorker) -> None:
    session_id = stored(state, 100)
    state.start()
    shown, session = overview(state, session_id), state.read(session_id)
    assert shown["sessionId"] == session_id
    assert shown["sessionMutationStamp"] == session["sessionMutationStamp"]
    assert shown["revision"] == state.state()["revision"]
    assert shown["serverInstanceId"] == state.state()["serverInstanceId"]


def test_a_change_that_is_not_trimmed_yet_is_in_the_overview(state: StateWorker) -> None:
    session_id = stored(state, 100)
    state.start()
    runtime = state.runtime()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    runtime.report(turn, ToolStarted("a", "execute", "ls"))
    assert overview(state, session_id, 512)["buckets"][-2:] == [
        {"c": 1, "k": "text", "u": 1, "m": False},
        {"c": 1, "k": "command", "u": 0, "m": False},
    ]
    runtime.report(turn, ToolEnded("a", "error", "no"))
    shown = overview(state, session_id, 512)
    assert (shown["buckets"][-1]["k"], shown["messageCount"], shown["latestPosition"]) == ("error", 102, 101)


@pytest.mark.case("S78")
def test_a_byte_that_stands_for_nothing_is_an_error_and_history_still_works(state: StateWorker) -> None:
    session_id = stored(state, 100)
    damaged = bytearray(100)
    damaged[7] = 0x08
    state.write("UPDATE session_overviews SET value_blob = ?", (bytes(damaged),))
    state.start()
    with pytest.raises(Internal):
        overview(state, session_id)
    assert len(state.history(session_id, from_start=True)["messages"]) == 64


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("UPDATE session_overviews SET value_blob = zeroblob(35)", id="too-short"),
        pytest.param("UPDATE session_overviews SET value_blob = zeroblob(101)", id="too-long"),
        pytest.param("DELETE FROM session_overviews", id="gone"),
    ],
)
def test_a_map_that_does_not_fit_to_what_is_resident_is_a_conflict(state: StateWorker, damage: str) -> None:
    session_id = stored(state, 100)
    state.start()
    state.write(damage)
    with pytest.raises(Conflict):
        overview(state, session_id)
    assert len(state.read(session_id)["messages"]) == 64


def test_a_map_that_is_no_blob_is_an_error(state: StateWorker) -> None:
    session_id = stored(state, 100)
    state.write("UPDATE session_overviews SET value_blob = ?", ("0" * 100,))
    state.start()
    with pytest.raises(Internal):
        overview(state, session_id)


def test_bounds_and_unknown_sessions_are_refused(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    for buckets in (0, 513):
        with pytest.raises(InvalidRequest):
            overview(state, session_id, buckets)
    with pytest.raises(NotFound):
        overview(state, "session-99")


def test_a_transcript_of_which_only_the_count_is_known_has_no_overview(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.stop()
    state.change_row(session_id, session={"messageCount": 40, "messagesLoaded": False})
    state.start()
    with pytest.raises(Conflict):
        overview(state, session_id)


# ------------------------------------------------------------ residency, in the test's own process


Open = Callable[[], Memory]


@pytest.fixture
def open_memory(home_dir: Path) -> Iterator[Open]:
    opened: list[Memory] = []

    def make() -> Memory:
        opened.append(Memory(home_dir / "termal.sqlite"))
        return opened[-1]

    yield make
    for memory in opened:
        memory.close()


def ask(memory: Memory, record: SessionRecord, buckets: int) -> Json:
    """By an `Overview` of its own each time: nothing is kept from before."""
    return answered(memory, Overview(memory.book, memory.reader, Log("state", None)), record, buckets)


def answered(memory: Memory, overviews: Overview, record: SessionRecord, buckets: int) -> Json:
    request = Asked()
    overviews.overview(request, ReadOverview(record.id, buckets))

    def done() -> bool:
        memory.one_pass()
        return bool(request.answers)

    wait_until(done, "the overview")
    answer: Json = request.answers[0]
    return answer


def say(memory: Memory, record: SessionRecord, messages: list[Message]) -> None:
    change = memory.book.change()
    for message in messages:
        change.append(record, message)
    change.commit()


def trim_to(record: SessionRecord, keep: int) -> None:
    surplus = len(record.messages) - keep
    for message in record.messages[:surplus]:
        del record.positions[message.id]
    del record.messages[:surplus]
    record.start += surplus


@pytest.mark.case("S92")
@pytest.mark.parametrize("count", [100, 25_000])
def test_the_overview_is_equal_with_everything_resident_and_with_30_messages(open_memory: Open, count: int) -> None:
    memory = open_memory()
    record = memory.create()
    record.status = "active"
    say(memory, record, [QUARTERS(at, memory.registry.new_message_id()) for at in range(count)])
    memory.commit()
    assert len(record.messages) == count
    before = ask(memory, record, 512)
    trim_to(record, 30)
    assert ask(memory, record, 512) == before
    assert sum(bucket["c"] for bucket in before["buckets"]) == count


def test_what_is_remembered_of_resident_messages_is_what_they_say(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    say(memory, record, [QUARTERS(at, memory.registry.new_message_id()) for at in range(60)])
    memory.commit()
    say(memory, record, [QUARTERS(at, memory.registry.new_message_id()) for at in range(60, 80)])
    change = memory.book.change()
    change.update(record, record.start + 1, QUARTERS(99, record.messages[1].id))
    change.commit()
    assert resident_map(record) == bytes(byte_of(message) for message in record.messages)
    memory.commit()
    assert resident_map(record) == bytes(byte_of(message) for message in record.messages)


def test_the_overview_waits_for_the_commit_of_what_it_shows(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    memory.commit()
    say(memory, record, [QUARTERS(0, memory.registry.new_message_id())])
    request = Asked()
    Overview(memory.book, memory.reader, Log("state", None)).overview(request, ReadOverview(record.id))
    assert request.answers == []
    memory.commit()
    assert request.answers[0]["messageCount"] == 1


@pytest.mark.case("S91")
def test_four_buckets_say_kinds_users_and_markers_with_100_or_30_resident(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    record.status = "active"
    say(memory, record, [QUARTERS(at, memory.registry.new_message_id()) for at in range(100)])
    memory.commit()
    request = Asked()
    body = CreateMarker(
        session_id=record.id,
        marker_id="marker-1",
        kind="review",
        name="Here",
        color="#fff",
        message_id=record.messages[40].id,
    )
    Markers(memory.book, memory.reader, Log("state", None)).create(request, body)
    memory.commit()
    shown = ask(memory, record, 4)
    assert [bucket["k"] for bucket in shown["buckets"]] == ["text", "command", "diff", "error"]
    assert [bucket["u"] for bucket in shown["buckets"]] == [25, 0, 0, 0]
    assert [bucket["m"] for bucket in shown["buckets"]] == [False, True, False, False]
    assert shown["markers"] == [{"position": 40, "kind": "review", "label": "Here"}]
    assert (shown["latestPosition"], shown["messageCount"]) == (99, 100)
    trim_to(record, 30)
    assert ask(memory, record, 4) == shown


def test_what_is_kept_of_an_overview_ends_with_the_next_change(open_memory: Open) -> None:
    memory = open_memory()
    record = memory.create()
    overviews = Overview(memory.book, memory.reader, Log("state", None))
    for count in range(1, 4):
        say(memory, record, [QUARTERS(count, memory.registry.new_message_id())])
        first, second = (answered(memory, overviews, record, 200) for _ in range(2))
        assert first == second
        assert sum(bucket["c"] for bucket in first["buckets"]) == count
    other = memory.create()
    for buckets in range(1, 50):
        assert answered(memory, overviews, other, buckets)["messageCount"] == 0
    assert len(overviews._kept) == KEPT
