"""A turn with more messages than stay in memory, and a restart within it: nothing of it is left open for ever."""

import pytest

from termal.wire.turns import ApprovalAsked, Notice, PermissionOption, ToolEnded, ToolStarted
from tests.support.fake_runtime import FakeRuntime, FakeTurn
from tests.support.state_worker import Json, StateWorker

ASKED = ApprovalAsked("r1", "Run it?", "ls", "in /w", [PermissionOption("yes", "accepted", "Yes")])
HELD = ["runtime-acp"]


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    """A started state worker with a runtime worker beside it."""
    state.start()
    return state.runtime()


def long_turn(state: StateWorker, runtime: FakeRuntime) -> tuple[str, FakeTurn]:
    """A turn whose command still runs and whose request still waits, a hundred messages ago; state is killed."""
    session_id = state.create()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    runtime.report(turn, ToolStarted("t", "execute", "make"), ASKED, *(Notice(f"note {n}") for n in range(100)))
    state.kill()
    return session_id, turn


def first(state: StateWorker, session_id: str) -> tuple[Json, Json]:
    """The command and the request."""
    _, command, asked = state.history(session_id, from_start=True, limit=3)["messages"]
    return command, asked


def test_a_restart_of_the_daemon_closes_what_a_long_turn_left_open(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, _ = long_turn(state, runtime)
    state.start()
    command, asked = first(state, session_id)
    assert (command["status"], asked["decision"]) == ("error", "interrupted")
    shown = state.read(session_id)
    assert "request was open" in shown["messages"][-1]["text"]
    assert (len(shown["messages"]), shown["messageCount"]) == (64, 104)


def test_a_long_turn_goes_on_where_it_was_after_a_restart_of_state(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = long_turn(state, runtime)
    state.start("replacement", running=HELD)
    runtime.report(turn, ToolEnded("t", "success", "ok"))
    state.answer(session_id, first(state, session_id)[1]["id"], "accepted")
    command, asked = first(state, session_id)
    assert (command["status"], command["output"], asked["decision"]) == ("success", "ok", "accepted")
    assert runtime.answers[0].option == "yes"
    runtime.end(turn)
    assert (state.read(session_id)["status"], state.read(session_id)["messageCount"]) == ("idle", 103)


def test_the_end_of_a_long_turn_closes_what_was_open_before_a_restart(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = long_turn(state, runtime)
    state.start("replacement", running=HELD)
    runtime.end(turn)
    command, asked = first(state, session_id)
    assert (command["status"], asked["decision"]) == ("error", "canceled")
