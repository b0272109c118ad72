"""Codex threads as `state` has them: what may be done when, what is written of it, what a failed stop leaves."""

import json
from typing import Any

import pytest

from termal.wire.errors import Conflict, Internal, InvalidRequest, TermalError
from termal.wire.operation import Operation
from termal.wire.session_operations import OneSession
from termal.wire.thread_operations import (
    THREAD_ARCHIVE,
    THREAD_COMPACT,
    THREAD_FORK,
    THREAD_ROLLBACK,
    THREAD_SERVERS,
    THREAD_UNARCHIVE,
    ForkThread,
    PastItem,
    RollBack,
    ThreadDone,
)
from termal.wire.turns import ExternalSession, ModelDetail, ModelsKnown, TextDone
from tests.support.fake_runtime import FakeRuntime
from tests.support.state_worker import StateWorker, find, texts
from tests.support.waiting import wait_until

HISTORY = [
    PastItem("prompt", "first"),
    PastItem("thinking", "hm\nhm"),
    PastItem("command", "ls", output="a\n", failed=True),
    PastItem("diff", "+one\n", title="a.txt", change="create"),
    PastItem("text", "answer"),
]


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    state.start()
    return state.runtime("runtime-codex")


@pytest.fixture
def session(state: StateWorker, runtime: FakeRuntime) -> str:
    """An idle session whose thread is known."""
    session_id = state.create("Codex")
    one_turn(state, runtime, session_id, "hello")
    return session_id


def one_turn(state: StateWorker, runtime: FakeRuntime, session_id: str, prompt: str) -> None:
    count = len(runtime.turns)
    state.send(session_id, prompt)
    turn = runtime.turn(count)
    runtime.report(turn, ExternalSession(f"thread-{session_id}"), TextDone("t", f"said {prompt}"))
    runtime.end(turn)
    state.wait_status(session_id, "idle")


def step(state: StateWorker, op: Operation[Any, Any], session_id: str) -> dict[str, Any]:
    return find(state.json(op, OneSession(session_id)), session_id)


def refused(state: StateWorker, op: Operation[Any, Any], request: object) -> TermalError:
    before = state.state()["revision"]
    with pytest.raises(TermalError) as refusal:
        state.ask(op, request)
    assert state.state()["revision"] == before
    return refusal.value


@pytest.mark.case("H25")
def test_an_archived_thread_takes_no_prompt_until_it_is_back(
    state: StateWorker, runtime: FakeRuntime, session: str
) -> None:
    archived = step(state, THREAD_ARCHIVE, session)
    assert archived["codexThreadState"] == "archived"
    assert "archived" in texts(archived)[-1]
    with pytest.raises(Conflict) as refusal:
        state.send(session, "and now")
    assert refusal.value.reason == "archivedThread"
    assert refused(state, THREAD_ARCHIVE, OneSession(session)).reason == "alreadyArchived"
    assert refused(state, THREAD_COMPACT, OneSession(session)).reason == "archivedThread"
    state.reload()
    assert state.read(session)["codexThreadState"] == "archived"
    back = step(state, THREAD_UNARCHIVE, session)
    assert back["codexThreadState"] == "active"
    assert refused(state, THREAD_UNARCHIVE, OneSession(session)).reason == "notArchived"
    one_turn(state, runtime, session, "again")
    assert [command.action for command in runtime.commands] == ["archive", "unarchive"]


@pytest.mark.case("H26")
@pytest.mark.parametrize("turns", [0, -1])
def test_less_than_one_turn_cannot_be_taken_back(
    state: StateWorker, runtime: FakeRuntime, session: str, turns: int
) -> None:
    error = refused(state, THREAD_ROLLBACK, RollBack(session, turns))
    assert (error.status, error.reason) == (400, "numTurns")
    assert not runtime.commands


