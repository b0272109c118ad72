"""Sessions on a real file: made once, listed, read, killed with what they delegated."""

import json
from pathlib import Path

import pytest

from termal.wire.control import Beat
from termal.wire.errors import InvalidRequest, NotFound
from termal.wire.session_operations import (
    SESSION_CREATE,
    SESSION_ELIGIBILITY,
    SESSION_READ,
    STATE_FACTS,
    AskEligibility,
    CreateSession,
    ReadSession,
)
from termal.wire.turns import Anything, TextDelta
from tests.support.state_worker import StateWorker
from tests.support.waiting import wait_until


@pytest.mark.case("S2")
def test_a_session_without_a_name_is_called_after_its_agent_and_number(state: StateWorker) -> None:
    state.start()
    for _ in range(5):
        state.create()
    reply = state.json(SESSION_CREATE, CreateSession(key="k", agent="Claude"))
    session = reply["session"]
    assert (reply["sessionId"], session["id"], session["name"]) == ("session-6", "session-6", "Claude 6")
    assert (session["emoji"], session["status"], session["claudeApprovalMode"]) == ("CL", "idle", "ask")
    assert (session["approvalPolicy"], session["sandboxMode"]) == (None, None)
    assert (session["messageCount"], session["messagesLoaded"], session["preview"]) == (0, True, "Ready")


@pytest.mark.case("S4")
def test_a_creation_touches_no_row_of_another_session(state: StateWorker) -> None:
    state.start()
    for _ in range(3):
        state.create()
    state.stop()
    for number in (1, 2, 3):
        state.add_messages(f"session-{number}", 10_000, prefix=f"message-{number}-")
    everything = (
        "SELECT id, value_json FROM sessions WHERE id != 'session-4' ORDER BY id",
        "SELECT count(*), sum(length(value_json)) FROM messages",
        "SELECT session_id, hex(value_blob) FROM session_overviews ORDER BY session_id",
    )
    state.start()
    before = [state.rows(sql) for sql in everything]
    assert state.create() == "session-4"
    assert [state.rows(sql) for sql in everything] == before
    assert state.rows("SELECT count(*) FROM sessions") == [(4,)]


@pytest.mark.case("S5")
def test_a_session_that_was_acknowledged_survives_a_kill_right_after(state: StateWorker) -> None:
    state.start()
    session_id = state.create(name=" Mine ")
    state.kill()
    state.start()
    assert state.read(session_id)["name"] == "Mine"


def test_a_repeated_key_finds_the_first_session_also_after_a_kill(state: StateWorker) -> None:
    state.start()
    request = CreateSession(key="same", agent="Demo")
    first = state.json(SESSION_CREATE, request)["sessionId"]
    assert state.json(SESSION_CREATE, request)["sessionId"] == first
    state.kill()
    state.start("replacement")
    assert state.json(SESSION_CREATE, request)["sessionId"] == first
    assert len(state.state()["sessions"]) == 1


def test_a_killed_worker_is_invisible_to_who_asks_for_a_session(state: StateWorker, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    state.start(faults=faults)
    (faults / "state.after_commit_before_reply").write_text("kill")
    waiting = state.begin(SESSION_CREATE, CreateSession(key="k", agent="Demo"))
    state.process.wait(5)
    state.start("replacement")
    assert json.loads(waiting.reply().json)["sessionId"] == "session-1"
    assert state.rows("SELECT id FROM sessions") == [("session-1",)]


def test_a_worker_killed_before_its_commit_has_made_nothing(state: StateWorker, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    state.start(faults=faults)
    (faults / "state.before_commit").write_text("kill")
    waiting = state.begin(SESSION_CREATE, CreateSession(key="k", agent="Demo"))
    state.process.wait(5)
    assert state.rows("SELECT id FROM sessions") == []
    state.start("replacement")
    assert json.loads(waiting.reply().json)["sessionId"] == "session-1"


@pytest.mark.case("S6")
def test_a_workdir_outside_the_project_is_refused_and_leaves_no_trace(state: StateWorker, tmp_path: Path) -> None:
    root, other = tmp_path / "p", tmp_path / "q"
    root.mkdir()
    other.mkdir()
    state.start()
    state.stop()
    metadata = json.loads(state.rows("SELECT value_json FROM app_state")[0][0])
    metadata["projects"] = [{"id": "project-a", "name": "p", "rootPath": str(root), "remoteId": "local"}]
    state.write("UPDATE app_state SET value_json = ?", (json.dumps(metadata),))
    state.start()
    before = state.state()["revision"]
    for fields in ({"workdir": str(other)}, {"workdir": str(tmp_path / "none")}, {"workdir": "p"}):
        with pytest.raises(InvalidRequest):
            state.create(project_id="project-a", **fields)
    assert state.state()["revision"] == before
    assert state.rows("SELECT * FROM sessions") == []
    assert state.events == []
    session_id = state.create(project_id="project-a")
    assert (session_id, state.read(session_id)["workdir"]) == ("session-1", str(root.resolve()))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"agent": "Nobody"}, id="unknown-agent"),
        pytest.param({"agent": "Cursor"}, id="not-installed"),
        pytest.param({"project_id": "project-9"}, id="unknown-project"),
        pytest.param({"settings": {"sandboxMode": "read-only"}}, id="setting-of-another-agent"),
        pytest.param({"model": "x" * 201}, id="long-model"),
    ],
)
def test_a_creation_that_cannot_succeed_is_refused(state: StateWorker, fields: dict[str, str]) -> None:
    state.start(environment={"PATH": "/nonexistent"})
    with pytest.raises(InvalidRequest):
        state.create(**fields)
    assert state.create() == "session-1"


