"""Wakes in a session's queue: offered, refreshed, taken back, put in front at a start, given back when refused."""

import pytest

from termal.wire.errors import Internal
from termal.wire.queue_operations import (
    QUEUE_MATERIALIZE,
    QUEUE_OFFER,
    QUEUE_RETRACT,
    MaterializeWakes,
    OfferWake,
    RetractWakes,
    Wake,
    WakeOffered,
)
from tests.support.fake_runtime import FakeRuntime
from tests.support.state_worker import Json, StateWorker, texts

DELIVERED = WakeOffered("deliveredToIdleSession")
QUEUED = WakeOffered("queuedBehindActiveTurn")


@pytest.fixture
def runtime(state: StateWorker) -> FakeRuntime:
    state.start()
    return state.runtime()


def wake(sequence: int, mailbox: str = "mailbox-1", unread: int = 1) -> Wake:
    return Wake(
        mailbox_id=mailbox,
        message_id=f"mailbox-message-{sequence}",
        sequence=sequence,
        unread_count=unread,
        sender_id="session-9",
        sender_name="Ada",
        text=f"mail up to #{sequence} in {mailbox}",
    )


def offer(state: StateWorker, session_id: str, sequence: int, mailbox: str = "mailbox-1") -> WakeOffered:
    return state.ask(QUEUE_OFFER, OfferWake(session_id, wake(sequence, mailbox)))


def waiting(state: StateWorker, session_id: str) -> list[str]:
    return [prompt["text"] for prompt in state.read(session_id).get("pendingPrompts", [])]


def sources(state: StateWorker, session_id: str) -> list[str]:
    return [entry["source"] for entry in state.row(session_id).get("queuedPrompts", [])]


def queue_row(source: str, text: str, number: int) -> Json:
    prompt = {"id": f"message-{number}", "timestamp": "10:00:00", "text": text}
    return {"source": source, "attachments": [], "pending_prompt": prompt}