def test_a_rollback_replaces_the_transcript_with_what_codex_returns(
    state: StateWorker, runtime: FakeRuntime, session: str
) -> None:
    one_turn(state, runtime, session, "second")
    runtime.thread = ThreadDone(items=HISTORY)
    reply = find(state.json(THREAD_ROLLBACK, RollBack(session, 2)), session)
    assert runtime.commands[-1].turns == 2
    assert [message["type"] for message in reply["messages"]] == ["text", "thinking", "command", "diff", "text"]
    assert (reply["messageCount"], reply["status"], reply["preview"]) == (5, "idle", "answer")
    assert reply["promptHistory"] == ["first"]
    assert reply["messages"][2]["status"] == "error"
    assert (reply["messages"][3]["changeType"], reply["messages"][3]["filePath"]) == ("create", "a.txt")
    compacted = next(delta for delta in state.deltas(session) if delta["type"] == "messagesCompacted")
    assert (compacted["messageCount"], compacted["status"], compacted["preview"]) == (5, "idle", "answer")
    assert state.rows("SELECT count(*) FROM messages WHERE session_id = ?", (session,)) == [(5,)]
    overview = state.rows("SELECT length(value_blob) FROM session_overviews WHERE session_id = ?", (session,))
    assert overview == [(5,)]
    state.reload()
    assert state.read(session)["messages"] == reply["messages"]
    one_turn(state, runtime, session, "third")
    assert state.read(session)["messageCount"] == 7


def test_a_rollback_without_a_history_leaves_the_transcript_and_a_note(
    state: StateWorker, runtime: FakeRuntime, session: str
) -> None:
    before = state.read(session)["messages"]
    reply = find(state.json(THREAD_ROLLBACK, RollBack(session)), session)
    assert reply["messages"][:-1] == before
    assert "taken back" in texts(reply)[-1]
    assert reply["status"] == "idle"


def test_a_compaction_leaves_the_transcript_and_a_note(state: StateWorker, runtime: FakeRuntime, session: str) -> None:
    before = state.read(session)["messages"]
    reply = step(state, THREAD_COMPACT, session)
    assert reply["messages"][:-1] == before
    assert len(reply["messages"]) == len(before) + 1
    assert reply["status"] == "idle"


@pytest.mark.parametrize("items", [HISTORY, None])
def test_a_fork_is_a_session_of_its_own_on_the_new_thread(
    state: StateWorker, runtime: FakeRuntime, session: str, items: list[PastItem] | None
) -> None:
    runtime.thread = ThreadDone("thread-fork", items)
    reply = state.json(THREAD_FORK, ForkThread("key", session))
    fork, source = reply["session"], state.read(session)
    assert reply["sessionId"] == fork["id"] != session
    assert (fork["externalSessionId"], fork["codexThreadState"]) == ("thread-fork", "active")
    assert source["externalSessionId"] == f"thread-{session}"
    for key in ("agent", "model", "workdir", "approvalPolicy", "sandboxMode", "reasoningEffort"):
        assert fork[key] == source[key]
    assert fork["messageCount"] == (5 if items else 1)
    assert fork["status"] == "idle"
    again = state.json(THREAD_FORK, ForkThread("key", session))
    assert again["sessionId"] == fork["id"], "a repeat makes no second session"
    assert len(runtime.commands) == 1
    created = [delta for delta in state.deltas() if delta["type"] == "sessionCreated"]
    assert created[-1]["session"]["id"] == fork["id"]
    one_turn(state, runtime, fork["id"], "go on")
    assert runtime.turns[-1].start.spec.external_session_id == "thread-fork"
    state.reload()
    assert state.read(fork["id"])["messageCount"] == fork["messageCount"] + 2


def test_the_servers_of_a_thread_are_passed_on(state: StateWorker, runtime: FakeRuntime, session: str) -> None:
    servers = [{"name": "a", "authStatus": "unsupported", "tools": []}]
    runtime.thread = ThreadDone(servers=json.dumps(servers).encode())
    assert state.json(THREAD_SERVERS, OneSession(session)) == {"servers": servers}


def test_nothing_is_done_without_a_thread_or_with_another_agent(state: StateWorker, runtime: FakeRuntime) -> None:
    fresh, demo = state.create("Codex"), state.create("Demo")
    for op in (THREAD_ARCHIVE, THREAD_UNARCHIVE, THREAD_COMPACT, THREAD_SERVERS):
        assert (refused(state, op, OneSession(fresh)).status, refused(state, op, OneSession(demo)).status) == (400, 400)
    assert refused(state, THREAD_FORK, ForkThread("key", fresh)).reason == "noThread"
    assert refused(state, THREAD_FORK, ForkThread("key", demo)).reason == "notCodex"
    assert refused(state, THREAD_ROLLBACK, RollBack("session-99")).status == 404
    assert not runtime.commands


