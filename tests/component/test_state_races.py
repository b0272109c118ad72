"""Starts, stops and kills that meet each other and the deaths of workers: no turn without an owner, no agent without
a session."""

import json
from pathlib import Path

import pytest

from termal.wire.errors import Conflict, Internal, NotFound, OutcomeUnknown, TermalError
from termal.wire.session_operations import PROMPT_SEND, SESSION_KILL, SESSION_STOP, OneSession
from termal.wire.turns import AgentTree, TextDelta
from tests.support.fake_runtime import FakeRuntime, FakeTurn
from tests.support.state_worker import StateWorker, texts
from tests.support.waiting import wait_until

HELD = ["runtime-acp"]


def stored_turn(state: StateWorker, session_id: str) -> str:
    return str(state.row(session_id)["activeTurn"]["turnId"])


def lone_turn(state: StateWorker, runtime: FakeRuntime) -> tuple[str, FakeTurn]:
    session_id = state.create()
    state.send(session_id, "go")
    return session_id, runtime.turn(len(runtime.turns) - 1)


def test_the_start_of_a_session_killed_meanwhile_never_reaches_its_worker(state: StateWorker) -> None:
    state.start()
    doomed, other = state.create(), state.create()
    first = state.begin(PROMPT_SEND, state.prompt(doomed, "never"))
    wait_until(lambda: state.status(doomed) == "active", "the turn to wait for its worker")
    state.kill_session(doomed)
    assert isinstance(first.error(), NotFound)
    second = state.begin(PROMPT_SEND, state.prompt(other, "mine"))
    runtime = state.runtime()
    assert runtime.turn(0).start.prompt == "mine"
    second.reply()
    assert len(runtime.turns) == 1


def test_a_start_whose_answer_came_too_late_is_taken_back(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime()
    session_id = state.create()
    runtime.hold_starts = True
    prompt = state.begin(PROMPT_SEND, state.prompt(session_id, "slow"), within_s=1.5)
    error = prompt.error()
    assert (type(error), error.reason) == (Internal, "runtimeRefused")
    runtime.release()
    late = runtime.turn(0)
    wait_until(lambda: [stop.turn_id for stop in runtime.stops] == [late.id], "the late turn to be stopped")
    runtime.end(late, "interrupted")
    assert not late.known
    runtime.hold_starts = False
    state.send(session_id, "again")
    assert runtime.turn(1).start.prompt == "again"


def test_agents_of_a_session_whose_kill_was_cut_off_are_ended_by_the_next_state(
    state: StateWorker, tmp_path: Path
) -> None:
    faults = tmp_path / "faults"
    state.start(faults=faults)
    runtime = state.runtime()
    idle, kept = state.create(), state.create()
    busy, _ = lone_turn(state, runtime)
    runtime.agents = [AgentTree("Demo", 1, [idle]), AgentTree("Demo", 2, [kept])]
    for doomed in (idle, busy):
        (faults / "state.after_commit_before_reply").write_text("kill")
        assert isinstance(state.begin(SESSION_KILL, OneSession(doomed)).error(), OutcomeUnknown)
        state.process.wait()
        assert doomed not in runtime.closed
        state.start("replacement", running=HELD, faults=faults)
        wait_until(lambda doomed=doomed: doomed in runtime.closed, "the agent to be ended")  # type: ignore[misc]
    assert kept not in runtime.closed


def test_a_kill_during_a_stop_answers_both_and_leaves_nothing(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime()
    session_id, turn = lone_turn(state, runtime)
    runtime.hold_stops = True
    stop = state.begin(SESSION_STOP, OneSession(session_id))
    wait_until(lambda: runtime.stops, "the stop to reach the worker")
    runtime.report(turn, TextDelta("a", "while stopping"), wait=False)
    state.kill_session(session_id)
    wait_until(lambda: not turn.known, "the worker to be told that nobody waits")
    runtime.release()
    assert isinstance(stop.error(), NotFound)
    assert state.rows("SELECT count(*) FROM messages") == [(0,)]
    runtime.end(turn)
    assert state.state()["sessions"] == []


def test_a_stop_during_the_start_is_carried_out_as_soon_as_it_can_be(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime()
    session_id = state.create()
    runtime.hold_starts = True
    prompt = state.begin(PROMPT_SEND, state.prompt(session_id, "go"))
    wait_until(lambda: state.status(session_id) == "active", "the turn to be stored")
    stop = state.begin(SESSION_STOP, OneSession(session_id))
    again = state.begin(SESSION_STOP, OneSession(session_id))
    assert isinstance(again.error(), Conflict)
    assert runtime.stops == []
    runtime.release()
    prompt.reply()
    stop.reply()
    assert state.status(session_id) == "idle"


def test_a_stop_of_a_turn_whose_start_fails_is_told_that_nothing_runs(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime()
    session_id = state.create()
    runtime.hold_starts = True
    prompt = state.begin(PROMPT_SEND, state.prompt(session_id, "go"), within_s=1.5)
    wait_until(lambda: state.status(session_id) == "active", "the turn to be stored")
    stop = state.begin(SESSION_STOP, OneSession(session_id))
    assert isinstance(prompt.error(), Internal)
    assert isinstance(stop.error(), Conflict)
    assert state.status(session_id) == "error"


def test_a_worker_that_dies_during_a_stop_ends_the_turn_with_all_that_it_had_said(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime()
    session_id, turn = lone_turn(state, runtime)
    state.send(session_id, "next")
    runtime.hold_stops = True
    stop = state.begin(SESSION_STOP, OneSession(session_id))
    wait_until(lambda: runtime.stops, "the stop to reach the worker")
    runtime.report(turn, TextDelta("a", "last words"), wait=False)
    wait_until(lambda: state.status(session_id) == "active", "the report to be there")
    state.runtimes.remove(runtime)
    runtime.close()
    assert isinstance(stop.error(), TermalError)
    shown = state.wait_status(session_id, "error")
    assert texts(shown)[1] == "last words"
    assert [entry["text"] for entry in shown["pendingPrompts"]] == ["next"], "the queue waits"


@pytest.mark.parametrize("point", ["state.before_commit", "state.after_commit_before_reply"])
def test_a_state_killed_during_a_stop_leaves_a_turn_that_ends_by_itself(
    state: StateWorker, tmp_path: Path, point: str
) -> None:
    faults = tmp_path / "faults"
    state.start(faults=faults)
    runtime = state.runtime()
    session_id, turn = lone_turn(state, runtime)
    (faults / point).write_text("kill")
    assert isinstance(state.begin(SESSION_STOP, OneSession(session_id)).error(), OutcomeUnknown)
    state.process.wait()
    state.start("replacement", running=HELD, faults=faults)
    runtime.end(turn, "interrupted")
    assert state.wait_status(session_id, "idle")
    state.send(session_id, "on")
    assert runtime.turn(1).start.prompt == "on"
    rows = state.rows("SELECT position, value_json FROM messages ORDER BY position")
    assert [json.loads(value)["id"] for _, value in rows] == [m["id"] for m in state.read(session_id)["messages"]]