def test_a_missing_agent_is_refused_with_how_to_install_it(state: StateWorker) -> None:
    state.start(environment={"PATH": "/nonexistent"})
    with pytest.raises(InvalidRequest, match=r"npm i -g @google/gemini-cli"):
        state.create("Gemini")


def test_a_creation_publishes_its_session_and_no_snapshot(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    (event,) = state.wait_deltas(session_id, 1)
    assert event["type"] == "sessionCreated"
    assert event["session"]["messages"] == []
    assert event["revision"] == state.state()["revision"]
    assert [event["event"] for event in state.events] == ["delta"]


@pytest.mark.case("S38")
def test_a_kill_takes_every_delegated_descendant_along(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime()
    ids = [state.create() for _ in range(5)]
    for index, session_id in enumerate(ids):
        state.send(session_id, f"prompt {index}")
        turn = runtime.turn(index)
        runtime.report(turn, TextDelta("a", "x"))
        runtime.end(turn)
    state.stop()
    links = [(ids[0], ids[1]), (ids[0], ids[2]), (ids[2], ids[3])]
    for number, (parent, child) in enumerate(links):
        record = {"id": f"delegation-{number}", "parentSessionId": parent, "childSessionId": child, "status": "running"}
        state.write("INSERT INTO delegations VALUES (?, ?)", (record["id"], json.dumps(record)))
    state.start()
    reply = state.kill_session(ids[0])
    assert [session["id"] for session in reply["sessions"]] == [ids[4]]
    for table in ("messages", "session_overviews", "session_prompt_histories"):
        assert {row[0] for row in state.rows(f"SELECT DISTINCT session_id FROM {table}")} == {ids[4]}
    assert state.rows("SELECT id FROM sessions") == [(ids[4],)]
    snapshots = [event for event in state.events if event["event"] == "state"]
    assert [[session["id"] for session in event["sessions"]] for event in snapshots] == [[ids[4]]]
    with pytest.raises(NotFound):
        state.kill_session(ids[1])


def test_a_killed_session_is_gone_for_its_running_turn_and_its_agent(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime()
    session_id, other = state.create(), state.create()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    state.kill_session(session_id)
    wait_until(lambda: runtime.closed == [session_id], "the agent to be closed")
    runtime.report(turn, TextDelta("a", "late"))
    assert not turn.known
    assert state.rows("SELECT * FROM messages") == []
    assert state.status(other) == "idle"


def test_eligibility_is_told_from_live_records(state: StateWorker) -> None:
    state.start()
    root, child, marked, proxy = (state.create() for _ in range(4))
    state.stop()
    state.change_row(marked, session={"parentDelegationId": "delegation-9"})
    state.change_row(proxy, session={"remoteId": "host"}, remoteId="host", remoteSessionId="session-1")
    record = {"id": "delegation-1", "parentSessionId": root, "childSessionId": child, "status": "completed"}
    state.write("INSERT INTO delegations VALUES (?, ?)", (record["id"], json.dumps(record)))
    state.start()
    answer = state.ask(SESSION_ELIGIBILITY, AskEligibility([root, child, marked, proxy, "session-99"]))
    assert [entry.verdict for entry in answer.sessions] == ["", "delegated", "delegated", "remote", "unknown"]
    assert answer.sessions[0].name == "Demo 1"


def test_facts_and_heartbeats_tell_the_size_of_things(state: StateWorker) -> None:
    state.start()
    state.create()
    facts = state.ask(STATE_FACTS, Anything())
    assert facts.sessions.total == facts.sessions.idle == 1
    assert facts.databases[0].schema_version == "2"
    assert facts.server_instance_id == state.state()["serverInstanceId"]
    assert ("session.create", "ok", 1) in [(op.operation, op.outcome, op.count) for op in facts.operations]
    state.process.forget_beats()
    wait_until(lambda: state.process.wait_for(Beat).facts.get("sessions") == 1, "a heartbeat with the sessions")


@pytest.mark.parametrize("tail", [0, 65])
def test_a_tail_out_of_range_is_refused(state: StateWorker, tail: int) -> None:
    state.start()
    session_id = state.create()
    with pytest.raises(InvalidRequest, match="tail"):
        state.ask(SESSION_READ, ReadSession(session_id, tail))