def test_a_running_turn_and_a_command_on_the_thread_keep_each_other_out(
    state: StateWorker, runtime: FakeRuntime, session: str
) -> None:
    state.send(session, "working")
    turn = runtime.turn(1)
    assert refused(state, THREAD_ARCHIVE, OneSession(session)).reason == "busy"
    runtime.end(turn)
    state.wait_status(session, "idle")
    runtime.hold_threads = True
    waiting = state.begin(THREAD_COMPACT, OneSession(session))
    wait_until(lambda: runtime.commands, "the command to be under way")
    with pytest.raises(Conflict) as refusal:
        state.send(session, "meanwhile")
    assert refusal.value.reason == "threadBusy"
    assert refused(state, THREAD_ARCHIVE, OneSession(session)).reason == "busy"
    runtime.release()
    assert waiting.reply().json
    runtime.hold_threads = False
    one_turn(state, runtime, session, "after it")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequest("Codex refuses: no"), 400),
        (Conflict("a turn runs", reason="turnRunning"), 409),
        (Internal("Codex did not answer"), 500),
    ],
)
def test_what_codex_refuses_changes_nothing(
    state: StateWorker, runtime: FakeRuntime, session: str, error: TermalError, status: int
) -> None:
    runtime.thread = error
    assert refused(state, THREAD_ARCHIVE, OneSession(session)).status == status
    assert state.read(session)["codexThreadState"] == "active"
    one_turn(state, runtime, session, "goes on")


# -------------------------------------------------------------------- a stop that fails


@pytest.mark.case("S36")
@pytest.mark.parametrize("failure", ["lost", "error"])
def test_a_failed_interrupt_detaches_the_session_and_the_queue_goes_on(
    state: StateWorker, runtime: FakeRuntime, session: str, failure: str
) -> None:
    state.send(session, "working")
    runtime.turn(1)
    state.send(session, "queued")
    if failure == "lost":
        runtime.conversation_lost = True
    else:
        runtime.stop_error = Internal("Codex did not answer")
    stopped = state.stop_turn(session)
    assert "externalSessionId" not in stopped
    assert "codexThreadState" not in stopped
    assert "Stopped by the user." in texts(stopped)
    successor = runtime.turn(2)
    assert successor.start.prompt == "queued"
    assert successor.start.spec.external_session_id is None
    assert session in runtime.closed, "nobody goes on with the old thread"
    runtime.report(successor, ExternalSession("thread-new"))
    runtime.end(successor)
    assert state.wait_status(session, "idle")["externalSessionId"] == "thread-new"
    ((metadata,),) = state.rows("SELECT value_json FROM app_state")
    assert json.loads(metadata)["ignoredDiscoveredCodexThreadIds"] == [f"thread-{session}"]


@pytest.mark.case("S39")
def test_a_killed_sessions_thread_does_not_come_back(state: StateWorker, runtime: FakeRuntime, session: str) -> None:
    thread = f"thread-{session}"
    rollouts = state.run_dir / "codex" / "sessions" / "2026" / "01" / "01"
    rollouts.mkdir(parents=True)
    (rollouts / f"rollout-2026-01-01T00-00-00-{thread}.jsonl").write_text("{}")
    other = state.create("Codex")
    state.kill_session(session)
    state.stop()
    state.start(environment={"CODEX_HOME": str(state.run_dir / "codex")})
    known = state.state()["sessions"]
    assert [one["id"] for one in known] == [other]
    assert thread not in json.dumps(known)
    ((metadata,),) = state.rows("SELECT value_json FROM app_state")
    assert json.loads(metadata)["ignoredDiscoveredCodexThreadIds"] == [thread]


def test_a_stop_without_a_queue_leaves_an_idle_session(state: StateWorker, runtime: FakeRuntime, session: str) -> None:
    state.send(session, "working")
    runtime.turn(1)
    runtime.conversation_lost = True
    stopped = state.stop_turn(session)
    assert stopped["status"] == "idle"
    assert "externalSessionId" not in stopped
    assert not json.dumps(state.state()).count("ignoredDiscovered"), "that list is never on the wire"


def test_models_are_shown_with_what_each_of_them_takes(state: StateWorker, runtime: FakeRuntime, session: str) -> None:
    state.send(session, "again")
    turn = runtime.turn(1)
    detail = ModelDetail("medium", ["low", "medium"], [("priority", "Fast", "twice the price")])
    runtime.report(turn, ModelsKnown([("gpt-5.4", "GPT", None)], "gpt-5.4", {"gpt-5.4": detail}))
    runtime.end(turn)
    (option,) = state.wait_status(session, "idle")["modelOptions"]
    assert option["supportedReasoningEfforts"] == ["low", "medium"]
    assert option["defaultReasoningEffort"] == "medium"
    assert option["serviceTiers"] == [{"id": "priority", "label": "Fast", "description": "twice the price"}]
