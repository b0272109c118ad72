"""Pages of a transcript: the same whatever is in memory, honest about what is missing."""

import pytest

from termal.wire.errors import Conflict, InvalidRequest, NotFound
from termal.wire.turns import TextDone
from tests.support.state_worker import StateWorker, texts


def with_transcript(state: StateWorker, count: int) -> str:
    state.start()
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, count)
    state.start()
    return session_id


def ids(page: dict[str, list[dict[str, str]]]) -> list[str]:
    return [message["id"] for message in page["messages"]]


@pytest.mark.case("S11", "S12")
def test_a_reload_keeps_the_newest_64_and_reads_the_rest_on_demand(state: StateWorker) -> None:
    session_id = with_transcript(state, 130)
    shown = state.read(session_id)
    assert (shown["messageCount"], shown["messagesLoaded"]) == (130, False)
    assert ids(shown) == [f"message-{number:03d}" for number in range(66, 130)]
    page = state.history(session_id, before="message-066")
    assert ids(page) == [f"message-{number:03d}" for number in range(2, 66)]
    assert page["messageStartIndex"] == 2


@pytest.mark.case("S13")
def test_a_message_that_is_not_in_memory_is_found_by_its_id(state: StateWorker) -> None:
    session_id = with_transcript(state, 130)
    assert state.history(session_id, after="message-002", limit=1)["messageStartIndex"] == 3


@pytest.mark.case("S18")
def test_a_page_with_a_hole_names_the_position(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, 200)
    state.write("DELETE FROM messages WHERE position = 3")
    state.start()
    with pytest.raises(Conflict, match="position 3"):
        state.history(session_id, from_start=True)
    assert len(state.read(session_id)["messages"]) == 64
    assert state.history(session_id)["messageStartIndex"] == 136


@pytest.mark.case("S110")
def test_a_page_with_a_row_of_another_id_names_the_position(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, 300)
    state.write("UPDATE messages SET message_id = 'message-x' WHERE position = 5")
    before = state.rows("SELECT * FROM messages WHERE position = 5")
    state.start()
    with pytest.raises(Conflict, match="position 5"):
        state.history(session_id, from_start=True)
    assert len(state.read(session_id)["messages"]) == 64
    assert state.rows("SELECT * FROM messages WHERE position = 5") == before


@pytest.mark.case("S95", "S96")
def test_a_long_transcript_is_walked_by_cursors(state: StateWorker) -> None:
    session_id = with_transcript(state, 20_001)
    newest = state.history(session_id)
    assert (newest["messageStartIndex"], len(newest["messages"])) == (19_937, 64)
    assert (newest["hasMore"], newest["hasNewer"]) == (True, False)
    assert "nextAfter" not in newest
    second = state.history(session_id, before=newest["nextBefore"])
    assert second["messageStartIndex"] == 19_873
    assert newest["nextBefore"] not in ids(second)
    assert second["nextAfter"] == ids(second)[-1] == "message-19936"
    first = state.history(session_id, from_start=True)
    assert (first["messageStartIndex"], len(first["messages"]), first["hasMore"]) == (0, 64, False)
    assert state.history(session_id, after=first["nextAfter"])["messageStartIndex"] == 64


@pytest.mark.case("S97", "S98")
def test_a_page_around_a_position_stays_inside_the_transcript(state: StateWorker) -> None:
    session_id = with_transcript(state, 100)
    page = state.history(session_id, around=50, limit=20)
    assert (page["messageStartIndex"], len(page["messages"])) == (40, 20)
    assert (page["hasMore"], page["hasNewer"]) == (True, True)
    assert state.history(session_id, around=2, limit=20)["messageStartIndex"] == 0
    assert state.history(session_id, around=99, limit=20)["messageStartIndex"] == 80
    with pytest.raises(Conflict):
        state.history(session_id, around=100)


@pytest.mark.parametrize(
    "selectors",
    [{"limit": 0}, {"limit": 65}, {"before": ""}, {"before": "x", "after": "y"}, {"around": -1}],
    ids=str,
)
def test_impossible_selectors_are_refused(state: StateWorker, selectors: dict[str, object]) -> None:
    state.start()
    session_id = state.create()
    with pytest.raises(InvalidRequest):
        state.history(session_id, **selectors)


def test_an_unknown_cursor_is_stale_and_an_unknown_session_is_missing(state: StateWorker) -> None:
    session_id = with_transcript(state, 100)
    with pytest.raises(Conflict):
        state.history(session_id, before="missing")
    with pytest.raises(NotFound):
        state.history("session-99")


def test_an_empty_transcript_has_an_empty_page(state: StateWorker) -> None:
    state.start()
    page = state.history(state.create())
    assert (page["messages"], page["hasMore"], page["hasNewer"], page["messageCount"]) == ([], False, False, 0)


def test_pages_span_memory_and_file(state: StateWorker) -> None:
    session_id = with_transcript(state, 100)
    runtime = state.runtime()
    state.send(session_id, "go")
    runtime.report(runtime.turn(0), TextDone("a", "fresh"))
    page = state.history(session_id, before=state.read(session_id)["messages"][-1]["id"], limit=64)
    assert (page["messageStartIndex"], page["messageCount"]) == (37, 102)
    assert texts(page)[-1] == "go"
    assert page["sessionMutationStamp"] == state.read(session_id)["sessionMutationStamp"]
