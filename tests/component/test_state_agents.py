"""State and agents that end right after their start: nothing is used up by them, people see it and end it."""

import json
import time
from typing import Any

import pytest

from termal.wire.agent_operations import AGENT_RETRY, AGENTS_LIST, AgentTrouble, OneAgent
from termal.wire.control import Peers, Serving
from termal.wire.errors import Conflict, Internal, NotFound
from termal.wire.queue_operations import QUEUE_OFFER, OfferWake, WakeOffered
from termal.wire.turns import Anything
from tests.component.test_state_recovery_workflows import with_queues
from tests.component.test_state_wakes import wake
from tests.support.fake_runtime import FakeRuntime
from tests.support.state_worker import StateWorker
from tests.support.waiting import wait_until

TEXT = "the Demo process ended right after its start. Mend it."


def trouble(
    *alive: str, parked: bool = True, pause_s: float = 0.0, agent: str = "Demo", only: str = ""
) -> AgentTrouble:
    return AgentTrouble(agent, 5, parked, time.monotonic() + pause_s, TEXT, list(alive), only)


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    state.start()
    return state.runtime()


def detail(state: StateWorker, agent: str = "Demo") -> tuple[str, str]:
    rows: list[dict[str, Any]] = json.loads(state.ask(AGENTS_LIST, Anything()).json)["agents"]
    return next((row["status"], row["detail"]) for row in rows if row["agent"] == agent)


