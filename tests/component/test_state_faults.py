"""Faults that nobody foresaw inside `state`: no half-changed memory is ever stored, shown or gone on with."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from termal.wire.control import EXIT_INTERNAL
from termal.wire.errors import Internal, OutcomeUnknown
from termal.wire.session_operations import PROMPT_SEND, SESSION_READ, ReadSession
from termal.wire.turns import TextDelta, ToolStarted, TurnEnded
from tests.support.state_worker import StateWorker, texts
from tests.support.waiting import wait_until
from workers.state.journal import OPEN_DELTAS

HELD = ["runtime-acp"]


def logged(state: StateWorker) -> str:
    return state.home.log("state").read_text("utf-8")


def test_a_fault_in_the_middle_of_a_change_is_answered_and_ends_the_worker(state: StateWorker, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    state.start(faults=faults)
    state.runtime()
    session_id = state.create()
    before = state.row(session_id)
    (faults / "state.in_dispatch").write_text("raise")
    prompt = state.prompt(session_id, "go")
    with pytest.raises(Internal) as error:
        state.ask(PROMPT_SEND, prompt)
    assert "RuntimeError" not in error.value.message
    assert state.process.wait() == EXIT_INTERNAL
    assert state.row(session_id) == before, "nothing of the change was stored"
    assert "a test wanted a fault at state.in_dispatch" in logged(state)
    state.start("replacement", running=HELD)
    assert state.status(session_id) == "idle"
    state.ask(PROMPT_SEND, prompt)
    assert state.wait_status(session_id, "active")["messages"][0]["text"] == "go"


def test_a_fault_after_a_commit_ends_the_worker_and_its_successor_goes_on(state: StateWorker, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    state.start(faults=faults)
    runtime = state.runtime()
    session_id = state.create()
    state.send(session_id, "first")
    turn = runtime.turn(0)
    state.send(session_id, "second")
    (faults / "state.after_turn_end_before_drain").write_text("raise")
    runtime.report(turn, TextDelta("a", "done"), TurnEnded("completed"), wait=False)
    assert state.process.wait() == EXIT_INTERNAL
    assert "loop.callback_failed" in logged(state)
    assert "a callback failed" in state.process.stderr()
    state.start("replacement", running=HELD)
    second = runtime.turn(1)
    assert second.start.prompt == "second"
    runtime.wait_confirmed(turn)
    assert texts(state.read(session_id)) == ["first", "done", "second"]


def test_a_fault_of_a_refusal_changes_nothing_and_ends_nobody(state: StateWorker) -> None:
    state.start()
    with pytest.raises(Exception, match="no such session"):
        state.ask(SESSION_READ, ReadSession("session-9", 10))
    wait_until(lambda: state.client.up, "state to be there still")
    assert state.process.process.poll() is None


@pytest.fixture
def stuck(state: StateWorker) -> Iterator[apsw.Connection]:
    """A lock on the file that the test takes with ``BEGIN IMMEDIATE``: to a writer it is a disk that takes nothing."""
    state.start()
    connection = apsw.Connection(str(state.home.termal_db))
    yield connection
    connection.close()


def test_a_repeated_prompt_is_acknowledged_only_once_it_is_stored(state: StateWorker, stuck: apsw.Connection) -> None:
    state.runtime()
    session_id = state.create()
    state.send(session_id, "runs")
    prompt = state.prompt(session_id, "waits")
    stuck.execute("BEGIN IMMEDIATE")
    first = state.begin(PROMPT_SEND, prompt, within_s=0.2)
    assert isinstance(first.error(), OutcomeUnknown)
    second = state.begin(PROMPT_SEND, prompt, within_s=1.0)
    assert isinstance(second.error(), OutcomeUnknown), "nothing of it is on disk"
    third = state.begin(PROMPT_SEND, prompt, within_s=10.0)
    stuck.execute("ROLLBACK")
    third.reply()
    state.kill()
    state.start("replacement")
    assert [entry["text"] for entry in state.read(session_id)["pendingPrompts"]] == ["waits"]


def test_no_revision_that_was_shown_is_given_again_after_a_crash_on_a_stuck_disk(
    state: StateWorker, stuck: apsw.Connection
) -> None:
    runtime = state.runtime()
    session_id = state.create()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    stuck.execute("BEGIN IMMEDIATE")
    for report in range(4):
        tools = [ToolStarted(f"t{report}-{number}", "other", "look") for number in range(700)]
        runtime.report(turn, *tools, wait=False)
    shown = wait_until(lambda: number if (number := state.state()["revision"]) >= 1000 else None, "work to be shown")
    assert state.state()["revision"] <= 2 * OPEN_DELTAS, "what cannot be stored is not taken without an end"
    state.kill()
    stuck.execute("ROLLBACK")
    state.start("replacement", running=HELD)
    assert state.state()["revision"] > shown
