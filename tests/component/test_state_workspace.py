"""What state makes of files that change: one message for each turn, and hints that nobody stores."""

from typing import Any

import pytest

from termal.wire.errors import TermalError
from termal.wire.session_operations import SESSION_STOP, OneSession
from termal.wire.turns import TextDelta, TouchedFile, TurnEnded
from termal.wire.workspace_operations import (
    TURN_TOUCHED,
    WORKSPACE_CHANGED,
    SeenChange,
    TurnTouched,
    WorkspaceChanged,
)
from tests.support.fake_runtime import FakeRuntime, FakeTurn
from tests.support.state_worker import Json, StateWorker
from tests.support.waiting import wait_until

FILES = [TouchedFile("a.py", "modified"), TouchedFile("new/b.py", "created")]
SHOWN = [{"path": "a.py", "kind": "modified"}, {"path": "new/b.py", "kind": "created"}]


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    state.start()
    return state.runtime()


def running(state: StateWorker, runtime: FakeRuntime) -> tuple[str, FakeTurn]:
    session_id = state.create()
    state.send(session_id, "go")
    return session_id, runtime.turn(len(runtime.turns) - 1)


def kinds(session: Json) -> list[str]:
    return [message["type"] for message in session["messages"]]


def late(state: StateWorker, session_id: str, turn: FakeTurn, *files: TouchedFile, more: bool = False) -> None:
    state.ask(TURN_TOUCHED, TurnTouched(session_id, turn.id, list(files), more))


def hints(state: StateWorker) -> list[Json]:
    state.deltas()
    return [event for event in state.events if event["event"] == "workspaceFilesChanged"]


def test_a_turn_that_changed_files_ends_with_one_message_of_them(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, TextDelta("t", "done"), TurnEnded("completed", "", FILES))

    session = state.wait_status(session_id, "idle")
    assert kinds(session) == ["text", "text", "fileChanges"]
    message = session["messages"][-1]
    assert (message["title"], message["files"], message["author"]) == ("2 files changed", SHOWN, "assistant")
    assert session["preview"] == "done"
    last = [event for event in state.deltas(session_id) if event["type"] in ("messageAdded", "sessionSummaryUpdated")]
    assert [event["type"] for event in last[-2:]] == ["messageAdded", "sessionSummaryUpdated"]
    assert last[-1]["revision"] == last[-2]["revision"]


def test_a_turn_that_changed_nothing_has_no_such_message(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.end(turn)
    assert kinds(state.wait_status(session_id, "idle")) == ["text"]


@pytest.mark.parametrize("outcome", ["failed", "lost"])
def test_files_come_before_the_text_that_closes_a_turn_in_one_commit(
    state: StateWorker, runtime: FakeRuntime, outcome: Any
) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, TurnEnded(outcome, "no luck", FILES, more_files=True))

    session = state.wait_status(session_id, "error")
    assert kinds(session) == ["text", "fileChanges", "text"]
    assert session["messages"][1]["title"] == "More than 2 files changed"
    events = state.deltas(session_id)[-3:]
    assert [event["type"] for event in events] == ["messageAdded", "messageAdded", "sessionSummaryUpdated"]
    assert len({event["revision"] for event in events}) == 1


