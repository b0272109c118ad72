"""A file of the first schema version: its transcripts become rows, its damaged sessions stay as they were."""

import json
from pathlib import Path
from typing import Any

import pytest

from termal.rules.overview import byte_of
from termal.store.files import StoreRefused
from termal.worker.patience import EXTENSION_S, Patience
from tests.support.older_store import (
    FIRST_TABLES,
    OTHER_TABLES,
    Dump,
    Json,
    OlderStore,
    add_damaged,
    damaged,
    dump,
    first_store,
    message,
    migrate,
    session,
    transcript,
)
from tests.support.state_memory import Memory
from workers.state.registry import Registry
from workers.state.rows import decode_message
from workers.state.store_schema import open_store

FAULTS = [name for name, _ in damaged(1, 5)]


@pytest.fixture
def path(home_dir: Path) -> Path:
    home_dir.mkdir(mode=0o700)
    return home_dir / "termal.sqlite"


def wrapper(found: Dump, session_id: str) -> Json:
    value: Json = json.loads(next(row[4] for row in found["sessions"] if row[2] == session_id.encode()))
    return value


def row_values(found: Dump, table: str) -> list[tuple[Any, ...]]:
    """Rows without their types."""
    first = 1 if len(found[table][0]) % 2 else 0
    return [row[first + 1 :: 2] for row in found[table]]


@pytest.mark.case("S83")
def test_transcripts_become_rows_in_their_order_under_their_ids(path: Path) -> None:
    first_store(path, 40, 200)
    before = dump(path)
    registry = migrate(path)
    after = dump(path)
    assert (b"schema_version", b"2") in row_values(after, "meta")
    rows = row_values(after, "messages")
    assert len(rows) == 8000
    by_session: dict[bytes, list[tuple[Any, ...]]] = {}
    for row in rows:
        by_session.setdefault(row[0], []).append(row)
    for number in range(1, 41):
        messages = wrapper(before, f"session-{number}")["session"]["messages"]
        stored = by_session[f"session-{number}".encode()]
        assert [int(row[1]) for row in stored] == list(range(200))
        assert [row[2].decode() for row in stored] == [known["id"] for known in messages]
        assert [json.loads(row[3]) for row in stored] == messages
        moved = wrapper(after, f"session-{number}")
        assert (moved["session"]["messages"], moved["session"]["messageCount"]) == ([], 200)
        assert registry.sessions[f"session-{number}"].count == 200
    assert registry.quarantined == set()


def test_a_moved_message_keeps_every_key_and_loses_its_spaces(path: Path) -> None:
    store = OlderStore(path)
    body = '{ "type" : "text", "id":"m", "timestamp":"", "author":"you", "text":"a  b", "other": [1.50, {"x": null}] }'
    text = json.dumps(session("session-1", ["MESSAGE"])).replace('"MESSAGE"', body)
    store.add("session-1", text)
    store.close()
    migrate(path)
    [row] = row_values(dump(path), "messages")
    assert row[3] == b'{"type":"text","id":"m","timestamp":"","author":"you","text":"a  b","other":[1.50,{"x":null}]}'
    assert wrapper(dump(path), "session-1")["futureKey"] == "kept"


def test_kind_author_and_map_of_each_message_come_from_the_message(path: Path) -> None:
    first_store(path, 1, 30)
    migrate(path)
    found = dump(path)
    bytes_of = [byte_of(decode_message(row[3])) for row in row_values(found, "messages")]
    assert {0, 1, 2, 3, 4} == set(bytes_of)
    assert [int(row[4]) | int(row[5]) << 2 for row in row_values(found, "messages")] == bytes_of
    assert row_values(found, "session_overviews") == [(b"session-1", bytes(bytes_of))]


def test_the_prompts_of_a_moved_transcript_are_its_prompt_history(path: Path) -> None:
    first_store(path, 1, 600)
    record = migrate(path).sessions["session-1"]
    prompts = [known["text"] for known in transcript(1, 600) if known["author"] == "you"]
    assert record.history == prompts[-64:]


@pytest.mark.parametrize("name", FAULTS)
def test_a_damaged_session_stays_as_it_was_and_its_siblings_move(path: Path, name: str) -> None:
    store = OlderStore(path)
    for number in (1, 2, 3):
        if number == 2:
            add_damaged(store, number, dict(damaged(number, 70))[name])
        else:
            store.add(f"session-{number}", session(f"session-{number}", transcript(number, 70)))
    store.close()
    before = dump(path)
    registry = migrate(path)
    after = dump(path)
    assert after["sessions"][1] == before["sessions"][1]
    assert {row[0] for row in row_values(after, "messages")} == {b"session-1", b"session-3"}
    assert (list(registry.sessions), registry.quarantined) == (["session-1", "session-3"], {"session-2"})


