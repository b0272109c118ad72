"""A turn from prompt to end: delivery, refusal, failure, stop, the death of its worker, reports told twice."""

from typing import Any

import pytest

from termal.wire.errors import Conflict, Internal, InvalidRequest
from termal.wire.session_operations import PROMPT_SEND, SESSION_STOP, OneSession, SendPrompt
from termal.wire.turns import (
    ApprovalAsked,
    ExternalSession,
    ModelsKnown,
    Notice,
    PermissionOption,
    TextDelta,
    ToolStarted,
    TurnEnded,
    Usage,
)
from tests.support.fake_runtime import FakeRuntime
from tests.support.state_worker import StateWorker, image, texts
from tests.support.waiting import wait_until

ASKED = ApprovalAsked("r1", "Run it?", "ls", "in /w", [PermissionOption("yes", "accepted", "Yes")])


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    """A started state worker with a runtime worker beside it."""
    state.start()
    return state.runtime()


@pytest.mark.case("S25")
def test_a_prompt_to_an_idle_session_starts_a_turn(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    shown = state.send(session_id, "  do it \n")
    assert (shown["status"], shown["messageCount"], shown["preview"]) == ("active", 1, "do it")
    assert texts(shown) == ["do it"]
    assert "pendingPrompts" not in shown
    assert shown["liveActivity"] == {"prompt": "do it"}
    spec = runtime.turn(0).start.spec
    assert (spec.session_id, spec.agent, spec.external_session_id) == (session_id, "Demo", None)
    assert runtime.turn(0).start.prompt == "do it"


def test_the_worker_of_the_agent_is_asked_for_when_it_is_not_there(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    waiting = state.begin(PROMPT_SEND, state.prompt(session_id, "go"))
    wait_until(lambda: state.needs() == ["runtime-acp"], "the runtime worker to be asked for")
    runtime = state.runtime()
    runtime.turn(0)
    waiting.reply()


@pytest.mark.case("S28")
def test_a_completed_turn_leaves_the_session_idle(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "go")
    runtime.end(runtime.turn(0))
    shown = state.read(session_id)
    assert shown["status"] == "idle"
    assert "liveActivity" not in shown


@pytest.mark.case("S30")
def test_a_prompt_after_an_error_is_dispatched_not_queued(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    runtime.end(runtime.turn(0), "failed", "no credit")
    shown = state.wait_status(session_id, "error")
    assert texts(shown) == ["one", "Turn failed: no credit"]
    shown = state.send(session_id, "two")
    assert shown["status"] == "active"
    assert "pendingPrompts" not in shown
    assert runtime.turn(1).start.prompt == "two"


@pytest.mark.case("S40")
def test_a_refused_delivery_is_an_error_that_keeps_the_prompt(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    runtime.refuse = Conflict("not today")
    with pytest.raises(Internal, match="not today"):
        state.send(session_id, "go")
    shown = state.read(session_id)
    assert (shown["status"], texts(shown)) == ("error", ["go", "Turn failed: not today"])
    assert "pendingPrompts" not in shown


def test_a_refusal_leaves_what_is_queued_where_it_is(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    state.send(session_id, "two")
    state.send(session_id, "three")
    runtime.refuse = Conflict("not today")
    runtime.end(runtime.turn(0))
    shown = state.wait_status(session_id, "error")
    assert texts(shown) == ["one", "two", "Turn failed: not today"]
    assert [prompt["text"] for prompt in shown["pendingPrompts"]] == ["three"]


@pytest.mark.case("S31")
def test_a_report_of_another_turn_changes_nothing(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    before = state.read(session_id), state.state()["revision"]
    runtime.send_again(turn, 1, [TextDelta("a", "stale"), TurnEnded("failed", "stale")], turn_id="turn-stale")
    wait_until(lambda: not turn.known, "the report to be answered")
    assert (state.read(session_id), state.state()["revision"]) == before


def test_a_report_told_twice_is_applied_once(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    runtime.report(turn, TextDelta("a", "one "), TextDelta("a", "two "))
    runtime.send_again(turn, 1, [TextDelta("a", "one "), TextDelta("a", "two "), TextDelta("a", "three")])
    wait_until(lambda: turn.confirmed == 3, "three events to be confirmed")
    assert texts(state.read(session_id)) == ["go", "one two three"]
    runtime.send_again(turn, 7, [TextDelta("a", "after a gap")])
    turn.events = [TextDelta("a", "")] * 3
    runtime.end(turn)
    assert texts(state.read(session_id)) == ["go", "one two three"]
    runtime.send_again(turn, 4, [TurnEnded("completed")])
    runtime.wait_confirmed(turn)
    assert turn.known


@pytest.mark.case("S32")
def test_a_stop_ends_the_turn_and_what_it_had_open(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    runtime.report(turn, ToolStarted("t", "execute", "sleep"), ASKED)
    assert state.status(session_id) == "approval"
    shown = state.stop_turn(session_id)
    assert (shown["status"], shown["preview"]) == ("idle", "Stopped by the user.")
    _, command, approval, text = shown["messages"]
    assert (command["status"], approval["decision"], text["text"]) == ("error", "rejected", "Stopped by the user.")
    assert [stop.turn_id for stop in runtime.stops] == [turn.id]
    events = [event["type"] for event in state.deltas(session_id)[-4:]]
    assert events == ["commandUpdate", "messageUpdated", "messageAdded", "sessionSummaryUpdated"]
    assert len({event["revision"] for event in state.deltas(session_id)[-4:]}) == 1


@pytest.mark.case("S33")
def test_an_idle_session_cannot_be_stopped(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    with pytest.raises(Conflict):
        state.stop_turn(session_id)


@pytest.mark.case("S34")
def test_a_second_stop_is_refused_while_the_first_is_carried_out(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    runtime.hold_stops = True
    first = state.begin(SESSION_STOP, OneSession(session_id))
    wait_until(lambda: runtime.stops, "the stop to arrive")
    with pytest.raises(Conflict):
        state.stop_turn(session_id)
    runtime.report(turn, TextDelta("a", "meanwhile"), wait=False)
    runtime.report(turn, TurnEnded("interrupted"), wait=False)
    assert state.status(session_id) == "active"
    runtime.release()
    first.reply()
    runtime.wait_confirmed(turn)
    assert texts(state.read(session_id)) == ["go", "Stopped by the user."]


@pytest.mark.case("S35")
def test_a_failed_stop_applies_what_came_meanwhile(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime("runtime-claude")
    session_id = state.create("Claude")
    state.send(session_id, "go")
    turn = runtime.turn(0)
    runtime.hold_stops = True
    runtime.stop_error = Internal("it does not die")
    stop = state.begin(SESSION_STOP, OneSession(session_id))
    wait_until(lambda: runtime.stops, "the stop to arrive")
    runtime.report(turn, TextDelta("a", "done"), TurnEnded("completed"), wait=False)
    runtime.release()
    assert isinstance(stop.error(), Internal)
    shown = state.wait_status(session_id, "idle")
    assert texts(shown) == ["go", "done"]


def test_a_stop_during_the_start_waits_for_it(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    runtime.hold_starts = True
    sent = state.begin(PROMPT_SEND, state.prompt(session_id, "go"))
    state.wait_status(session_id, "active")
    stop = state.begin(SESSION_STOP, OneSession(session_id))
    with pytest.raises(Conflict):
        state.stop_turn(session_id)
    wait_until(lambda: runtime._held, "the start to arrive")
    runtime.release()
    sent.reply()
    stop.reply()
    assert texts(state.read(session_id)) == ["go", "Stopped by the user."]


def test_a_stop_starts_the_next_prompt_in_the_same_commit(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    state.send(session_id, "two")
    runtime.turn(0)
    shown = state.stop_turn(session_id)
    assert (shown["status"], texts(shown)) == ("active", ["one", "Stopped by the user.", "two"])
    assert runtime.turn(1).start.prompt == "two"
    added = [event for event in state.deltas(session_id) if event["type"] == "messageAdded"]
    assert added[-1]["revision"] == added[-2]["revision"]


@pytest.mark.case("S37")
def test_a_stop_whose_successor_cannot_start_keeps_it_queued(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    state.send(session_id, "two")
    runtime.turn(0)
    state.kill()
    state.change_row(session_id, session={"agent": "Vanished"})
    state.start("replacement", running=["runtime-acp"])
    with pytest.raises(Internal):
        state.stop_turn(session_id)
    shown = state.read(session_id)
    assert shown["status"] == "idle"
    assert [prompt["text"] for prompt in shown["pendingPrompts"]] == ["two"]


def test_the_death_of_the_runtime_ends_its_turns_and_the_queue_waits(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    state.send(session_id, "two")
    turn = runtime.turn(0)
    runtime.report(turn, ASKED)
    state.runtimes.remove(runtime)
    runtime.close()
    shown = state.wait_status(session_id, "error")
    assert texts(shown)[-1] == "Turn failed: the Demo process ended before the turn did"
    assert shown["messages"][1]["decision"] == "rejected"
    assert [prompt["text"] for prompt in shown["pendingPrompts"]] == ["two"]
    again = state.runtime()
    shown = state.send(session_id, "three")
    assert again.turn(0).start.prompt == "two"
    assert [prompt["text"] for prompt in shown["pendingPrompts"]] == ["three"]


@pytest.mark.case("S114")
def test_a_lost_agent_leaves_a_user_prompt_waiting_for_the_next(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "U1")
    state.send(session_id, "U2")
    runtime.report(runtime.turn(0), TurnEnded("lost"))
    shown = state.wait_status(session_id, "error")
    assert [prompt["text"] for prompt in shown["pendingPrompts"]] == ["U2"]
    assert len(runtime.turns) == 1
    state.send(session_id, "U3")
    assert runtime.turn(1).start.prompt == "U2"


@pytest.mark.case("S114")
def test_a_lost_agent_starts_a_workflow_prompt_by_itself(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    turn = runtime.turn(0)
    state.kill()
    prompt = {"id": "message-50", "timestamp": "", "text": "resume"}
    state.change_row(
        session_id, queuedPrompts=[{"source": "orchestrator", "attachments": [], "pending_prompt": prompt}]
    )
    state.start("replacement", running=["runtime-acp"])
    wait_until(lambda: state.client.up, "state to be back")
    runtime.report(turn, TurnEnded("lost"))
    assert runtime.turn(1).start.prompt == "resume"
    assert texts(state.read(session_id))[-1] == "resume"


def test_facts_of_the_agent_are_kept_for_the_next_turn(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    turn = runtime.turn(0)
    runtime.report(turn, ExternalSession("acp-1"), ModelsKnown([("fast", "Fast", None)]))
    runtime.end(turn)
    shown = state.read(session_id)
    assert shown["externalSessionId"] == "acp-1"
    assert shown["modelOptions"] == [{"label": "Fast", "value": "fast"}]
    state.reload()
    state.send(session_id, "two")
    assert runtime.turn(1).start.spec.external_session_id == "acp-1"


def test_a_notice_equal_to_the_last_text_is_dropped(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    turn = runtime.turn(0)
    runtime.report(turn, Notice("retrying"), Notice("retrying"), Notice("again"))
    shown = state.read(session_id)
    assert (shown["status"], texts(shown)) == ("active", ["one", "retrying", "again"])


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"text": "  "}, id="empty"),
        pytest.param({"text": "x", "attachments": [image()]}, id="images-for-an-acp-agent"),
    ],
)
def test_a_prompt_that_cannot_be_sent_is_refused(
    state: StateWorker, runtime: FakeRuntime, fields: dict[str, Any]
) -> None:
    session_id = state.create()
    before = state.state()["revision"]
    with pytest.raises(InvalidRequest):
        state.ask(PROMPT_SEND, SendPrompt(key="k", session_id=session_id, **fields))
    assert state.state()["revision"] == before


def test_images_go_to_the_agent_and_never_into_the_transcript(state: StateWorker, runtime: FakeRuntime) -> None:
    claude = state.runtime("runtime-claude")
    session_id = state.create("Claude")
    shown = state.send(session_id, "", attachments=[image(5)])
    assert shown["preview"] == "1 image attached"
    assert shown["messages"][0]["attachments"] == [
        {"byteSize": 5, "fileName": "pasted-image-1.png", "mediaType": "image/png"}
    ]
    assert claude.turn(0).start.images == [image(5, "image/png").__class__(bytes(5), "image/png", "pasted-image-1.png")]


def test_a_repeated_key_finds_the_first_prompt(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    for _ in range(2):
        shown = state.send(session_id, "once", key="same")
        assert texts(shown) == ["once"]
    runtime.turn(0)
    state.kill()
    state.start("replacement", running=["runtime-acp"])
    assert texts(state.send(session_id, "once", key="same")) == ["once"]
    assert len(runtime.turns) == 1


def test_the_agent_reads_the_expanded_text_and_the_header_of_a_peer(state: StateWorker, runtime: FakeRuntime) -> None:
    sender, session_id = state.create(name="Lead"), state.create()
    shown = state.send(session_id, "short", expanded_text="the long form")
    assert shown["messages"][0]["expandedText"] == "the long form"
    assert runtime.turn(0).start.prompt == "the long form"
    runtime.end(runtime.turn(0))
    shown = state.send(session_id, "please", source_session_id=sender)
    assert shown["messages"][-1]["source"] == {"name": "Lead", "sessionId": sender}
    prompt = runtime.turn(1).start.prompt
    assert prompt.startswith("[TermAl cross-session message]")
    assert "Lead" in prompt
    assert prompt.endswith("please")
    runtime.end(runtime.turn(1))
    shown = state.send(session_id, "hello", source_session_id="session-99")
    assert "source" not in shown["messages"][-1]


def test_what_turns_take_is_on_their_last_messages_and_summed_in_the_session(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    runtime.report(runtime.turn(0), TextDelta("a", "first"), Usage(10, 5, 0.25), Usage(1, 2))
    runtime.end(runtime.turn(0))
    state.send(session_id, "two")
    runtime.report(runtime.turn(1), Usage(100, 50))
    runtime.end(runtime.turn(1))
    state.stop()
    state.start()
    shown = state.read(session_id)
    assert [message.get("usage") for message in shown["messages"]] == [
        None,
        {"inputTokens": 11, "outputTokens": 7, "costUsd": 0.25},
        {"inputTokens": 100, "outputTokens": 50},
    ]
    total = {"turns": 2, "inputTokens": 111, "outputTokens": 57, "costUsd": 0.25}
    assert shown["usage"] == total
    assert state.state()["sessions"][0]["usage"] == total