def test_a_stopped_turn_tells_its_files_too(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.hold_stops = True
    stop = state.begin(SESSION_STOP, OneSession(session_id))
    wait_until(lambda: runtime.stops, "the stop to arrive")
    runtime.report(turn, TurnEnded("interrupted", "", FILES), wait=False)
    state.deltas()
    runtime.release()
    stop.reply()

    session = state.wait_status(session_id, "idle")
    assert kinds(session) == ["text", "fileChanges", "text"]
    runtime.wait_confirmed(turn)


def test_the_end_of_a_stopped_turn_may_come_after_the_stop(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    state.stop_turn(session_id)
    for _ in range(2):
        runtime.send_again(turn, 1, [TurnEnded("interrupted", "", FILES)])
    wait_until(lambda: kinds(state.read(session_id)) == ["text", "text", "fileChanges"], "the files to be told once")
    assert state.read(session_id)["messages"][-1]["files"] == SHOWN


def test_late_files_join_the_message_of_their_turn(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, TurnEnded("failed", "no luck", FILES))
    before = state.wait_status(session_id, "error")
    late(state, session_id, turn, TouchedFile("new/b.py", "deleted"), TouchedFile("z", "created"))

    session = state.read(session_id)
    assert session["messages"][1]["files"] == [
        {"path": "a.py", "kind": "modified"},
        {"path": "new/b.py", "kind": "modified"},
        {"path": "z", "kind": "created"},
    ]
    assert session["messages"][1]["title"] == "3 files changed"
    assert (session["preview"], session["status"]) == (before["preview"], "error")
    assert state.deltas(session_id)[-1]["type"] == "messageUpdated"
    stored = state.rows("SELECT value_json FROM messages WHERE session_id = ? AND position = 1", (session_id,))
    assert "3 files changed" in stored[0][0]


def test_late_files_of_a_turn_without_any_make_its_message(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.end(turn)
    state.wait_status(session_id, "idle")
    late(state, session_id, turn, more=True)
    late(state, session_id, turn, *FILES)

    session = state.read(session_id)
    assert kinds(session) == ["text", "fileChanges"]
    assert session["messages"][1]["title"] == "More than 2 files changed"
    assert session["status"] == "idle"


def test_late_files_that_are_told_again_change_nothing(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, TurnEnded("completed", "", FILES))
    state.wait_status(session_id, "idle")
    before = state.state()["revision"]
    late(state, session_id, turn, *FILES)
    assert state.state()["revision"] == before


def test_files_that_come_after_the_next_prompt_are_nobodys(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.end(turn)
    state.wait_status(session_id, "idle")
    state.send(session_id, "more")
    late(state, session_id, turn, *FILES)
    late(state, "session-99", turn, *FILES)
    assert kinds(state.read(session_id)) == ["text", "text"]


def test_late_files_survive_a_restart_of_state(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.end(turn)
    state.wait_status(session_id, "idle")
    state.kill()
    state.start("replacement", running=[runtime.name])
    late(state, session_id, turn, *FILES)
    assert kinds(state.read(session_id)) == ["text", "fileChanges"]


def test_hints_go_out_with_a_counter_of_their_own_and_are_stored_nowhere(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id, _ = running(state, runtime)
    revision = state.state()["revision"]
    change = SeenChange("src/a.py", "modified", 1700000000123, 42)
    for _ in range(2):
        state.ask(WORKSPACE_CHANGED, WorkspaceChanged("/w", [session_id], [change, SeenChange("b", "deleted")]))

    first, second = hints(state)
    assert (first["revision"], second["revision"]) == (1, 2)
    assert first["changes"] == [
        {
            "path": "/w/src/a.py",
            "kind": "modified",
            "rootPath": "/w",
            "sessionId": session_id,
            "mtimeMs": 1700000000123,
            "sizeBytes": 42,
        },
        {"path": "/w/b", "kind": "deleted", "rootPath": "/w", "sessionId": session_id},
    ]
    assert "overflow" not in first
    assert state.state()["revision"] == revision


def test_a_hint_that_is_too_large_names_the_directory(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, _ = running(state, runtime)
    state.ask(WORKSPACE_CHANGED, WorkspaceChanged("/w", [session_id], [], overflow=True))
    (hint,) = hints(state)
    assert (hint["changes"], hint["overflow"]) == ([], ["/w"])


def test_of_two_sessions_in_one_directory_a_hint_names_neither(state: StateWorker, runtime: FakeRuntime) -> None:
    one, two = state.create(), state.create()
    change = SeenChange("a", "created")
    state.ask(WORKSPACE_CHANGED, WorkspaceChanged("/w", [one, two], [change]))
    state.ask(WORKSPACE_CHANGED, WorkspaceChanged("/w", ["session-98", "session-99"], [change]))
    (hint,) = hints(state)
    assert "sessionId" not in hint["changes"][0]


def test_a_change_of_an_unknown_kind_is_refused(state: StateWorker, runtime: FakeRuntime) -> None:
    strange = WorkspaceChanged("/w", ["session-1"], [SeenChange("a", "eaten")])  # type: ignore[arg-type]
    with pytest.raises(TermalError):
        state.ask(WORKSPACE_CHANGED, strange)