def test_a_prompt_for_a_parked_agent_is_refused_and_nothing_is_written(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id = state.create()
    runtime.tell_troubles(trouble())
    with pytest.raises(Conflict, match="right after its start") as refused:
        state.send(session_id, "hello")
    assert refused.value.reason == "agentExits"
    assert state.read(session_id)["messages"] == []
    assert runtime.turns == []


def test_an_agent_that_is_parked_in_one_session_goes_on_in_others_after_its_pause(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    broken, sound = state.create(), state.create()
    runtime.tell_troubles(trouble(only=broken, pause_s=60.0))
    for session_id in (broken, sound):
        with pytest.raises(Conflict, match="right after its start"):
            state.send(session_id, "hello")
    runtime.tell_troubles(trouble(only=broken))
    with pytest.raises(Conflict, match="right after its start"):
        state.send(broken, "hello")
    state.send(sound, "hello")
    assert runtime.turn(0).start.spec.session_id == sound


def test_what_waits_in_the_queue_stays_there(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    state.send(session_id, "two")
    runtime.tell_troubles(trouble())
    runtime.end(runtime.turn(0))
    assert [prompt["text"] for prompt in state.read(session_id)["pendingPrompts"]] == ["two"]
    assert len(runtime.turns) == 1


def test_a_stop_leaves_what_waits_for_a_parked_agent_where_it_is(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    state.send(session_id, "two")
    runtime.tell_troubles(trouble())
    with pytest.raises(Internal, match="right after its start") as failed:
        state.stop_turn(session_id)
    assert failed.value.reason == "successorNotStarted"
    shown = state.read(session_id)
    assert (shown["status"], [prompt["text"] for prompt in shown["pendingPrompts"]]) == ("idle", ["two"])


@pytest.mark.parametrize("kind", ["paused", "parked"])
@pytest.mark.parametrize("end", ["stopped", "completed"])
def test_a_queue_that_waited_for_the_agent_alone_goes_on_with_it(
    state: StateWorker, runtime: FakeRuntime, kind: str, end: str
) -> None:
    session_id, lost = state.create(), state.create()
    for known in (session_id, lost):
        state.send(known, "one")
        state.send(known, "two")
    runtime.tell_troubles(trouble(parked=kind == "parked", pause_s=60.0))
    runtime.end(runtime.turn(1), "lost")
    if end == "stopped":
        with pytest.raises(Internal, match="right after its start"):
            state.stop_turn(session_id)
    else:
        runtime.end(runtime.turn(0))
    assert len(runtime.turns) == 2
    if kind == "parked":
        state.ask(AGENT_RETRY, OneAgent("Demo"))
    else:
        runtime.tell_troubles(trouble(parked=False))
    turn = runtime.turn(2)
    assert (turn.start.spec.session_id, turn.start.prompt) == (session_id, "two")
    runtime.end(turn)
    assert [prompt["text"] for prompt in state.read(lost)["pendingPrompts"]] == ["two"], "an end of another kind"


def test_a_queue_that_waited_for_the_agent_waits_for_a_person_after_a_turn_that_was_lost(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id = state.create()
    for text in ("one", "two"):
        state.send(session_id, text)
    runtime.tell_troubles(trouble())
    runtime.end(runtime.turn(0))
    runtime.tell_troubles(trouble(session_id))
    state.send(session_id, "three")
    runtime.end(runtime.turn(1), "lost")
    waiting = [prompt["text"] for prompt in state.read(session_id)["pendingPrompts"]]
    runtime.tell_troubles()
    assert [prompt["text"] for prompt in state.read(session_id)["pendingPrompts"]] == waiting != []
    assert len(runtime.turns) == 2


def test_mail_wakes_nobody_and_leaves_no_trace_in_the_transcript(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    runtime.tell_troubles(trouble())
    for _ in range(3):
        offered = state.ask(QUEUE_OFFER, OfferWake(session_id, wake(1)))
        assert offered == WakeOffered("durableButNotWoken", "agentExits")
    assert state.read(session_id)["messages"] == []
    assert runtime.turns == []


def test_a_session_in_which_it_runs_goes_on(state: StateWorker, runtime: FakeRuntime) -> None:
    running, other = state.create(), state.create()
    runtime.tell_troubles(trouble(running))
    assert state.send(running, "hello")["status"] == "active"
    with pytest.raises(Conflict):
        state.send(other, "hello")


def test_people_see_it_and_another_try_ends_it(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    assert detail(state)[0] == "ready"
    runtime.tell_troubles(trouble())
    assert detail(state) == ("needsSetup", TEXT)
    shown = {row["agent"]: row["detail"] for row in state.state()["agentReadiness"]}
    assert shown["Demo"] == TEXT
    rows = state.json(AGENT_RETRY, OneAgent("Demo"))["agents"]
    assert next(row["status"] for row in rows if row["agent"] == "Demo") == "ready"
    assert runtime.forgiven == ["Demo"]
    assert state.send(session_id, "hello")["status"] == "active"


def test_another_try_of_an_agent_that_nobody_knows_is_not_found(state: StateWorker, runtime: FakeRuntime) -> None:
    with pytest.raises(NotFound):
        state.ask(AGENT_RETRY, OneAgent("Nobody"))


def test_another_try_without_a_worker_is_answered(state: StateWorker) -> None:
    state.start()
    rows = state.json(AGENT_RETRY, OneAgent("Claude"))["agents"]
    assert "Claude" in [row["agent"] for row in rows]


def test_the_end_of_the_worker_is_the_end_of_what_it_knew(state: StateWorker, runtime: FakeRuntime) -> None:
    runtime.tell_troubles(trouble())
    state.runtimes.remove(runtime)
    runtime.close()
    state.process.order(Peers([]))
    wait_until(lambda: detail(state)[0] == "ready", "the trouble to be forgotten")


@pytest.mark.parametrize("kind", ["paused", "parked", "parked-elsewhere"])
def test_a_workflow_prompt_goes_on_when_the_agent_may_be_started_again(state: StateWorker, kind: str) -> None:
    (session_id,) = with_queues(state, "R")
    state.start()
    runtime = state.runtime()
    parked, only = kind == "parked", "session-other" if kind == "parked-elsewhere" else ""
    runtime.tell_troubles(trouble(parked=kind != "paused", pause_s=0.5, only=only))
    state.process.order(Serving())
    if parked:
        shown = state.read(session_id)
        assert (shown["status"], shown["messages"], len(shown["pendingPrompts"])) == ("idle", [], 1)
        state.ask(AGENT_RETRY, OneAgent("Demo"))
    assert runtime.turn(0).start.prompt == "R"
