"""Questions, forms of MCP servers, requests of an agent's own protocol: shown, answered once, closed with the turn."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from termal.wire.delegation_operations import DELEGATION_SPAWN, SpawnDelegation
from termal.wire.errors import Conflict, Forbidden, Internal, InvalidRequest, NotFound
from termal.wire.session_operations import QUESTIONS_ANSWER, AnswerQuestions
from termal.wire.turns import InteractionWithdrawn
from tests.support.asking import (
    FORM,
    PAGE,
    YES,
    answer_app_request,
    answer_elicitation,
    answer_questions,
    app_request,
    approval,
    elicitation,
    questions,
)
from tests.support.fake_runtime import FakeRuntime, FakeTurn
from tests.support.state_worker import Json, StateWorker, texts

SECRET = "s3cret-of-ada"
ANSWERS = {"color": ["red"], "token": [SECRET]}


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    state.start()
    return state.runtime()


def running(state: StateWorker, runtime: FakeRuntime, agent: str = "Demo") -> tuple[str, FakeTurn]:
    session_id = state.create(agent)
    state.send(session_id, "go")
    return session_id, runtime.turn(len(runtime.turns) - 1)


def asked(state: StateWorker, runtime: FakeRuntime, *events: Any, agent: str = "Demo") -> tuple[str, FakeTurn, Json]:
    """A running session whose agent asked ``events``; the message of the last one."""
    session_id, turn = running(state, runtime, agent)
    runtime.report(turn, *events)
    return session_id, turn, state.read(session_id)["messages"][-1]


def test_questions_are_shown_and_their_answers_go_to_the_agent(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn, message = asked(state, runtime, questions("q1"))
    assert (message["type"], message["state"], message["author"]) == ("userInputRequest", "pending", "assistant")
    assert [question["id"] for question in message["questions"]] == ["color", "token"]
    assert message["questions"][0]["options"][0] == {"label": "red", "description": ""}
    assert "options" not in message["questions"][1]
    shown = state.read(session_id)
    assert (shown["status"], shown["preview"]) == ("approval", "Two questions")
    shown = answer_questions(state, session_id, message["id"], ANSWERS)
    assert (shown["status"], shown["preview"]) == ("active", "Submitted, Demo continues")
    assert shown["messages"][-1]["state"] == "submitted"
    assert shown["messages"][-1]["submittedAnswers"] == {"color": ["red"], "token": ["[secret]"]}
    (told,) = runtime.answers
    assert (told.turn_id, told.request, json.loads(told.payload or b"")) == (turn.id, "q1", ANSWERS)
    types = [event["type"] for event in state.deltas(session_id)]
    assert types[-2:] == ["messageAdded", "messageUpdated"]


def test_a_secret_answer_is_nowhere_but_at_the_agent(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, _, message = asked(state, runtime, questions("q1"))
    runtime.answer_error = Internal("broken pipe")
    with pytest.raises(Internal) as failed:
        answer_questions(state, session_id, message["id"], ANSWERS)
    assert SECRET not in str(failed.value)
    runtime.answer_error = None
    with pytest.raises(InvalidRequest) as refused:
        answer_questions(state, session_id, message["id"], {**ANSWERS, "other": [SECRET]})
    assert SECRET not in str(refused.value)
    answer_questions(state, session_id, message["id"], ANSWERS)
    assert SECRET.encode() in (runtime.answers[-1].payload or b"")
    state.stop()
    assert SECRET not in json.dumps(state.events)
    for file in state.home.root.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({"color": ["red"]}, id="one left out"),
        pytest.param({"color": ["green"], "token": ["x"]}, id="not offered"),
        pytest.param({"color": ["red"], "token": [" "]}, id="blank"),
    ],
)
def test_refused_answers_leave_the_questions_open(
    state: StateWorker, runtime: FakeRuntime, answers: dict[str, list[str]]
) -> None:
    session_id, _, message = asked(state, runtime, questions("q1"))
    before = state.read(session_id)
    with pytest.raises(InvalidRequest):
        answer_questions(state, session_id, message["id"], answers)
    assert state.read(session_id) == before
    assert runtime.answers == []
    answer_questions(state, session_id, message["id"], ANSWERS)


def test_a_form_is_accepted_with_content_that_fits_it(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, _, message = asked(state, runtime, elicitation("e1"))
    assert (message["type"], message["request"], message["state"]) == ("mcpElicitationRequest", FORM, "pending")
    for content in (None, {}, {"branch": "x"}, {"branch": "main", "other": 1}, {"branch": "main", "force": "yes"}):
        with pytest.raises(InvalidRequest):
            answer_elicitation(state, session_id, message["id"], "accept", content)
    with pytest.raises(InvalidRequest):
        answer_elicitation(state, session_id, message["id"], "decline", {"branch": "main"})
    content = {"branch": "main", "force": True}
    shown = answer_elicitation(state, session_id, message["id"], "accept", content)
    assert (shown["status"], shown["preview"]) == ("active", "Submitted, Demo continues")
    stored = shown["messages"][-1]
    assert (stored["state"], stored["submittedAction"], stored["submittedContent"]) == ("submitted", "accept", content)
    (told,) = runtime.answers
    assert (told.option, json.loads(told.payload or b"")) == ("accept", content)


@pytest.mark.parametrize(("action", "word"), [("accept", "Submitted"), ("decline", "Declined"), ("cancel", "Canceled")])
def test_a_page_is_answered_without_content(state: StateWorker, runtime: FakeRuntime, action: str, word: str) -> None:
    session_id, _, message = asked(state, runtime, elicitation("e1", PAGE))
    with pytest.raises(InvalidRequest):
        answer_elicitation(state, session_id, message["id"], action, {"branch": "main"})
    shown = answer_elicitation(state, session_id, message["id"], action)
    assert shown["preview"] == f"{word}, Demo continues"
    assert shown["messages"][-1]["submittedAction"] == action
    assert "submittedContent" not in shown["messages"][-1]
    assert [(told.option, told.payload) for told in runtime.answers] == [(action, None)]


@pytest.mark.case("H22")
def test_a_result_beyond_its_limits_is_refused_and_one_within_them_taken(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id, _, message = asked(state, runtime, app_request("c1"))
    assert (message["type"], message["method"], message["params"]) == (
        "codexAppRequest",
        "item/tool/call",
        {"tool": "clock"},
    )
    for result in (b"[" * 33 + b"]" * 33, b'"' + b"x" * 65_535 + b'"'):
        with pytest.raises(InvalidRequest):
            answer_app_request(state, session_id, message["id"], result)
    assert state.read(session_id)["messages"][-1]["state"] == "pending"
    shown = answer_app_request(state, session_id, message["id"], b'{"time":"noon"}')
    assert (shown["status"], shown["messages"][-1]["submittedResult"]) == ("active", {"time": "noon"})
    assert [told.payload for told in runtime.answers] == [b'{"time":"noon"}']


@pytest.mark.parametrize("encoded", [b"[1]", b"{", b"[" * 70 + b"]" * 70, b'"' + b"x" * (1 << 20) + b'"'])
def test_a_request_that_cannot_be_shown_is_shown_without_its_details(
    state: StateWorker, runtime: FakeRuntime, encoded: bytes
) -> None:
    form, own = elicitation("e1"), app_request("c1")
    form = type(form)(form.request, form.title, form.detail, encoded)
    own = type(own)(own.request, own.title, own.detail, own.method, encoded)
    session_id, _, message = asked(state, runtime, form, own)
    assert state.read(session_id)["messages"][-2]["request"] == {}
    assert message["params"] == ([1] if encoded == b"[1]" else None)
    answer_app_request(state, session_id, message["id"], b"null")


@pytest.mark.case("H21")
def test_each_kind_is_answered_once_and_by_its_own_route(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn = running(state, runtime)
    runtime.report(turn, approval("a1"), questions("q1"), elicitation("e1"), app_request("c1"))
    ids = [message["id"] for message in state.read(session_id)["messages"][1:]]
    ways: list[Any] = [
        lambda message: state.answer(session_id, message, "accepted"),
        lambda message: answer_questions(state, session_id, message, ANSWERS),
        lambda message: answer_elicitation(state, session_id, message, "cancel"),
        lambda message: answer_app_request(state, session_id, message, b"1"),
    ]
    for way in ways:
        for unknown in ("message-99", *(other for other in ids if other != ids[ways.index(way)])):
            with pytest.raises(NotFound):
                way(unknown)
    for way, message in zip(ways, ids, strict=True):
        way(message)
        with pytest.raises(Conflict):
            way(message)
    assert len(runtime.answers) == 4


def test_the_preview_names_the_newest_request_that_is_still_open(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, _, _ = asked(
        state, runtime, approval("a1", "Run ls?"), questions("q1", ""), app_request("c1", title="")
    )
    assert state.read(session_id)["preview"] == "Needs a Codex answer"
    ids = [message["id"] for message in state.read(session_id)["messages"]]
    shown = answer_app_request(state, session_id, ids[3], b"1")
    assert (shown["status"], shown["preview"]) == ("approval", "Needs input")
    shown = answer_questions(state, session_id, ids[2], ANSWERS)
    assert (shown["status"], shown["preview"]) == ("approval", "Run ls?")


@pytest.mark.case("S29")
def test_the_end_of_the_agent_rejects_what_was_asked_and_cancels_the_other_kinds(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id, turn, _ = asked(state, runtime, approval("a1"), questions("q1"))
    runtime.end(turn, "lost")
    shown = state.read(session_id)
    assert shown["status"] == "error"
    assert (shown["messages"][1]["decision"], shown["messages"][2]["state"]) == ("rejected", "canceled")
    assert texts(shown)[-1].startswith("Turn failed: ")


@pytest.mark.case("S32")
def test_a_stop_closes_every_kind(state: StateWorker, runtime: FakeRuntime) -> None:
    events = (approval("a1"), questions("q1"), elicitation("e1"), app_request("c1"))
    session_id, _, message = asked(state, runtime, *events)
    shown = state.stop_turn(session_id)
    assert shown["status"] == "idle"
    assert shown["messages"][1]["decision"] == "rejected"
    assert [closed["state"] for closed in shown["messages"][2:5]] == ["canceled"] * 3
    assert texts(shown)[-1] == "Stopped by the user."
    with pytest.raises(Conflict):
        answer_app_request(state, session_id, message["id"], b"1")


def test_what_is_open_when_the_agent_ends_its_turn_is_canceled(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn, _ = asked(state, runtime, questions("q1"), elicitation("e1"))
    runtime.end(turn)
    shown = state.read(session_id)
    assert (shown["status"], [m["state"] for m in shown["messages"][1:]]) == ("idle", ["canceled", "canceled"])


def test_a_withdrawn_request_is_canceled_whatever_it_asked(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, turn, _ = asked(state, runtime, approval("a1"), questions("q1"), elicitation("e1"))
    runtime.report(turn, *(InteractionWithdrawn(request) for request in ("a1", "q1", "e1", "unknown")))
    shown = state.read(session_id)
    assert (shown["status"], shown["preview"]) == ("active", "Canceled, Demo continues")
    assert shown["messages"][1]["decision"] == "canceled"
    assert [message["state"] for message in shown["messages"][2:]] == ["canceled", "canceled"]


def test_a_request_that_its_worker_knows_nothing_of_is_canceled(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, _, message = asked(state, runtime, questions("gone"))
    with pytest.raises(Conflict):
        answer_questions(state, session_id, message["id"], ANSWERS)
    shown = state.read(session_id)
    assert (shown["status"], shown["messages"][-1]["state"]) == ("active", "canceled")


def test_questions_are_answered_after_state_was_restarted(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, _, message = asked(state, runtime, questions("q1"))
    state.kill()
    state.start("replacement", running=["runtime-acp"])
    shown = answer_questions(state, session_id, message["id"], ANSWERS)
    assert (shown["status"], shown["messages"][-1]["state"]) == ("active", "submitted")
    assert [told.request for told in runtime.answers] == ["q1"]


def test_an_answer_waits_until_it_is_known_whether_the_agent_still_does(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id, _, message = asked(state, runtime, questions("q1"))
    gate = threading.Event()
    state.kill()
    runtime._loop.threadsafe(lambda: assert_set(gate))
    state.start("replacement", running=["runtime-acp"])
    waiting = state.begin(QUESTIONS_ANSWER, AnswerQuestions(session_id, message["id"], ANSWERS))
    refused = state.begin(QUESTIONS_ANSWER, AnswerQuestions(session_id, message["id"], {}))
    assert state.read(session_id)["messages"][-1]["state"] == "pending"
    gate.set()
    assert waiting.reply().json
    assert isinstance(refused.error(), Conflict)
    assert state.read(session_id)["messages"][-1]["state"] == "submitted"


def assert_set(gate: threading.Event) -> None:
    assert gate.wait(5)


def test_after_a_start_of_the_daemon_no_request_is_live(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id, _, message = asked(state, runtime, questions("q1"), elicitation("e1"))
    state.kill()
    state.start()
    shown = state.read(session_id)
    assert (shown["status"], [m["state"] for m in shown["messages"][1:3]]) == ("error", ["interrupted"] * 2)
    assert "has expired" in shown["preview"]
    with pytest.raises(Conflict):
        answer_elicitation(state, session_id, message["id"], "cancel")


def test_an_answer_of_open_code_waits_for_the_earlier_one(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.stop()
    modes = {"opencodeModel": "auto", "opencodeMode": "auto", "opencodeEffort": "auto", "agent": "OpenCode"}
    state.change_row(session_id, session=modes)
    state.start()
    state.send(session_id, "go")
    runtime.report(runtime.turn(0), approval("a1"), approval("a2"))
    first, second = (message["id"] for message in state.read(session_id)["messages"][1:])
    with pytest.raises(Conflict) as refused:
        state.answer(session_id, second, "accepted")
    assert refused.value.reason == "outOfOrder"
    state.answer(session_id, first, "rejected")
    state.answer(session_id, second, "accepted")
    assert [told.request for told in runtime.answers] == ["a1", "a2"]


def delegated(state: StateWorker, *, status: str = "running", kind: str = "readOnly") -> str:
    """A session that another one delegated work to, in its first turn."""
    parent = state.create()
    if (status, kind) == ("running", "readOnly"):
        spawn = SpawnDelegation(delegation_id="delegation-1", parent_session_id=parent, prompt="go", mode="explorer")
        return str(state.json(DELEGATION_SPAWN, spawn)["delegation"]["childSessionId"])
    child = state.create()
    state.stop()
    record = {
        "id": "delegation-1",
        "parentSessionId": parent,
        "childSessionId": child,
        "status": status,
        "writePolicy": {"kind": kind},
    }
    state.write("INSERT INTO delegations VALUES (?, ?)", (record["id"], json.dumps(record)))
    state.change_row(child, session={"parentDelegationId": "delegation-1"})
    state.start()
    state.send(child, "go")
    return child


def test_nobody_lets_a_child_write_that_may_only_read(state: StateWorker, runtime: FakeRuntime) -> None:
    child = delegated(state)
    tool = {**PAGE, "_meta": {"codex_approval_kind": "mcp_tool_call"}}
    events = (approval("a1"), elicitation("e1", tool), app_request("c1", "item/permissions/requestApproval"))
    runtime.report(runtime.turn(0), *events, questions("q1"))
    ids = [message["id"] for message in state.read(child)["messages"][1:]]
    refusals: list[Callable[[], Json]] = [
        lambda: state.answer(child, ids[0], "accepted"),
        lambda: answer_elicitation(state, child, ids[1], "accept"),
        lambda: answer_app_request(state, child, ids[2], b"{}"),
    ]
    for refused in refusals:
        with pytest.raises(Forbidden) as error:
            refused()
        assert error.value.reason == "readOnlyLocked"
    assert runtime.answers == []
    state.answer(child, ids[0], "rejected")
    answer_elicitation(state, child, ids[1], "decline")
    answer_questions(state, child, ids[3], ANSWERS)
    assert len(runtime.answers) == 3


@pytest.mark.parametrize(("status", "kind"), [("completed", "readOnly"), ("running", "isolatedWorktree")])
def test_a_child_that_may_write_is_answered_like_any_session(
    state: StateWorker, runtime: FakeRuntime, status: str, kind: str
) -> None:
    child = delegated(state, status=status, kind=kind)
    runtime.report(runtime.turn(0), approval("a1", options=[YES]))
    assert state.answer(child, state.read(child)["messages"][1]["id"], "accepted")["status"] == "active"


def test_a_tool_of_the_bridge_may_be_allowed_to_a_child_that_only_reads(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    child = delegated(state)
    tool = {**PAGE, "_meta": {"codex_approval_kind": "mcp_tool_call"}}
    runtime.report(runtime.turn(0), replace(elicitation("e1", tool), own_tool=True))
    answer_elicitation(state, child, state.read(child)["messages"][1]["id"], "accept")
    assert [told.option for told in runtime.answers] == ["accept"]
