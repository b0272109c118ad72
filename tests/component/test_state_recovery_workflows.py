"""Queues after a start: workflow prompts go on by themselves once the port listens, everything else waits."""

import pytest

from termal.wire.control import Serving
from termal.wire.errors import Internal
from tests.support.fake_runtime import FakeRuntime
from tests.support.state_worker import Json, StateWorker, texts
from tests.support.waiting import wait_until

ORIGIN: Json = {"mailboxId": "mailbox-1", "messageId": "mailbox-message-1", "sequence": 1, "unreadCount": 1}


def entry(kind: str, number: int) -> Json:
    """One stored entry: ``U`` a person's, ``M`` a wake, ``R`` a workflow's."""
    source = {"U": "user", "M": "mailbox", "R": "orchestrator"}[kind]
    prompt: Json = {"id": f"message-{50 + number}", "timestamp": "10:00:00", "text": kind}
    if kind == "M":
        prompt["source"] = {"name": "Ada", "sessionId": "session-9", "kind": "mailbox", "mailbox": ORIGIN}
    return {"source": source, "attachments": [], "pending_prompt": prompt}


def waiting(state: StateWorker, session_id: str) -> list[str]:
    return [prompt["text"] for prompt in state.read(session_id).get("pendingPrompts", [])]


def with_queues(state: StateWorker, *queues: str, **more: object) -> list[str]:
    """A stopped store with one session for each queue."""
    state.start()
    ids = [state.create() for _ in queues]
    state.kill()
    for session_id, kinds in zip(ids, queues, strict=True):
        rows = [entry(kind, number) for number, kind in enumerate(kinds)]
        state.change_row(session_id, queuedPrompts=rows, **more)
    return ids


@pytest.mark.case("S51")
def test_a_workflow_prompt_starts_after_the_port_listens_and_not_before(state: StateWorker) -> None:
    (session_id,) = with_queues(state, "R")
    state.start()
    runtime = state.runtime()
    assert (state.status(session_id), waiting(state, session_id)) == ("idle", ["R"])
    state.process.order(Serving())
    assert runtime.turn(0).start.prompt == "R"
    shown = state.read(session_id)
    assert (shown["status"], texts(shown), waiting(state, session_id)) == ("active", ["R"], [])


@pytest.mark.case("S52")
def test_a_persons_prompt_is_a_barrier(state: StateWorker) -> None:
    ids = with_queues(state, "UR", "U", "M", "MUR", "R")
    state.start()
    runtime = state.runtime()
    state.process.order(Serving())
    assert runtime.turn(0).start.spec.session_id == ids[-1]
    assert [waiting(state, session_id) for session_id in ids[:-1]] == [["U", "R"], ["U"], ["M"], ["M", "U", "R"]]
    assert {state.status(session_id) for session_id in ids[:-1]} == {"idle"}
    assert len(runtime.turns) == 1


@pytest.mark.case("S53")
def test_a_wake_ahead_of_a_workflow_prompt_runs_first(state: StateWorker) -> None:
    (session_id,) = with_queues(state, "MR")
    state.start()
    runtime = state.runtime()
    state.process.order(Serving())
    turn = runtime.turn(0)
    assert (turn.start.prompt, waiting(state, session_id)) == ("M", ["R"])
    runtime.end(turn)
    assert runtime.turn(1).start.prompt == "R"
    assert waiting(state, session_id) == []


def test_a_blocked_queue_waits_after_a_start(state: StateWorker) -> None:
    blocked, free = with_queues(state, "R", "R")
    state.change_row(blocked, orchestratorAutoDispatchBlocked=True)
    state.start()
    runtime = state.runtime()
    state.process.order(Serving())
    assert runtime.turn(0).start.spec.session_id == free
    assert waiting(state, blocked) == ["R"]


def test_a_turn_that_the_restart_cut_off_is_followed_by_the_workflow_prompt(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    runtime = state.runtime()
    state.send(session_id, "go")
    runtime.turn(0)
    state.kill()
    runtime.turns.clear()
    state.change_row(session_id, queuedPrompts=[entry("R", 0)])
    state.start()
    assert state.status(session_id) == "error"
    state.process.order(Serving())
    assert runtime.turn(0).start.prompt == "R"
    assert "One queued prompt is kept." in texts(state.read(session_id))[1]


def test_a_refused_workflow_prompt_is_in_front_again_under_another_id(state: StateWorker) -> None:
    (session_id,) = with_queues(state, "RR")
    state.start()
    runtime = state.runtime()
    runtime.refuse = Internal("no agent")
    state.process.order(Serving())
    shown = state.wait_status(session_id, "error")
    assert [prompt["text"] for prompt in shown["pendingPrompts"]] == ["R", "R"]
    ids = [message["id"] for message in shown["messages"]] + [prompt["id"] for prompt in shown["pendingPrompts"]]
    assert len(set(ids)) == len(ids)
    assert texts(shown)[-1].startswith("Turn failed: ")
    stored = [row["pending_prompt"]["id"] for row in state.row(session_id)["queuedPrompts"]]
    assert stored == [prompt["id"] for prompt in shown["pendingPrompts"]]


def test_a_refused_wake_is_tried_once_more_and_then_left(state: StateWorker) -> None:
    (session_id,) = with_queues(state, "MR")
    state.start()
    runtime = state.runtime()
    runtime.refuse = Internal("no agent")
    state.process.order(Serving())
    wait_until(lambda: sum(text == "M" for text in texts(state.read(session_id))) == 2, "a second attempt")
    shown = state.wait_status(session_id, "error")
    assert [prompt["text"] for prompt in shown["pendingPrompts"]] == ["M", "R"]
    assert sum(text.startswith("Turn failed: ") for text in texts(shown)) == 2


def test_a_restart_of_this_worker_alone_starts_workflow_prompts_when_it_knows_its_turns(state: StateWorker) -> None:
    waits, runs = with_queues(state, "R", "")
    state.start()
    runtime: FakeRuntime = state.runtime()
    state.send(runs, "go")
    runtime.turn(0)
    state.kill()
    state.start("replacement", running=["runtime-acp"])
    assert runtime.turn(1).start.spec.session_id == waits
    assert state.status(runs) == "active"
    state.process.order(Serving())
    runtime.end(runtime.turn(1))
    assert texts(state.wait_status(waits, "idle")) == ["R"]
