"""Kills and stops with turns in flight: what is cut off, what goes on, what is never lost."""

import threading
from pathlib import Path

import apsw
import pytest

from termal.wire.errors import Busy, Conflict, OutcomeUnknown
from termal.wire.session_operations import PROMPT_SEND, SESSION_CREATE, SESSION_READ, CreateSession, ReadSession
from termal.wire.turns import ApprovalAsked, PermissionOption, TextDelta, ToolEnded, ToolStarted, TurnEnded
from tests.support.fake_runtime import FakeRuntime, FakeTurn
from tests.support.state_worker import StateWorker, texts
from tests.support.waiting import wait_until

ASKED = ApprovalAsked("r1", "Run it?", "ls", "in /w", [PermissionOption("yes", "accepted", "Yes")])
HELD = ["runtime-acp"]


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    """A started state worker with a runtime worker beside it."""
    state.start()
    return state.runtime()


def running(state: StateWorker, runtime: FakeRuntime) -> tuple[str, FakeTurn]:
    session_id = state.create()
    state.send(session_id, "go")
    return session_id, runtime.turn(len(runtime.turns) - 1)


@pytest.mark.case("S55")
def test_a_turn_cut_off_by_a_restart_says_so_once(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, ToolStarted("t", "execute", "make"))
    state.send(session_id, "A")
    state.send(session_id, "B")
    state.kill()
    state.start()
    shown = state.read(session_id)
    assert shown["status"] == "error"
    assert shown["messages"][1]["status"] == "error"
    (notice,) = texts(shown)[1:]
    assert "2 queued prompts are kept." in notice
    assert "during this turn" in notice
    assert shown["preview"] == notice[:88] + "..."


@pytest.mark.case("S56", "S57", "S58")
def test_an_open_request_expires_with_a_restart(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, ASKED)
    state.kill()
    state.start()
    shown = state.read(session_id)
    assert (shown["status"], shown["messages"][1]["decision"]) == ("error", "interrupted")
    (notice,) = texts(shown)[1:]
    assert "request was open" in notice
    assert "queued" not in notice
    state.kill()
    state.start()
    assert state.read(session_id)["messages"] == shown["messages"]
    with pytest.raises(Conflict):
        state.answer(session_id, shown["messages"][1]["id"], "accepted")


