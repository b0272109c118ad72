"""Requests of an agent: shown, answered once, in any order, gone with a restart."""

import json

import pytest

from termal.wire.errors import Conflict, Internal, InvalidRequest, NotFound, Unprocessable
from termal.wire.session_operations import APPROVAL_ANSWER, AnswerApproval
from termal.wire.turns import ApprovalAsked, ApprovalWithdrawn, PermissionOption, TextDelta
from tests.support.fake_runtime import FakeRuntime, FakeTurn
from tests.support.state_worker import StateWorker, find
from tests.support.waiting import wait_until

OPTIONS = [PermissionOption("yes", "accepted", "Yes"), PermissionOption("no", "rejected", "No")]


def asked(request: str, title: str) -> ApprovalAsked:
    return ApprovalAsked(request, title, "ls", "in /w", OPTIONS)


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    """A started state worker with a runtime worker beside it."""
    state.start()
    return state.runtime()


def running(state: StateWorker, runtime: FakeRuntime) -> tuple[str, FakeTurn]:
    session_id = state.create()
    state.send(session_id, "go")
    return session_id, runtime.turn(len(runtime.turns) - 1)


@pytest.mark.case("S26", "S27")
def test_two_open_requests_are_answered_one_after_the_other(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, asked("r1", "First?"), asked("r2", "Second?"))
    shown = state.read(session_id)
    assert (shown["status"], shown["preview"]) == ("approval", "Second?")
    _, first, second = shown["messages"]
    assert first["supportedDecisions"] == ["accepted", "rejected"]
    shown = state.answer(session_id, first["id"], "accepted")
    assert (shown["status"], shown["preview"]) == ("approval", "Second?")
    shown = state.answer(session_id, second["id"], "rejected")
    assert (shown["status"], shown["preview"]) == ("active", "Rejected, Demo continues")
    assert [message["decision"] for message in shown["messages"][1:]] == ["accepted", "rejected"]
    assert [(answer.request, answer.option) for answer in runtime.answers] == [("r1", "yes"), ("r2", "no")]
    types = [event["type"] for event in state.deltas(session_id)]
    assert types[-4:] == ["messageAdded", "messageAdded", "messageUpdated", "messageUpdated"]


def test_an_answer_that_cannot_be_given_changes_nothing(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, asked("r1", "First?"))
    message = state.read(session_id)["messages"][1]["id"]
    before = state.state()["revision"]
    with pytest.raises(InvalidRequest):
        state.answer(session_id, message, "interrupted")
    with pytest.raises(Unprocessable):
        state.answer(session_id, message, "maybe")
    with pytest.raises(Conflict, match="acceptedForSession"):
        state.answer(session_id, message, "acceptedForSession")
    for unknown in ("message-99", state.read(session_id)["messages"][0]["id"]):
        with pytest.raises(NotFound):
            state.answer(session_id, unknown, "accepted")
    assert state.state()["revision"] == before
    assert runtime.answers == []
    state.answer(session_id, message, "accepted")
    with pytest.raises(Conflict):
        state.answer(session_id, message, "accepted")


def test_an_answer_that_the_agent_does_not_take_leaves_the_request_open(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, asked("r1", "First?"))
    message = state.read(session_id)["messages"][1]["id"]
    runtime.answer_error = Internal("broken pipe")
    with pytest.raises(Internal):
        state.answer(session_id, message, "accepted")
    assert state.read(session_id)["messages"][1]["decision"] == "pending"
    runtime.answer_error = None
    assert state.answer(session_id, message, "accepted")["status"] == "active"


def test_a_withdrawn_request_is_canceled_and_the_turn_goes_on(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, asked("r1", "First?"), ApprovalWithdrawn("r1"), ApprovalWithdrawn("r9"))
    shown = state.read(session_id)
    assert (shown["status"], shown["preview"]) == ("active", "Canceled, Demo continues")
    assert shown["messages"][1]["decision"] == "canceled"
    with pytest.raises(Conflict):
        state.answer(session_id, shown["messages"][1]["id"], "accepted")


def test_a_request_left_open_at_the_end_of_a_turn_is_canceled(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, asked("r1", "First?"))
    runtime.end(turn)
    shown = state.read(session_id)
    assert (shown["status"], shown["messages"][1]["decision"]) == ("idle", "canceled")


def test_a_request_is_answered_after_state_was_restarted(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, asked("r1", "First?"))
    message = state.read(session_id)["messages"][1]["id"]
    state.kill()
    state.start("replacement", running=["runtime-acp"])
    shown = state.answer(session_id, message, "accepted")
    assert (shown["status"], shown["messages"][1]["decision"]) == ("active", "accepted")
    assert [answer.option for answer in runtime.answers] == ["yes"]


def test_an_approval_that_is_no_longer_in_memory_is_not_live(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, 100)
    state.start()
    with pytest.raises(Conflict):
        state.answer(session_id, "message-002", "accepted")
    with pytest.raises(NotFound):
        state.answer(session_id, "message-900", "accepted")


@pytest.mark.parametrize("following", [False, True], ids=["nothing follows", "a prompt is queued"])
def test_an_answer_whose_turn_is_over_before_it_is_confirmed_changes_the_request_alone(
    state: StateWorker, runtime: FakeRuntime, following: bool
) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, asked("r1", "First?"))
    if following:
        state.send(session_id, "next")
    message = state.read(session_id)["messages"][1]["id"]
    runtime.hold_answers = True
    answer = state.begin(APPROVAL_ANSWER, AnswerApproval(session_id, message, "accepted"))
    wait_until(lambda: runtime.answers, "the agent to get the answer")
    runtime.end(turn, wait=False)
    state.wait_status(session_id, "active" if following else "idle")
    runtime.release()
    assert find(json.loads(answer.reply().json), session_id)["preview"]
    shown = state.read(session_id)
    assert (shown["status"], shown["messages"][1]["decision"]) == ("active" if following else "idle", "accepted")
    assert state.send(session_id, "more")


def test_what_the_agent_said_before_it_was_known_to_have_the_answer_stays_the_preview(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, TextDelta("1", "Look."), asked("r1", "First?"))
    message = state.read(session_id)["messages"][2]["id"]
    runtime.hold_answers = True
    answer = state.begin(APPROVAL_ANSWER, AnswerApproval(session_id, message, "accepted"))
    wait_until(lambda: runtime.answers, "the agent to get the answer")
    runtime.report(turn, TextDelta("2", "Done"))
    runtime.release()
    shown = find(json.loads(answer.reply().json), session_id)
    assert (shown["status"], shown["preview"]) == ("active", "Done")
    runtime.report(turn, TextDelta("2", " so."))
    runtime.end(turn)
    assert state.read(session_id)["preview"] == "Done so."