def test_an_idle_session_is_woken_by_a_prompt_that_says_where_it_comes_from(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id = state.create()
    assert offer(state, session_id, 3) == DELIVERED
    turn = runtime.turn(0)
    assert turn.start.prompt == "mail up to #3 in mailbox-1"
    shown = state.read(session_id)
    assert shown["status"] == "active"
    assert shown["messages"][0]["source"] == {
        "name": "Ada",
        "sessionId": "session-9",
        "kind": "mailbox",
        "mailbox": {
            "mailboxId": "mailbox-1",
            "messageId": "mailbox-message-3",
            "sequence": 3,
            "unreadCount": 1,
        },
    }


@pytest.mark.case("S54")
def test_an_older_wake_of_a_mailbox_never_replaces_a_newer_one(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "busy")
    assert [offer(state, session_id, sequence) for sequence in (5, 4)] == [QUEUED, QUEUED]
    (entry,) = state.read(session_id)["pendingPrompts"]
    assert entry["source"]["mailbox"]["sequence"] == 5
    assert sources(state, session_id) == ["mailbox"]


def test_a_newer_wake_keeps_the_place_and_the_id_of_the_older_one(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "busy")
    offer(state, session_id, 1)
    first = state.read(session_id)["pendingPrompts"][0]
    state.send(session_id, "a user's")
    offer(state, session_id, 2)
    offer(state, session_id, 1, "mailbox-2")
    assert waiting(state, session_id) == ["mail up to #2 in mailbox-1", "a user's", "mail up to #1 in mailbox-2"]
    assert state.read(session_id)["pendingPrompts"][0]["id"] == first["id"]


def test_a_wake_behind_a_waiting_queue_starts_its_head(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.stop()
    state.change_row(session_id, queuedPrompts=[queue_row("user", "U", 50)])
    state.start()
    assert offer(state, session_id, 1) == QUEUED
    assert texts(state.read(session_id)) == ["U"]
    runtime.end(runtime.turn(0))
    runtime.end(runtime.turn(1))
    assert texts(state.wait_status(session_id, "idle")) == ["U", "mail up to #1 in mailbox-1"]


def test_a_blocked_queue_without_users_starts_nothing_for_a_wake(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.stop()
    state.change_row(
        session_id, queuedPrompts=[queue_row("orchestrator", "W", 50)], orchestratorAutoDispatchBlocked=True
    )
    state.start()
    assert offer(state, session_id, 1) == QUEUED
    assert waiting(state, session_id) == ["W", "mail up to #1 in mailbox-1"]
    assert runtime.turns == []


def test_a_repeated_offer_is_answered_like_the_first_and_starts_nothing(
    state: StateWorker, runtime: FakeRuntime
) -> None:
    session_id = state.create()
    assert [offer(state, session_id, 1) for _ in range(2)] == [DELIVERED, DELIVERED]
    assert [offer(state, session_id, 2) for _ in range(2)] == [QUEUED, QUEUED]
    runtime.end(runtime.turn(0))
    runtime.turn(1)
    assert (offer(state, session_id, 1), offer(state, session_id, 2)) == (DELIVERED, QUEUED)
    state.kill()
    state.start("replacement", running=["runtime-acp"])
    assert (offer(state, session_id, 1), offer(state, session_id, 2)) == (DELIVERED, QUEUED)
    assert len(runtime.turns) == 2
    assert len(texts(state.read(session_id))) == 2


def test_a_repeated_offer_is_known_whatever_came_between(state: StateWorker, runtime: FakeRuntime) -> None:
    """Keys of clients and wakes of other mailboxes do not push it out of memory."""
    session_id = state.create()
    assert offer(state, session_id, 1) == DELIVERED
    for number in range(20):
        state.send(session_id, f"prompt {number}")
        offer(state, session_id, 1, f"mailbox-{100 + number}")
    assert offer(state, session_id, 1) == DELIVERED
    assert [text for text in waiting(state, session_id) if text.endswith("in mailbox-1")] == []
    assert len(runtime.turns) == 1


def test_who_is_no_root_is_not_woken(state: StateWorker, runtime: FakeRuntime) -> None:
    child, proxy = state.create(), state.create()
    state.stop()
    state.change_row(child, session={"parentDelegationId": "delegation-9"})
    state.change_row(proxy, session={"remoteId": "host"}, remoteId="host", remoteSessionId="session-1")
    state.start()
    outcomes = [offer(state, session_id, 1) for session_id in ("session-99", child, proxy)]
    assert [(outcome.outcome, outcome.reason) for outcome in outcomes] == [
        ("durableButNotWoken", "unknown"),
        ("durableButNotWoken", "delegated"),
        ("durableButNotWoken", "remote"),
    ]
    assert runtime.turns == []


def test_a_refused_wake_waits_in_front_and_a_new_offer_starts_it(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    runtime.refuse = Internal("no agent")
    refused = offer(state, session_id, 1)
    assert refused.outcome == "durableButNotWoken"
    shown = state.read(session_id)
    assert shown["status"] == "error"
    assert texts(shown)[-1].startswith("Turn failed: ")
    (entry,) = shown["pendingPrompts"]
    assert (entry["text"], sources(state, session_id)) == ("mail up to #1 in mailbox-1", ["mailbox"])
    assert entry["id"] != shown["messages"][0]["id"]
    runtime.refuse = None
    assert offer(state, session_id, 1) == DELIVERED
    assert waiting(state, session_id) == []


def test_an_acknowledged_wake_leaves_the_queue_and_a_newer_one_stays(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.send(session_id, "busy")
    offer(state, session_id, 5)
    offer(state, session_id, 5, "mailbox-2")
    for mailbox, through in (("mailbox-1", 4), ("mailbox-3", 9)):
        state.ask(QUEUE_RETRACT, RetractWakes(session_id, mailbox, through))
    assert len(waiting(state, session_id)) == 2
    state.ask(QUEUE_RETRACT, RetractWakes(session_id, "mailbox-1", 5))
    assert waiting(state, session_id) == ["mail up to #5 in mailbox-2"]
    assert len(sources(state, session_id)) == 1
    state.ask(QUEUE_RETRACT, RetractWakes("session-99", "mailbox-1", 5))


def test_wakes_of_a_start_go_to_the_front_and_start_nothing(state: StateWorker, runtime: FakeRuntime) -> None:
    session_id = state.create()
    state.stop()
    state.change_row(session_id, queuedPrompts=[queue_row("user", "U", 50)])
    state.start()
    wakes = MaterializeWakes(session_id, [wake(7), wake(2, "mailbox-2")])
    assert state.ask(QUEUE_MATERIALIZE, wakes).known
    expected = ["mail up to #2 in mailbox-2", "mail up to #7 in mailbox-1", "U"]
    assert waiting(state, session_id) == expected
    before = state.state()["revision"]
    assert state.ask(QUEUE_MATERIALIZE, wakes).known
    assert state.state()["revision"] == before
    state.ask(QUEUE_MATERIALIZE, MaterializeWakes(session_id, [wake(8), wake(1, "mailbox-2")]))
    assert waiting(state, session_id) == [expected[0], "mail up to #8 in mailbox-1", "U"]
    assert runtime.turns == []
    assert state.status(session_id) == "idle"
    assert not state.ask(QUEUE_MATERIALIZE, MaterializeWakes("session-99", [wake(1)])).known
