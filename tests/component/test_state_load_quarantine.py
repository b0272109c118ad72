"""A row that was set aside outlives everything that is written around it, and its id is never given away."""

import json

import pytest

from termal.wire.errors import Conflict, NotFound
from termal.wire.session_operations import STATE_FACTS
from termal.wire.turns import Anything
from tests.support.older_store import Dump, Json, OlderStore, dump, message, session, transcript
from tests.support.state_worker import StateWorker

ASIDE = "session-2"
OWN_TABLES = ("messages", "session_overviews", "session_prompt_histories")


def prepared(state: StateWorker) -> None:
    """Three sessions that the daemon made, the second one damaged, with rows in every table below it."""
    state.start()
    runtime = state.runtime()
    for number in range(3):
        session_id = state.create()
        state.send(session_id, f"hello {session_id}")
        runtime.end(runtime.turn(number))
        state.wait_status(session_id, "idle")
    state.stop()
    runtime.close()
    state.runtimes.clear()
    state.write("UPDATE sessions SET value_json = '{ not json' WHERE id = ?", (ASIDE,))


def rows_of(found: Dump, session_id: str) -> Dump:
    """Every row that carries the id in its first column, byte for byte."""
    tables = ("sessions", *OWN_TABLES)
    return {name: [row for row in found[name] if session_id.encode() in row[:3]] for name in tables}


def everything(state: StateWorker) -> None:
    """Every kind of write that there is, around the row that is set aside."""
    runtime = state.runtime()
    made = state.create()
    state.send("session-1", "more")
    state.send("session-1", "queued behind it")
    runtime.end(runtime.turn(0))
    runtime.end(runtime.turn(1))
    state.wait_status("session-1", "idle")
    state.kill_session(made)
    state.kill_session("session-3")
    runtime.close()
    state.runtimes.clear()


@pytest.mark.case("S62")
def test_an_unreadable_row_outlives_every_write_around_it_byte_for_byte(state: StateWorker) -> None:
    prepared(state)
    before = rows_of(dump(state.home.termal_db), ASIDE)
    assert all(before.values())
    state.start()
    everything(state)
    state.kill()
    assert rows_of(dump(state.home.termal_db), ASIDE) == before
    state.start("replacement")
    state.create()
    state.stop()
    assert rows_of(dump(state.home.termal_db), ASIDE) == before
    state.start()
    state.kill_session("session-1")
    state.stop()
    assert rows_of(dump(state.home.termal_db), ASIDE) == before


def test_what_is_set_aside_is_unknown_to_every_request_and_counted_in_status(state: StateWorker) -> None:
    prepared(state)
    state.start()
    for ask in (state.read, state.history, state.kill_session, state.stop_turn):
        with pytest.raises(NotFound):
            ask(ASIDE)
    with pytest.raises(NotFound):
        state.send(ASIDE, "hello")
    assert state.ask(STATE_FACTS, Anything()).databases[0].quarantined == 1
    assert state.create() == "session-4"


def test_a_repaired_row_is_back_at_the_next_start(state: StateWorker) -> None:
    prepared(state)
    state.start()
    state.stop()
    messages = [row for row in dump(state.home.termal_db)["messages"] if ASIDE.encode() in row[:3]]
    healthy = session(ASIDE, session={"messageCount": len(messages), "messagesLoaded": False})
    state.write("UPDATE sessions SET value_json = ? WHERE id = ?", (json.dumps(healthy), ASIDE))
    state.start()
    assert state.read(ASIDE)["messageCount"] == len(messages)
    assert state.ask(STATE_FACTS, Anything()).databases[0].quarantined == 0


def test_a_transcript_that_was_never_moved_is_kept_over_writes(state: StateWorker) -> None:
    store = OlderStore(state.home.termal_db)
    twice = [message(3, id="message-9", text=text) for text in ("first", "second")]
    store.add("session-1", session("session-1", transcript(1, 3)))
    store.add(ASIDE, session(ASIDE, twice))
    store.add("session-3", session("session-3", transcript(3, 3)))
    store.close()
    before = rows_of(dump(state.home.termal_db) | {name: [] for name in OWN_TABLES}, ASIDE)
    for _ in range(2):
        state.start()
        assert state.ask(STATE_FACTS, Anything()).databases[0].quarantined == 1
        runtime = state.runtime()
        state.send("session-1", "hello")
        runtime.end(runtime.turn(0))
        state.wait_status("session-1", "idle")
        runtime.close()
        state.runtimes.clear()
        state.stop()
        assert rows_of(dump(state.home.termal_db), ASIDE) == before


def delegation(number: int, **values: str) -> Json:
    return {
        "id": f"delegation-{number}",
        "parentSessionId": "session-1",
        "childSessionId": "session-2",
        "status": "completed",
        **values,
    }


@pytest.mark.case("S67")
def test_damaged_delegations_are_set_aside_alone_and_outlive_every_write(state: StateWorker) -> None:
    state.start()
    for _ in range(3):
        state.create()
    state.stop()
    state.write("INSERT INTO delegations VALUES ('delegation-1', '{ not json')")
    state.write("INSERT INTO delegations VALUES ('delegation-2', ?)", (json.dumps(delegation(7)),))
    before = dump(state.home.termal_db)["delegations"]
    state.start()
    assert [known["id"] for known in state.state()["sessions"]] == ["session-1", "session-2", "session-3"]
    facts = state.ask(STATE_FACTS, Anything())
    assert (facts.databases[0].quarantined, facts.delegations.running) == (2, 0)
    assert "delegation-2" not in json.dumps(state.state())
    state.kill_session("session-1")
    state.create()
    state.stop()
    assert dump(state.home.termal_db)["delegations"] == before
    state.start()
    state.kill()
    assert dump(state.home.termal_db)["delegations"] == before


@pytest.mark.parametrize("value", ["'{'", "x'7b7d'", "CAST(x'22ff22' AS TEXT)", "'[[[['", "'5'"])
def test_an_old_message_that_cannot_be_read_is_named_by_the_page_that_meets_it(state: StateWorker, value: str) -> None:
    state.start()
    state.create()
    state.stop()
    state.add_messages("session-1", 200)
    state.write(f"UPDATE messages SET value_json = {value} WHERE position = 5")
    state.start()
    with pytest.raises(Conflict, match="position 5"):
        state.history("session-1", from_start=True)
    assert len(state.history("session-1", before="message-070")["messages"]) == 64
    assert state.read("session-1")["messageCount"] == 200