@pytest.mark.case("S84")
def test_two_equal_message_ids_set_one_session_aside_with_both_bodies(path: Path) -> None:
    registry = equal_ids(path)
    found = dump(path)
    assert (b"schema_version", b"2") in row_values(found, "meta")
    kept = wrapper(found, "session-2")["session"]["messages"]
    assert [known["text"] for known in kept] == ["first body", "second body"]
    assert (list(registry.sessions), registry.quarantined) == (["session-1", "session-3"], {"session-2"})
    assert {row[0] for row in row_values(found, "messages")} == {b"session-1", b"session-3"}


@pytest.mark.case("S85")
def test_what_was_set_aside_stays_so_over_writes_and_starts(path: Path) -> None:
    equal_ids(path)
    before = dump(path)["sessions"][1]
    for _ in range(2):
        memory = Memory(path)
        assert memory.registry.quarantined == {"session-2"}
        memory.say(memory.registry.sessions["session-1"], 3)
        memory.say(memory.create(), 3)
        memory.commit()
        memory.close()
        assert dump(path)["sessions"][1] == before
    assert [known["text"] for known in wrapper(dump(path), "session-2")["session"]["messages"]] == [
        "first body",
        "second body",
    ]


def equal_ids(path: Path) -> Registry:
    store = OlderStore(path)
    store.add("session-1", session("session-1", transcript(1, 3)))
    bodies = [message(3, id="message-9", text=text) for text in ("first body", "second body")]
    store.add("session-2", session("session-2", bodies))
    store.add("session-3", session("session-3", transcript(3, 3)))
    store.close()
    return migrate(path)


@pytest.mark.case("S90")
def test_a_proxy_of_another_daemon_moves_without_rows(path: Path) -> None:
    store = OlderStore(path)
    here = {"remoteId": "host", "remoteSessionId": "session-5"}
    store.add("session-1", session("session-1", session={"remoteId": "host", "messageCount": 40}, **here))
    window = [message(number) for number in (38, 39)]
    store.add("session-2", session("session-2", window, session={"remoteId": "host", "messageCount": 40}, **here))
    store.close()
    registry = migrate(path)
    assert registry.quarantined == set()
    for session_id in ("session-1", "session-2"):
        record = registry.sessions[session_id]
        assert (record.count, record.messages, record.remote) == (40, [], True)
        assert wrapper(dump(path), session_id)["session"]["messagesLoaded"] is False
    assert dump(path)["messages"] == []


def test_sessions_without_messages_or_count_move(path: Path) -> None:
    store = OlderStore(path)
    store.add("session-1", session("session-1"))
    uncounted = session("session-2", transcript(2, 2))
    del uncounted["session"]["messageCount"]
    store.add("session-2", uncounted)
    bare = session("session-3")
    del bare["session"]["messages"]
    store.add("session-3", bare)
    store.add("session-4", session("session-4", session={"messageCount": 40}))
    store.close()
    registry = migrate(path)
    assert {key: record.count for key, record in registry.sessions.items()} == {
        "session-1": 0,
        "session-2": 2,
        "session-3": 0,
        "session-4": 40,
    }
    assert registry.quarantined == set()
    assert wrapper(dump(path), "session-1")["session"]["messagesLoaded"] is True


@pytest.mark.parametrize(
    "metadata",
    [{"nextProjectNumber": "x"}, {"projects": None}, {"preferences": {"remotes": []}}],
    ids=["counter", "projects", "remotes"],
)
def test_metadata_that_no_start_can_use_leaves_the_file_as_it_was(path: Path, metadata: Json) -> None:
    OlderStore(path, metadata=metadata).close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="metadata"):
        open_store(path, durability="normal")
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_tables_of_other_owners_are_not_touched_by_the_migration(path: Path) -> None:
    store = OlderStore(path, schema=FIRST_TABLES + OTHER_TABLES)
    store.add("session-1", session("session-1", transcript(1, 100)))
    store.close()
    names = ("board_cards", "mailboxes", "mailbox_messages")
    before = dump(path)
    migrate(path)
    after = dump(path)
    assert {name: after[name] for name in names} == {name: before[name] for name in names}
    assert [row for row in after["schema"] if row[2] in names] == [row for row in before["schema"] if row[2] in names]


def test_a_long_migration_says_again_and_again_that_it_goes_on(path: Path) -> None:
    first_store(path, 3, 640)
    steps: list[None] = []
    open_store(path, durability="normal", going_on=lambda: steps.append(None))
    assert len(steps) >= 3 * (1 + 640 // 64)


def test_the_supervisor_is_asked_to_wait_at_once_and_then_each_second() -> None:
    now, asked = [0.0], []
    patience = Patience(lambda seconds, why: asked.append((now[0], seconds, why)), "x", clock=lambda: now[0])
    for now[0] in (0.0, 0.1, 0.9, 1.0, 1.5, 30.0, 30.2):
        patience.ask()
    assert asked == [(at, EXTENSION_S, "x") for at in (0.0, 1.0, 30.0)]