@pytest.mark.case("S59")
def test_a_kill_loses_no_text_that_is_a_quarter_second_old(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    pieces = [f"{number:03d} " for number in range(40)]
    for piece in pieces[:20]:
        runtime.report(turn, TextDelta("a", piece), wait=False)
    runtime.wait_confirmed(turn)
    for piece in pieces[20:]:
        runtime.report(turn, TextDelta("a", piece), wait=False)
    wait_until(lambda: sum(e["type"] == "textDelta" for e in state.deltas(session_id)) == 40, "forty events")
    state.kill()
    runtime.turns.clear()
    state.start()
    kept = texts(state.read(session_id))[1]
    assert "".join(pieces).startswith(kept)
    assert len(kept) >= len("".join(pieces[:20]))


@pytest.mark.case("S60")
def test_an_acknowledged_prompt_survives_a_kill_right_after(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "precious")
    state.kill()
    state.start()
    assert texts(state.read(session_id))[0] == "precious"


@pytest.mark.case("S113")
def test_a_turn_goes_on_while_state_is_restarted(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, TextDelta("a", "one "), ToolStarted("t", "execute", "make"))
    before = state.state()
    state.kill()
    runtime.report(turn, TextDelta("a", "two "), ToolEnded("t", "success", "ok"), wait=False)
    state.start("replacement", running=HELD)
    runtime.wait_confirmed(turn)
    runtime.report(turn, TextDelta("a", "three"))
    shown = state.read(session_id)
    assert (shown["status"], shown["liveActivity"]["prompt"]) == ("active", "go")
    runtime.end(turn)
    shown = state.read(session_id)
    assert (shown["status"], texts(shown)) == ("idle", ["go", "one two three"])
    assert shown["messages"][2]["output"] == "ok"
    after = state.state()
    assert after["serverInstanceId"] != before["serverInstanceId"]
    assert after["revision"] > max(event["revision"] for event in state.events if event["event"] == "delta") - 1
    assert after["revision"] > before["revision"]


def test_a_turn_that_nobody_holds_after_a_restart_is_cut_off(state: StateWorker, runtime: FakeRuntime) -> None:
    held, _ = running(state, runtime)
    lost, turn = running(state, runtime)
    turn.known = False
    state.kill()
    state.start("replacement", running=HELD)
    shown = state.wait_status(lost, "error")
    assert "restarted" in texts(shown)[1]
    assert state.status(held) == "active"


def test_a_turn_of_a_worker_that_is_gone_is_cut_off_at_once(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, _ = running(state, runtime)
    state.kill()
    state.start("replacement", running=[])
    assert state.status(session_id) == "error"


@pytest.mark.case("S115")
def test_a_kill_between_the_end_of_a_turn_and_the_next_one_loses_no_activation(
    state: StateWorker, tmp_path: Path
) -> None:
    faults = tmp_path / "faults"
    state.start(faults=faults)
    runtime = state.runtime()
    session_id, turn = running(state, runtime)
    state.send(session_id, "next")
    (faults / "state.after_turn_end_before_drain").write_text("kill")
    runtime.report(turn, TextDelta("a", "done"), TurnEnded("completed"), wait=False)
    state.process.wait(5)
    state.start("replacement", running=HELD)
    assert runtime.turn(1).start.prompt == "next"
    runtime.wait_confirmed(turn)
    assert turn.known
    assert texts(state.read(session_id)) == ["go", "done", "next"]


def test_a_kill_after_the_turn_was_handed_over_does_not_end_it(state: StateWorker, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    state.start(faults=faults)
    runtime = state.runtime()
    session_id = state.create()
    (faults / "state.after_turn_start_sent").write_text("kill")
    sent = state.begin(PROMPT_SEND, state.prompt(session_id, "go"))
    state.process.wait(5)
    state.start("replacement", running=HELD)
    sent.reply()
    runtime.end(runtime.turn(0))
    assert texts(state.read(session_id)) == ["go"]


@pytest.mark.case("S107")
def test_a_stop_of_the_daemon_keeps_every_published_piece(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, *[TextDelta("a", f"{number} ") for number in range(50)], wait=False)
    wait_until(lambda: sum(e["type"] == "textDelta" for e in state.deltas(session_id)) == 50, "fifty events")
    state.stop()
    state.start()
    assert texts(state.read(session_id))[1] == "".join(f"{number} " for number in range(50))


@pytest.mark.case("S119")
def test_a_prompt_whose_commit_is_late_is_stored_exactly_once(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    lock = apsw.Connection(str(state.home.termal_db))
    lock.execute("BEGIN IMMEDIATE")
    try:
        prompt = state.prompt(session_id, "late")
        late = state.begin(PROMPT_SEND, prompt, within_s=0.2)
        assert isinstance(late.error(), OutcomeUnknown)
        assert state.ask(SESSION_READ, ReadSession(session_id)).json
    finally:
        lock.execute("ROLLBACK")
        lock.close()
    wait_until(lambda: runtime.turns, "the prompt to start")
    state.ask(PROMPT_SEND, prompt)
    assert texts(state.read(session_id)) == ["late"]
    assert state.rows("SELECT count(*) FROM messages") == [(1,)]


def test_a_stopping_worker_refuses_what_is_new(state: StateWorker, runtime: FakeRuntime) -> None:
    state.create()
    lock = apsw.Connection(str(state.home.termal_db))
    lock.execute("BEGIN IMMEDIATE")
    under_way = state.begin(SESSION_CREATE, CreateSession(key="a", agent="Demo"))
    stopping = threading.Thread(target=state.process.stop)
    wait_until(lambda: len(state.state()["sessions"]) == 2, "the creation to be under way")
    stopping.start()
    wait_until(lambda: isinstance(_refusal(state), Busy), "new requests to be refused")
    lock.execute("ROLLBACK")
    lock.close()
    under_way.reply()
    stopping.join(10)
    assert not state.home.termal_db.with_name("termal.sqlite-wal").exists()
    assert state.rows("SELECT count(*) FROM sessions") == [(2,)]


def _refusal(state: StateWorker) -> Exception | None:
    """A repeat of the creation under way: one that comes before the refusals start makes no second session."""
    return state.begin(SESSION_CREATE, CreateSession(key="a", agent="Demo"), within_s=0.2).wait()[1]
