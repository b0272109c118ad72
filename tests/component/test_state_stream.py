"""What an agent says becomes messages, rows, overview bytes and events, each change written by itself."""

import hashlib
import json

import pytest

from termal.wire.turns import (
    FileChanged,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ToolEnded,
    ToolOutput,
    ToolStarted,
)
from tests.support.fake_runtime import FakeRuntime, FakeTurn
from tests.support.state_worker import Json, StateWorker, texts
from tests.support.waiting import wait_until

DIFF = FileChanged("d", "a.py", "Edited a.py", "+x", "edit")


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    """A started state worker with a runtime worker beside it."""
    state.start()
    return state.runtime()


def running(state: StateWorker, runtime: FakeRuntime, text: str = "go") -> tuple[str, FakeTurn]:
    session_id = state.create()
    state.send(session_id, text)
    return session_id, runtime.turn(len(runtime.turns) - 1)


def kinds(session: Json) -> list[str]:
    return [message["type"] for message in session["messages"]]


def overview(state: StateWorker, session_id: str) -> bytes:
    ((blob,),) = state.rows("SELECT value_blob FROM session_overviews WHERE session_id = ?", (session_id,))
    return bytes(blob)


def fingerprints(state: StateWorker) -> dict[tuple[str, int], str]:
    return {
        (session, position): hashlib.sha256(f"{identity}{value}{kind}{user}".encode()).hexdigest()
        for session, position, identity, value, kind, user in state.rows("SELECT * FROM messages")
    }


@pytest.mark.case("S20")
def test_a_diff_closes_the_text_before_it(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, *[TextDelta("a", piece) for piece in "12345"], DIFF, TextDelta("a", "more"))
    shown = state.read(session_id)
    assert kinds(shown) == ["text", "text", "diff", "text"]
    assert texts(shown) == ["go", "12345", "more"]
    assert shown["messages"][2]["changeSetId"] == f"change-{shown['messages'][2]['id']}"


def test_a_command_leaves_the_text_open(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, TextDelta("a", "1"), ToolStarted("t", "execute", "ls"), TextDelta("a", "2"))
    assert texts(state.read(session_id)) == ["go", "12"]


