"""Markers: kept with their session, anchored in its transcript, changed by one request at a time."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from termal.log import Log
from termal.wire.errors import Conflict, InvalidRequest, NotFound
from termal.wire.session_operations import (
    MARKER_CREATE,
    MARKER_DELETE,
    MARKER_LIST,
    MARKER_UPDATE,
    CreateMarker,
    OneMarker,
    OneSession,
    UpdateMarker,
)
from tests.support.state_memory import Asked, Memory
from tests.support.state_worker import Json, StateWorker, find
from tests.support.stored import StoredSessions
from tests.support.waiting import wait_until
from workers.state.markers import Markers
from workers.state.session_record import SessionRecord


def body(session_id: str, message_id: str, marker_id: str = "marker-1", **fields: Any) -> CreateMarker:
    values = {"kind": "review", "name": "Here", "color": "#FFF", **fields}
    return CreateMarker(session_id=session_id, marker_id=marker_id, message_id=message_id, **values)


def create(state: StateWorker, session_id: str, message_id: str, **fields: Any) -> Json:
    marker: Json = state.json(MARKER_CREATE, body(session_id, message_id, **fields))["marker"]
    return marker


def update(state: StateWorker, session_id: str, **fields: Any) -> Json:
    fields.setdefault("marker_id", "marker-1")
    return state.json(MARKER_UPDATE, UpdateMarker(session_id=session_id, **fields))


def markers(state: StateWorker, session_id: str) -> list[Json]:
    shown: list[Json] = state.json(MARKER_LIST, OneSession(session_id))["markers"]
    return shown


@pytest.fixture
def session_id(state: StateWorker) -> str:
    """A session of 100 messages, ``message-1`` to ``message-100``, of which the newest 64 are in memory."""
    with StoredSessions(state.home.termal_db) as sessions:
        made = sessions.add(100)
    state.start()
    return made


def test_a_marker_is_created_listed_kept_and_deleted(state: StateWorker, session_id: str) -> None:
    made = create(state, session_id, "message-80", name="  Here ", body=" \n", end_message_id="message-90")
    assert made == {
        "id": "marker-1",
        "sessionId": session_id,
        "kind": "review",
        "name": "Here",
        "body": None,
        "color": "#fff",
        "messageId": "message-80",
        "messageIndexHint": 79,
        "endMessageId": "message-90",
        "endMessageIndexHint": 89,
        "createdAt": made["createdAt"],
        "updatedAt": made["createdAt"],
        "createdBy": "user",
    }
    assert markers(state, session_id) == state.read(session_id)["markers"] == [made]
    state.kill()
    state.start()
    assert markers(state, session_id) == find(state.state(), session_id)["markers"] == [made]
    gone = state.json(MARKER_DELETE, OneMarker(session_id, "marker-1"))
    assert gone["markerId"] == "marker-1"
    assert (gone["revision"], gone["serverInstanceId"]) == (
        state.state()["revision"],
        state.state()["serverInstanceId"],
    )
    assert markers(state, session_id) == []
    assert "markers" not in state.read(session_id)
    with pytest.raises(NotFound):
        state.ask(MARKER_DELETE, OneMarker(session_id, "marker-1"))


def test_each_change_is_one_event_and_touches_nothing_but_the_session_row(state: StateWorker, session_id: str) -> None:
    before = state.read(session_id)
    rows = state.rows("SELECT * FROM messages"), state.rows("SELECT * FROM session_overviews")
    made = create(state, session_id, "message-80")
    changed = update(state, session_id, name="There")
    gone = state.json(MARKER_DELETE, OneMarker(session_id, "marker-1"))
    events = state.wait_deltas(session_id, 3)
    assert [event["type"] for event in events] == [
        "conversationMarkerCreated",
        "conversationMarkerUpdated",
        "conversationMarkerDeleted",
    ]
    assert (events[0]["marker"], events[1]["marker"], events[2]["markerId"]) == (made, changed["marker"], "marker-1")
    assert [event["revision"] for event in events][1:] == [changed["revision"], gone["revision"]]
    assert events[2]["sessionMutationStamp"] == gone["sessionMutationStamp"]
    after = state.read(session_id)
    assert after["sessionMutationStamp"] == gone["sessionMutationStamp"] > before["sessionMutationStamp"]
    same = ("status", "preview", "messageCount", "promptHistory")
    assert [after.get(key) for key in same] == [before.get(key) for key in same]
    assert (state.rows("SELECT * FROM messages"), state.rows("SELECT * FROM session_overviews")) == rows


@pytest.mark.case("S103")
def test_an_anchor_that_is_not_resident_is_found_in_the_file(state: StateWorker, session_id: str) -> None:
    assert create(state, session_id, "message-3")["messageIndexHint"] == 2
    assert update(state, session_id, end_message_id="message-99")["marker"]["endMessageIndexHint"] == 98
    assert update(state, session_id, message_id="message-5")["marker"]["messageIndexHint"] == 4


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"message_id": "message-80", "end_message_id": "message-79"},
            id="end-before-start",
            marks=pytest.mark.case("S104"),
        ),
        pytest.param({"message_id": "message-3", "end_message_id": "message-2"}, id="the-same-in-the-file"),
        pytest.param({"message_id": "message-101"}, id="no-such-message"),
        pytest.param({"message_id": "message-80", "end_message_id": "message-101"}, id="no-such-end"),
        pytest.param({"message_id": "message-80", "name": " "}, id="blank-name"),
        pytest.param({"message_id": "message-80", "name": "x" * 121}, id="long-name"),
        pytest.param({"message_id": "message-80", "body": "x" * 4001}, id="long-body"),
        pytest.param({"message_id": "message-80", "color": "red"}, id="color"),
        pytest.param({"message_id": "message-80", "kind": "decison"}, id="kind"),
    ],
)
def test_a_marker_that_cannot_be_is_refused_and_changes_nothing(
    state: StateWorker, session_id: str, fields: dict[str, Any]
) -> None:
    create(state, session_id, "message-70", marker_id="marker-0")
    stamp, revision = state.read(session_id)["sessionMutationStamp"], state.state()["revision"]
    with pytest.raises(InvalidRequest):
        create(state, session_id, **fields)
    with pytest.raises(InvalidRequest):
        update(state, session_id, marker_id="marker-0", **fields)
    assert (state.read(session_id)["sessionMutationStamp"], state.state()["revision"]) == (stamp, revision)
    assert [marker["id"] for marker in markers(state, session_id)] == ["marker-0"]


def test_what_a_change_leaves_out_stays_and_null_clears(state: StateWorker, session_id: str) -> None:
    made = create(state, session_id, "message-80", body="B", end_message_id="message-81")
    changed = update(state, session_id, kind="bug", color="#ABCDEF12")["marker"]
    assert changed == {**made, "kind": "bug", "color": "#abcdef12", "updatedAt": changed["updatedAt"]}
    cleared = update(state, session_id, body=None, end_message_id=None)["marker"]
    assert cleared["body"] is None
    assert {"endMessageId", "endMessageIndexHint"}.isdisjoint(cleared)
    assert cleared["createdAt"] == made["createdAt"]


def test_a_change_to_what_is_already_so_is_answered_without_a_revision(state: StateWorker, session_id: str) -> None:
    made = create(state, session_id, "message-80")
    revision = state.state()["revision"]
    assert update(state, session_id)["marker"] == update(state, session_id, name=" Here ")["marker"] == made
    assert update(state, session_id, message_id="message-80")["revision"] == revision


def test_a_repeated_create_is_answered_with_the_first_marker(state: StateWorker, session_id: str) -> None:
    made = create(state, session_id, "message-80")
    assert create(state, session_id, "message-80", name="Other") == made
    state.kill()
    state.start()
    assert create(state, session_id, "message-80") == made
    assert len(markers(state, session_id)) == 1


def test_unknown_sessions_and_markers_are_missing(state: StateWorker, session_id: str) -> None:
    for ask in (
        lambda: create(state, "session-99", "message-80"),
        lambda: markers(state, "session-99"),
        lambda: update(state, session_id, name="x"),
        lambda: update(state, "session-99", name="x"),
        lambda: state.ask(MARKER_DELETE, OneMarker(session_id, "marker-9")),
    ):
        with pytest.raises(NotFound):
            ask()


@pytest.mark.case("S102")
def test_a_stored_marker_of_an_unknown_kind_is_custom(state: StateWorker, session_id: str) -> None:
    made = create(state, session_id, "message-80")
    state.stop()
    state.change_row(session_id, session={"markers": [{**made, "kind": "decison", "later": True}]})
    state.start()
    assert markers(state, session_id) == [{**made, "kind": "custom"}]


def test_markers_of_a_session_of_another_daemon_are_read_and_not_written(state: StateWorker, session_id: str) -> None:
    create(state, session_id, "message-80")
    state.stop()
    state.change_row(session_id, remoteId="local", remoteSessionId="session-7", session={"remoteId": "local"})
    state.start()
    assert len(markers(state, session_id)) == 1
    for ask in (
        lambda: create(state, session_id, "message-80", marker_id="marker-2"),
        lambda: update(state, session_id, name="x"),
        lambda: state.ask(MARKER_DELETE, OneMarker(session_id, "marker-1")),
    ):
        with pytest.raises(InvalidRequest):
            ask()


# ------------------------------------------------------- two at once, in the test's own process

Open = Callable[[], Memory]


@pytest.fixture
def memory(home_dir: Path) -> Iterator[Memory]:
    """A store with one idle session of 100 messages and one marker."""
    opened = Memory(home_dir / "termal.sqlite")
    record = opened.create()
    opened.say(record, 100)
    opened.commit()
    handlers(opened).create(Asked(), body(record.id, record.messages[-1].id))
    opened.commit()
    yield opened
    opened.close()


def handlers(memory: Memory) -> Markers:
    return Markers(memory.book, memory.reader, Log("state", None))


def only(memory: Memory) -> SessionRecord:
    return next(iter(memory.registry.sessions.values()))


def answers(memory: Memory, *requests: Asked) -> list[Any]:
    def done() -> bool:
        memory.one_pass()
        return all(request.answers for request in requests)

    wait_until(done, "every answer")
    return [request.answers[0] for request in requests]


def moved(memory: Memory, **fields: Any) -> Asked:
    """A change whose anchor has to be read from the file: it is carried out in a later pass."""
    request = Asked()
    record = only(memory)
    handlers(memory).update(
        request, UpdateMarker(session_id=record.id, marker_id="marker-1", message_id="message-1", **fields)
    )
    return request


def test_of_two_changes_at_once_the_second_is_a_conflict(memory: Memory) -> None:
    first, second = answers(memory, moved(memory, name="first"), moved(memory, name="second"))
    assert first["marker"]["name"] == "first"
    assert isinstance(second, Conflict)
    [marker] = only(memory).session.markers or []
    assert (marker.name, marker.message_index_hint) == ("first", 0)


def test_a_marker_deleted_while_its_anchor_was_read_stays_deleted(memory: Memory) -> None:
    slow, gone = moved(memory), Asked()
    handlers(memory).delete(gone, OneMarker(only(memory).id, "marker-1"))
    late, _ = answers(memory, slow, gone)
    assert isinstance(late, Conflict)
    assert not only(memory).session.markers


def test_a_session_removed_while_an_anchor_was_read_is_missing(memory: Memory) -> None:
    slow = moved(memory)
    change = memory.book.change()
    change.remove(only(memory))
    change.commit()
    assert isinstance(answers(memory, slow)[0], NotFound)


def test_nothing_is_answered_before_its_commit(memory: Memory) -> None:
    record, request = only(memory), Asked()
    handlers(memory).create(request, body(record.id, record.messages[0].id, "marker-2"))
    assert request.answers == []
    published = len(memory.published)
    memory.commit()
    assert request.answers[0]["marker"]["id"] == "marker-2"
    assert len(memory.published) == published + 1
