"""The state worker opens a fresh store, a damaged one and a foreign one: what it serves, isolates and refuses."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from termal.wire.control import EXIT_REFUSED, BootDone, Ready, Refused
from termal.wire.errors import Busy, NotFound, TermalError
from termal.wire.session_operations import SESSION_CREATE, SESSION_READ, STATE_FACTS, CreateSession, ReadSession
from termal.wire.turns import Anything
from tests.support.control_peer import ControlPeer
from tests.support.state_worker import MODULE, StateWorker, text_message


def refused(state: StateWorker) -> str:
    """Start a worker that must refuse; what it says to the operator."""
    with ControlPeer(MODULE, state.home.root, state.run_dir) as peer:
        message = peer.wait_for(Refused).message
        assert peer.wait() == EXIT_REFUSED
        assert peer.said(Ready) == []
    return message


def filled(state: StateWorker, sessions: int) -> list[str]:
    """Make sessions, then stop the worker."""
    state.start()
    made = [state.create() for _ in range(sessions)]
    state.stop()
    return made


def visible(state: StateWorker) -> list[str]:
    return [session["id"] for session in state.state()["sessions"]]


def quarantined(state: StateWorker) -> int:
    return state.ask(STATE_FACTS, Anything()).databases[0].quarantined


@pytest.mark.case("S1")
def test_the_first_start_makes_an_empty_store(state: StateWorker) -> None:
    state.start()
    shown = state.state()
    assert (shown["projects"], shown["sessions"], shown["revision"]) == ([], [], 0)
    assert state.rows("SELECT value FROM meta WHERE key = 'schema_version'") == [("2",)]
    ((key, value),) = state.rows("SELECT key, value_json FROM app_state")
    assert key == "metadataState"
    metadata = json.loads(value)
    assert metadata["revision"] == 0
    counters = ("nextProjectNumber", "nextSessionNumber", "nextMessageNumber")
    assert [metadata[name] for name in counters] == [1, 1, 1]
    assert stat.S_IMODE(state.home.root.stat().st_mode) == 0o700
    files = list(state.home.root.glob("termal.sqlite*"))
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_nothing_is_served_or_written_before_coordination_is_ready(state: StateWorker) -> None:
    made = filled(state, 1)
    before = state.rows("SELECT value_json FROM app_state")
    state.start(ready=False)
    waiting = state.begin(SESSION_CREATE, CreateSession(key="k", agent="Demo"))
    late = state.begin(SESSION_READ, ReadSession(made[0]), within_s=0.05)
    assert isinstance(late.error(), Busy)
    assert state.rows("SELECT value_json FROM app_state") == before
    assert state.process.said(BootDone) == []
    state.coordination_ready(highest_session=41)
    assert json.loads(waiting.reply().json)["sessionId"] == "session-42"
    state.process.wait_for(BootDone)


@pytest.mark.case("S10")
def test_the_id_of_a_quarantined_row_is_never_used_again(state: StateWorker) -> None:
    filled(state, 2)
    state.write("INSERT INTO sessions VALUES ('session-9', '{ not json')")
    state.start()
    assert state.create() == "session-10"


@pytest.mark.case("S61")
def test_an_unreadable_session_row_is_isolated_and_kept(state: StateWorker) -> None:
    filled(state, 3)
    state.write("UPDATE sessions SET value_json = '{ not json' WHERE id = 'session-2'")
    state.start()
    assert visible(state) == ["session-1", "session-3"]
    with pytest.raises(NotFound):
        state.read("session-2")
    state.kill_session("session-1")
    assert quarantined(state) == 1
    state.stop()
    assert state.rows("SELECT value_json FROM sessions WHERE id = 'session-2'") == [("{ not json",)]


@pytest.mark.case("S63")
def test_a_row_that_calls_itself_something_else_hides_both_ids(state: StateWorker) -> None:
    filled(state, 2)
    state.change_row("session-2", session={"id": "session-7"})
    state.start()
    assert visible(state) == ["session-1"]
    assert quarantined(state) == 1
    for session_id in ("session-2", "session-7"):
        with pytest.raises(NotFound):
            state.read(session_id)


@pytest.mark.case("S64")
def test_a_message_under_another_id_quarantines_its_session_alone(state: StateWorker) -> None:
    filled(state, 2)
    state.add_messages("session-1", 10)
    state.write("UPDATE messages SET message_id = 'message-x' WHERE position = 9")
    state.start()
    assert visible(state) == ["session-2"]
    assert quarantined(state) == 1


@pytest.mark.case("S65")
def test_a_hole_among_the_newest_messages_quarantines(state: StateWorker) -> None:
    filled(state, 1)
    state.add_messages("session-1", 10)
    state.write("DELETE FROM messages WHERE position = 5")
    state.start()
    assert visible(state) == []
    assert quarantined(state) == 1


@pytest.mark.case("S66")
def test_a_hole_in_old_messages_is_found_when_it_is_read(state: StateWorker) -> None:
    filled(state, 1)
    state.add_messages("session-1", 500)
    state.write("DELETE FROM messages WHERE position = 5")
    state.start()
    assert visible(state) == ["session-1"]
    with pytest.raises(TermalError, match="position 5") as raised:
        state.history("session-1", from_start=True)
    assert raised.value.status == 409


@pytest.mark.parametrize(
    ("agent", "session", "wrapper"),
    [
        pytest.param("Demo", {}, {"remoteId": "host"}, marks=pytest.mark.case("S71"), id="half-a-remote"),
        pytest.param(
            "Demo",
            {},
            {
                "queuedPrompts": [
                    {"attachments": [], "pending_prompt": {"id": "message-9", "timestamp": "", "text": ""}}
                ]
            },
            marks=pytest.mark.case("S72"),
            id="queued-without-source",
        ),
        pytest.param(
            "Codex",
            {
                "approvalPolicy": "never",
                "sandboxMode": "read-only",
                "reasoningEffort": "low",
                "externalSessionId": "thread",
            },
            {"externalSessionId": "thread"},
            marks=pytest.mark.case("S73"),
            id="codex-thread-without-state",
        ),
        pytest.param(
            "Claude",
            {"claudeApprovalMode": "ask", "claudeEffort": "default", "cursorMode": "ask"},
            {},
            marks=pytest.mark.case("S74"),
            id="key-of-another-agent",
        ),
        pytest.param("Demo", {"externalSessionId": "a"}, {"externalSessionId": "b"}, id="two-external-ids"),
        pytest.param("Demo", {"projectId": "project-9"}, {}, id="unknown-project"),
        pytest.param("Demo", {"messageCount": 2, "messages": [text_message("message-1", "x")]}, {}, id="embedded"),
    ],
)
def test_a_row_that_cannot_be_right_is_quarantined(
    state: StateWorker, agent: str, session: dict[str, Any], wrapper: dict[str, Any]
) -> None:
    filled(state, 2)
    state.change_row("session-1", session={"agent": agent, **session}, **wrapper)
    before = state.rows("SELECT * FROM sessions")
    state.start()
    assert visible(state) == ["session-2"]
    assert quarantined(state) == 1
    assert state.rows("SELECT * FROM sessions") == before


@pytest.mark.case("S77")
def test_an_unreadable_prompt_history_quarantines_its_session(state: StateWorker) -> None:
    filled(state, 2)
    state.write("INSERT INTO session_prompt_histories VALUES ('session-1', '[1')")
    state.start()
    assert visible(state) == ["session-2"]
    assert quarantined(state) == 1
    assert state.rows("SELECT value_json FROM session_prompt_histories") == [("[1",)]


@pytest.mark.case("S9")
def test_an_old_opencode_row_gets_its_effort(state: StateWorker) -> None:
    filled(state, 1)
    state.change_row("session-1", session={"agent": "OpenCode", "opencodeModel": "auto", "opencodeMode": "auto"})
    state.start()
    assert state.read("session-1")["opencodeEffort"] == "auto"


@pytest.mark.case("S19")
def test_a_stored_stamp_is_forgotten(state: StateWorker) -> None:
    filled(state, 1)
    state.change_row("session-1", session={"sessionMutationStamp": 77})
    state.start()
    assert state.read("session-1")["sessionMutationStamp"] == 0
    runtime = state.runtime()
    state.send("session-1", "hello")
    runtime.turn(0)
    assert "sessionMutationStamp" not in state.row("session-1")["session"]


@pytest.mark.case("S24")
def test_a_proxy_without_rows_is_a_window_not_an_error(state: StateWorker) -> None:
    filled(state, 1)
    state.change_row(
        "session-1", session={"messageCount": 40, "remoteId": "host"}, remoteId="host", remoteSessionId="session-3"
    )
    state.start()
    shown = state.read("session-1")
    assert (shown["messagesLoaded"], shown["messageCount"], shown["messages"]) == (False, 40, [])


@pytest.mark.case("S109")
def test_a_count_without_rows_goes_on_at_its_count(state: StateWorker) -> None:
    filled(state, 1)
    state.change_row("session-1", session={"messageCount": 40, "messagesLoaded": False})
    state.start()
    shown = state.read("session-1")
    assert (shown["messagesLoaded"], shown["messageCount"], shown["messages"]) == (False, 40, [])
    with pytest.raises(TermalError) as raised:
        state.history("session-1")
    assert raised.value.status == 409
    runtime = state.runtime()
    state.send("session-1", "hello")
    runtime.end(runtime.turn(0))
    assert state.rows("SELECT position FROM messages") == [(40,)]
    state.reload()
    shown = state.read("session-1")
    assert (shown["messagesLoaded"], shown["messageCount"]) == (False, 41)
    assert state.rows("SELECT * FROM session_overviews") == []


@pytest.mark.case("S75")
def test_a_store_with_bad_rows_alone_starts_empty(state: StateWorker) -> None:
    filled(state, 2)
    state.write("UPDATE sessions SET value_json = 'x'")
    state.start()
    assert visible(state) == []
    state.stop()
    assert state.rows("SELECT value_json FROM sessions") == [("x",), ("x",)]


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param("{ not json", marks=pytest.mark.case("S68"), id="not-json"),
        pytest.param({"nextProjectNumber": None}, marks=pytest.mark.case("S69"), id="no-counter"),
        pytest.param({"projects": None}, marks=pytest.mark.case("S69"), id="no-projects"),
        pytest.param(
            {"preferences": {"remotes": [{"id": "local", "name": "a"}, {"id": "local", "name": "b"}]}},
            marks=pytest.mark.case("S70"),
            id="equal-remotes",
        ),
        pytest.param({"nextProjectNumber": 0}, id="counter-zero"),
        pytest.param(
            {"projects": [{"id": "project-1", "name": "a", "rootPath": "/a", "remoteId": "host"}]}, id="unknown-remote"
        ),
    ],
)
def test_metadata_that_no_start_can_use_refuses_it(state: StateWorker, metadata: Any) -> None:
    filled(state, 1)
    if isinstance(metadata, dict):
        known = json.loads(state.rows("SELECT value_json FROM app_state")[0][0])
        known.update(metadata)
        metadata = json.dumps({key: value for key, value in known.items() if value is not None})
    state.write("UPDATE app_state SET value_json = ?", (metadata,))
    before = state.home.termal_db.read_bytes()
    assert "metadata" in refused(state)
    assert state.home.termal_db.read_bytes() == before


@pytest.mark.case("S76")
def test_rows_without_metadata_refuse_the_start(state: StateWorker) -> None:
    filled(state, 2)
    state.write("DELETE FROM app_state")
    assert "metadata" in refused(state)
    assert len(state.rows("SELECT * FROM sessions")) == 2
    assert state.rows("SELECT * FROM app_state") == []


@pytest.mark.parametrize("version", ["3", "1.0", "", "02"])
@pytest.mark.case("S87")
def test_a_foreign_version_refuses_the_start(state: StateWorker, version: str) -> None:
    filled(state, 1)
    state.write("DROP TABLE delegation_audit")
    state.write("UPDATE meta SET value = ? WHERE key = 'schema_version'", (version,))
    tables = state.rows("SELECT name FROM sqlite_schema ORDER BY name")
    message = refused(state)
    assert repr(version) in message
    assert "'2'" in message
    assert state.rows("SELECT name FROM sqlite_schema ORDER BY name") == tables


@pytest.mark.case("S116")
def test_tables_without_a_version_refuse_the_start(state: StateWorker) -> None:
    filled(state, 1)
    state.write("DELETE FROM meta WHERE key = 'schema_version'")
    before = state.home.termal_db.read_bytes()
    refused(state)
    assert state.home.termal_db.read_bytes() == before


@pytest.mark.case("S79")
def test_a_deleted_overview_is_rebuilt_from_the_rows(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    runtime = state.runtime()
    state.send(session_id, "hello")
    runtime.end(runtime.turn(0), "failed", "no")
    state.stop()
    before = state.rows("SELECT * FROM session_overviews")
    state.write("DELETE FROM session_overviews")
    state.start()
    assert state.rows("SELECT * FROM session_overviews") == before == [(session_id, b"\x04\x00")]


def test_the_revision_never_falls_over_a_restart(state: StateWorker, tmp_path: Path) -> None:
    state.start()
    session_id = state.create()
    shown = state.state()
    state.kill()
    state.start("replacement")
    again = state.state()
    assert again["revision"] >= shown["revision"] + 1024
    assert again["serverInstanceId"] != shown["serverInstanceId"]
    assert [session["id"] for session in again["sessions"]] == [session_id]