@pytest.mark.case("S21", "S23")
def test_a_command_is_one_message_from_start_to_finish(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(
        turn,
        ToolStarted("t", "execute", "ls"),
        ToolOutput("t", "a\n", append=True),
        ToolOutput("t", "b\n", append=True),
        ToolEnded("t", "success"),
    )
    prompt, command = state.read(session_id)["messages"]
    assert (command["command"], command["output"], command["status"]) == ("ls", "a\nb\n", "success")
    assert overview(state, session_id) == b"\x04\x01"
    assert state.rows("SELECT overview_kind, is_user FROM messages ORDER BY position") == [(0, 1), (1, 0)]
    updates = [event for event in state.deltas(session_id) if event["type"] == "commandUpdate"]
    assert [(event["output"], event["status"]) for event in updates] == [
        ("a\n", "running"),
        ("a\nb\n", "running"),
        ("a\nb\n", "success"),
    ]
    assert prompt["author"] == "you"


@pytest.mark.case("S22")
def test_a_failed_command_is_an_error_on_the_map(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, ToolStarted("t", "execute", "false"), ToolEnded("t", "error", "exit 1"))
    assert overview(state, session_id) == b"\x04\x03"
    assert state.rows("SELECT overview_kind, is_user FROM messages WHERE position = 1") == [(3, 0)]
    assert state.read(session_id)["preview"] == "exit 1"


def test_pieces_are_published_with_the_bytes_before_them(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    pieces = ["é", "日本", "x", "\n", "end"]
    runtime.report(turn, *[TextDelta("a", piece) for piece in pieces])
    added, *deltas = [event for event in state.deltas(session_id) if event["type"] in ("messageAdded", "textDelta")][1:]
    assert added["message"]["text"] == ""
    assert [event["delta"] for event in deltas] == pieces
    assert [event["textStartByte"] for event in deltas] == [0, 2, 8, 9, 10]
    revisions = [event["revision"] for event in state.deltas(session_id)]
    assert revisions == sorted(revisions)
    assert len({event["sessionMutationStamp"] for event in deltas}) == len(deltas)
    assert state.read(session_id)["preview"] == "é日本x"


def test_a_final_text_replaces_what_was_streamed_only_where_it_differs(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, TextDelta("a", "helo"), TextDone("a", "hello"), TextDelta("b", "same"), TextDone("b", "same"))
    runtime.report(turn, TextDone("c", "whole"), TextDone("d", " "))
    assert texts(state.read(session_id)) == ["go", "hello", "same", "whole"]
    replaced = [event["text"] for event in state.deltas(session_id) if event["type"] == "textReplace"]
    assert replaced == ["hello"]


def test_empty_parts_make_no_message(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(
        turn, TextDelta("a", ""), ThinkingDelta("b", " "), FileChanged("c", "a.py", "s", " ", "edit"), TextDone("d", "")
    )
    assert kinds(state.read(session_id)) == ["text"]


def test_a_thought_grows_in_place_and_is_published_when_it_is_stored(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, ThinkingDelta("h", "one\n"), ThinkingDelta("h", "two"))
    thought = state.read(session_id)["messages"][1]
    assert (thought["title"], thought["lines"]) == ("Thinking", ["one", "two"])
    (updated,) = [event for event in state.deltas(session_id) if event["type"] == "messageUpdated"]
    assert updated["message"]["lines"] == ["one", "two"]
    state.reload()
    assert state.read(session_id)["messages"][1]["lines"] == ["one", "two"]


def test_long_output_is_published_at_most_once_per_commit(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, ToolStarted("t", "execute", "cat"), ToolOutput("t", "x" * 9000, append=True))
    runtime.report(turn, *[ToolOutput("t", "y" * 100, append=True) for _ in range(200)])
    runtime.report(turn, ToolEnded("t", "success"))
    command = state.read(session_id)["messages"][1]
    assert command["output"] == "x" * 9000 + "y" * 20_000
    updates = [event for event in state.deltas(session_id) if event["type"] == "commandUpdate"]
    assert len(updates) < 20
    assert updates[-1]["output"] == command["output"]


@pytest.mark.case("S16")
def test_an_append_inserts_one_message_row_and_changes_no_other(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, other = state.create(), state.create()
    state.stop()
    state.add_messages(session_id, 500)
    state.add_messages(other, 50, prefix="other-")
    state.start()
    before, rows = fingerprints(state), state.row(other)
    state.send(session_id, "one more")
    after = fingerprints(state)
    assert after.keys() - before.keys() == {(session_id, 500)}
    assert {key: after[key] for key in before} == before
    assert len(overview(state, session_id)) == 501
    assert state.row(other) == rows


@pytest.mark.case("S17")
def test_an_update_changes_its_row_and_its_byte_alone(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, 498)
    state.start()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    runtime.report(turn, ToolStarted("t", "execute", "false"))
    before, old = fingerprints(state), overview(state, session_id)
    runtime.report(turn, ToolEnded("t", "error"))
    after, new = fingerprints(state), overview(state, session_id)
    assert {key for key in after if after[key] != before.get(key)} == {(session_id, 499)}
    assert (new[:499], old[499], new[499]) == (old[:499], 1, 3)
    assert len(new) == 500


@pytest.mark.case("S112")
def test_a_running_session_shows_its_newest_64_messages(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, *[TextDone(f"t{number}", f"text {number}") for number in range(199)])
    shown = state.send(session_id, "queued")
    assert (len(shown["messages"]), shown["messageCount"], shown["messagesLoaded"]) == (64, 200, False)
    assert texts(shown)[-1] == "text 198"


@pytest.mark.case("S99")
def test_the_prompt_history_holds_the_newest_64_also_after_a_restart(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    for number in range(70):
        state.send(session_id, f"prompt {number}")
        runtime.end(runtime.turn(number))
    expected = [f"prompt {number}" for number in range(6, 70)]
    assert state.read(session_id)["promptHistory"] == expected
    state.reload()
    assert state.read(session_id)["promptHistory"] == expected
    ((stored,),) = state.rows("SELECT value_json FROM session_prompt_histories")
    assert json.loads(stored) == expected


@pytest.mark.case("S100")
def test_a_huge_prompt_is_in_the_transcript_and_not_in_the_history(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, _ = running(state, runtime, "x" * (600 << 10))
    shown = state.read(session_id)
    assert len(shown["messages"][0]["text"]) == 600 << 10
    assert "promptHistory" not in shown


@pytest.mark.case("S101")
def test_what_an_assistant_says_does_not_rewrite_the_history(state: StateWorker, runtime: FakeRuntime) -> None:
    _, turn = running(state, runtime)
    state.write("UPDATE session_prompt_histories SET value_json = '[\"kept\"]'")
    runtime.report(turn, TextDelta("a", "hello"))
    assert state.rows("SELECT value_json FROM session_prompt_histories") == [('["kept"]',)]


def test_a_thousand_unstored_pieces_make_reports_wait(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, *[TextDelta("a", "x") for _ in range(5000)])
    assert texts(state.read(session_id)) == ["go", "x" * 5000]
    wait_until(
        lambda: sum(event["type"] == "textDelta" for event in state.deltas(session_id)) == 5000,
        "every piece as an event",
    )
