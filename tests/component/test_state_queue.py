"""The queue of a session: who waits, who starts, what is taken back, what a restart keeps."""

import pytest

from termal.wire.errors import NotFound
from tests.support.fake_runtime import FakeRuntime
from tests.support.state_worker import Json, StateWorker, image, texts


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    """A started state worker with a runtime worker beside it."""
    state.start()
    return state.runtime()


def queue(session: Json) -> list[str]:
    return [prompt["text"] for prompt in session.get("pendingPrompts", [])]


def busy_with_three(state: StateWorker, runtime: FakeRuntime) -> str:
    """A session whose turn runs, with A, B and C behind it."""
    session_id = state.create()
    state.send(session_id, "first")
    runtime.turn(0)
    for text in "ABC":
        state.send(session_id, text)
    return session_id


def stored_queue(state: StateWorker, session_id: str, entries: list[tuple[str, str]], *, blocked: bool) -> None:
    """Put ``entries`` (source, text) into the stored row of a worker that is not there."""
    state.change_row(
        session_id,
        queuedPrompts=[
            {
                "source": source,
                "attachments": [],
                "pending_prompt": {"id": f"message-{50 + number}", "timestamp": "10:00:00", "text": text},
            }
            for number, (source, text) in enumerate(entries)
        ],
        orchestratorAutoDispatchBlocked=blocked,
    )


@pytest.mark.case("S41")
def test_prompts_to_a_busy_session_wait_in_order_under_their_later_ids(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id = busy_with_three(state, runtime)
    shown = state.read(session_id)
    assert queue(shown) == ["A", "B", "C"]
    waiting = [prompt["id"] for prompt in shown["pendingPrompts"]]
    for number in range(4):
        runtime.end(runtime.turn(number))
    shown = state.wait_status(session_id, "idle")
    assert texts(shown) == ["first", "A", "B", "C"]
    assert [message["id"] for message in shown["messages"][1:]] == waiting
    assert queue(shown) == []


@pytest.mark.case("S42", "S43")
def test_a_waiting_prompt_can_be_taken_back(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = busy_with_three(state, runtime)
    second = state.read(session_id)["pendingPrompts"][1]["id"]
    state.cancel(session_id, second)
    for prompt_id in (second, "message-99"):
        with pytest.raises(NotFound):
            state.cancel(session_id, prompt_id)
    runtime.end(runtime.turn(0))
    assert runtime.turn(1).start.prompt == "A"
    assert queue(state.read(session_id)) == ["C"]


@pytest.mark.case("S44")
def test_a_restart_keeps_the_queue_and_starts_none_of_it(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = busy_with_three(state, runtime)
    state.kill()
    state.start()
    shown = state.read(session_id)
    assert (shown["status"], queue(shown)) == ("error", ["A", "B", "C"])
    assert len(runtime.turns) == 1


@pytest.mark.case("S45")
def test_an_older_prompt_goes_before_a_new_one(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.stop()
    stored_queue(state, session_id, [("user", "A")], blocked=False)
    state.start()
    shown = state.send(session_id, "B")
    assert runtime.turn(0).start.prompt == "A"
    assert queue(shown) == ["B"]


@pytest.mark.case("S46")
def test_a_prompt_to_a_blocked_queue_moves_the_users_ahead(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.stop()
    stored_queue(state, session_id, [("orchestrator", "W"), ("user", "A")], blocked=True)
    state.start()
    shown = state.send(session_id, "B")
    assert runtime.turn(0).start.prompt == "A"
    assert queue(shown) == ["B", "W"]
    assert "orchestratorAutoDispatchBlocked" not in state.row(session_id)


@pytest.mark.case("S47")
def test_a_prompt_to_a_blocked_queue_without_users_runs_first(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.stop()
    stored_queue(state, session_id, [("orchestrator", "W")], blocked=True)
    state.start()
    shown = state.send(session_id, "B")
    assert runtime.turn(0).start.prompt == "B"
    assert queue(shown) == ["W"]


@pytest.mark.case("S50")
def test_a_queued_image_survives_a_restart_byte_for_byte(state: StateWorker) -> None:
    state.start()
    state.create("Claude")
    runtime = state.runtime("runtime-claude")
    state.send("session-1", "first")
    runtime.turn(0)
    big = image(10 << 20)
    state.send("session-1", "look", attachments=[big])
    state.kill()
    state.start("replacement", running=["runtime-claude"])
    runtime.end(runtime.turn(0))
    (given,) = runtime.turn(1).start.images
    assert given.data == big.data


def test_a_queued_prompt_publishes_its_session_alone(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "one")
    runtime.turn(0)
    before = len(state.wait_deltas(session_id, 3))
    state.send(session_id, "two")
    state.wait_deltas(session_id, before + 1)
    assert [event["type"] for event in state.deltas(session_id)[before:]] == ["sessionSummaryUpdated"]


def test_a_stored_entry_under_either_spelling_is_read(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.stop()
    prompt = {"id": "message-50", "timestamp": "", "text": "A"}
    state.change_row(session_id, queuedPrompts=[{"source": "user", "attachments": [], "pendingPrompt": prompt}])
    state.start()
    assert queue(state.read(session_id)) == ["A"]
    state.send(session_id, "B")
    assert runtime.turn(0).start.prompt == "A"
    assert "pending_prompt" in state.row(session_id)["queuedPrompts"][0]


@pytest.mark.case("S48")
def test_neighbouring_peer_prompts_wait_as_one(state: StateWorker, runtime: FakeRuntime) -> None:
    lead, other, session_id = state.create(name="Lead"), state.create(name="Other"), state.create()
    state.send(session_id, "go")
    runtime.turn(0)
    state.send(session_id, "P1", source_session_id=lead)
    first = state.read(session_id)["pendingPrompts"][0]["id"]
    state.send(session_id, "P2", source_session_id=other)
    state.send(session_id, "U")
    state.send(session_id, "P3", source_session_id=lead)
    batch, user, last = state.read(session_id)["pendingPrompts"]
    assert batch["id"] == first
    assert batch["source"] == {"name": "Peer queue", "kind": "peerBatch"}
    assert batch["text"].startswith("[TermAl cross-session message batch]")
    assert [user["text"], last["text"]] == ["U", "P3"]
    parts = state.row(session_id)["queuedPeerMessages"][first]
    assert [part["text"] for part in parts] == ["P1", "P2"]
    state.kill()
    state.start("replacement", running=["runtime-acp"])
    runtime.end(runtime.turn(0))
    assert runtime.turn(1).start.prompt == batch["text"]
    assert "queuedPeerMessages" not in state.row(session_id)


@pytest.mark.case("S49")
def test_an_image_is_a_barrier_between_peer_prompts(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime("runtime-claude")
    lead, session_id = state.create(), state.create("Claude")
    state.send(session_id, "go")
    runtime.turn(0)
    state.send(session_id, "P1", source_session_id=lead)
    state.send(session_id, "P2", source_session_id=lead, attachments=[image()])
    assert queue(state.read(session_id)) == ["P1", "P2"]
