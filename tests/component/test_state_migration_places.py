"""Files of the second schema version from older builds: columns, maps, prompt histories and delegations they lack."""

import json
from pathlib import Path
from typing import Any

import pytest

from termal.log import Log
from termal.rules.overview import byte_of
from tests.support.older_store import OTHER_TABLES, Json, OlderStore, dump, message, query, session, transcript
from tests.support.state_worker import StateWorker
from workers.state.load import load
from workers.state.registry import Registry
from workers.state.rows import decode_message
from workers.state.store_schema import open_store

OLD_COLUMNS = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE app_state (key TEXT PRIMARY KEY, value_json TEXT NOT NULL);
CREATE TABLE sessions (id TEXT PRIMARY KEY, value_json TEXT NOT NULL);
CREATE TABLE messages (
  session_id TEXT NOT NULL,
  position INTEGER NOT NULL CHECK(position >= 0),
  message_id TEXT NOT NULL,
  value_json TEXT NOT NULL,
  PRIMARY KEY(session_id, position),
  UNIQUE(session_id, message_id),
  FOREIGN KEY(session_id) REFERENCES sessions(id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE delegations (id TEXT PRIMARY KEY, value_json TEXT NOT NULL);
INSERT INTO meta VALUES ('schema_version', '2');
"""


@pytest.fixture
def path(home_dir: Path) -> Path:
    home_dir.mkdir(mode=0o700)
    return home_dir / "termal.sqlite"


def add(store: OlderStore, session_id: str, messages: list[Any], **values: Any) -> None:
    """A session of the second version with its message rows."""
    row = session(session_id, session={"messageCount": len(messages), **values.pop("session", {})}, **values)
    store.add(session_id, row)
    for position, known in enumerate(messages):
        text = json.dumps(known) if isinstance(known, dict) else known
        identity = known["id"] if isinstance(known, dict) else f"bad-{position}"
        store.run(
            "INSERT INTO messages (session_id, position, message_id, value_json) VALUES (?, ?, ?, ?)",
            session_id,
            position,
            identity,
            text,
        )


def opened(path: Path) -> Registry:
    log = Log("state", path.parent / "log")
    open_store(path, durability="normal", log=log)
    registry = load(path, log, fresh=False)
    log.close()
    return registry


@pytest.mark.case("S88")
def test_missing_overview_columns_are_added_and_filled(path: Path) -> None:
    store = OlderStore(path, schema=OLD_COLUMNS)
    for number in (1, 2):
        add(store, f"session-{number}", transcript(number, 600))
    store.close()
    opened(path)
    rows = query(path, "SELECT session_id, value_json, overview_kind, is_user FROM messages")
    assert len(rows) == 1200
    for _, value, kind, is_user in rows:
        assert byte_of(decode_message(value)) == kind | is_user << 2
    for number in (1, 2):
        expected = bytes(kind | user << 2 for owner, _, kind, user in rows if owner == f"session-{number}")
        assert query(path, "SELECT value_blob FROM session_overviews WHERE session_id = ?", f"session-{number}") == [
            (expected,)
        ]
    before = dump(path)
    opened(path)
    assert dump(path) == before


def test_one_missing_column_is_enough_and_an_unreadable_message_counts_as_text(path: Path) -> None:
    store = OlderStore(path, schema=OLD_COLUMNS + "ALTER TABLE messages ADD overview_kind INTEGER NOT NULL DEFAULT 0;")
    add(store, "session-1", [message(8), "{ not json", message(7)])
    store.close()
    registry = opened(path)
    assert query(path, "SELECT overview_kind, is_user FROM messages") == [(1, 0), (0, 0), (0, 1)]
    assert registry.quarantined == {"session-1"}


def test_a_missing_map_is_not_made_over_a_hole_for_a_proxy_or_for_a_row_that_is_set_aside(path: Path) -> None:
    store = OlderStore(path, schema=OLD_COLUMNS)
    for number in range(1, 6):
        add(store, f"session-{number}", transcript(number, 100))
    add(store, "session-6", transcript(6, 3), session={"remoteId": "h"}, remoteId="h", remoteSessionId="session-1")
    store.run("DELETE FROM messages WHERE session_id = 'session-2' AND position = 5")
    store.run("UPDATE sessions SET value_json = '{' WHERE id = 'session-3'")
    store.close()
    open_store(path, durability="normal")
    connection = OlderStore.reopen(path)
    connection.run("UPDATE messages SET overview_kind = 9 WHERE session_id = 'session-4'")
    connection.run("DELETE FROM session_overviews WHERE session_id IN ('session-4', 'session-5')")
    connection.close()
    registry = opened(path)
    assert query(path, "SELECT session_id FROM session_overviews ORDER BY 1") == [("session-1",), ("session-5",)]
    assert registry.quarantined == {"session-3"}
    assert '"event":"upgrade.no_overview","sessionId":"session-2"' in (path.parent / "log").read_text()


@pytest.mark.case("S89")
def test_an_embedded_prompt_history_moves_to_its_table(path: Path) -> None:
    history = [f"prompt {number}" for number in range(70)]
    store = OlderStore(path, schema=OLD_COLUMNS)
    add(store, "session-1", transcript(1, 64), session={"promptHistory": history})
    add(store, "session-2", transcript(2, 3))
    store.close()
    registry = opened(path)
    [(owner, stored)] = query(path, "SELECT session_id, value_json FROM session_prompt_histories")
    assert (owner, json.loads(stored)) == ("session-1", history[-64:])
    [(row,)] = query(path, "SELECT value_json FROM sessions WHERE id = 'session-1'")
    assert "promptHistory" not in json.loads(row)["session"]
    assert json.loads(row)["futureKey"] == "kept"
    assert query(path, "SELECT value FROM meta WHERE key = 'prompt_history_storage_version'") == [("1",)]
    assert registry.sessions["session-1"].history == history[-64:]
    before = dump(path)
    opened(path)
    assert dump(path) == before


def test_a_history_embedded_in_a_file_of_the_first_version_wins_over_its_transcript(path: Path) -> None:
    store = OlderStore(path)
    store.add("session-1", session("session-1", transcript(1, 30), session={"promptHistory": ["mine"]}))
    store.close()
    assert opened(path).sessions["session-1"].history == ["mine"]


def test_a_row_that_is_set_aside_keeps_its_embedded_history(path: Path) -> None:
    store = OlderStore(path, schema=OLD_COLUMNS)
    store.add("session-1", session("session-1", session={"promptHistory": ["a", 5]}))
    store.add("session-2", session("session-2", session={"promptHistory": ["a"], "projectId": "project-9"}))
    store.close()
    before = dump(path)["sessions"]
    registry = opened(path)
    assert dump(path)["sessions"] == before
    assert registry.quarantined == {"session-1", "session-2"}


def delegation(number: int) -> Json:
    return {
        "id": f"delegation-{number}",
        "parentSessionId": "session-1",
        "childSessionId": "session-2",
        "status": "completed",
        "other": [1, {"a": None}],
    }


@pytest.mark.case("S117")
def test_delegations_in_the_metadata_become_rows_once(path: Path) -> None:
    records = [delegation(number) for number in (3, 1, 2)]
    OlderStore(path, schema=OLD_COLUMNS, metadata={"delegations": records, "futureKey": 5}).close()
    assert sorted(opened(path).delegations) == ["delegation-1", "delegation-2", "delegation-3"]
    rows = query(path, "SELECT id, value_json FROM delegations ORDER BY rowid")
    assert [(row_id, json.loads(value)) for row_id, value in rows] == [(known["id"], known) for known in records]
    [(metadata,)] = query(path, "SELECT value_json FROM app_state")
    assert "delegations" not in json.loads(metadata)
    assert json.loads(metadata)["futureKey"] == 5
    changer = OlderStore.reopen(path)
    changer.run("DELETE FROM delegations WHERE id = 'delegation-1'")
    changer.close()
    before = dump(path)
    assert sorted(opened(path).delegations) == ["delegation-2", "delegation-3"]
    assert dump(path) == before


def test_a_delegation_without_an_id_of_its_own_is_kept_and_set_aside(path: Path) -> None:
    records = [delegation(1), {"status": "running"}, delegation(1), 5]
    OlderStore(path, schema=OLD_COLUMNS, metadata={"delegations": records}).close()
    registry = opened(path)
    values = [json.loads(value) for (value,) in query(path, "SELECT value_json FROM delegations ORDER BY rowid")]
    assert values == records
    assert (list(registry.delegations), len(registry.quarantined)) == (["delegation-1"], 3)


def test_rows_win_over_delegations_in_the_metadata(path: Path) -> None:
    store = OlderStore(path, schema=OLD_COLUMNS, metadata={"delegations": [delegation(1)]})
    store.run("INSERT INTO delegations VALUES ('delegation-2', ?)", json.dumps(delegation(2)))
    store.close()
    assert list(opened(path).delegations) == ["delegation-2"]


@pytest.mark.case("S118")
def test_mailbox_and_board_tables_of_an_older_build_are_left_alone(state: StateWorker) -> None:
    store = OlderStore(state.home.termal_db, schema=OLD_COLUMNS + OTHER_TABLES)
    add(store, "session-1", transcript(1, 3))
    store.close()
    names = ("board_cards", "mailboxes", "mailbox_messages")
    before = dump(state.home.termal_db)
    state.start()
    runtime = state.runtime()
    state.send("session-1", "hello")
    runtime.end(runtime.turn(0))
    state.kill_session(state.create())
    state.stop()
    after = dump(state.home.termal_db)
    assert {name: after[name] for name in names} == {name: before[name] for name in names}
    assert [row for row in after["schema"] if row[2] in names] == [row for row in before["schema"] if row[2] in names]
    assert len(after["messages"]) > len(before["messages"])


def test_a_file_with_nothing_missing_is_opened_without_a_write(path: Path) -> None:
    store = OlderStore(path, schema=OLD_COLUMNS)
    add(store, "session-1", transcript(1, 100))
    store.close()
    opened(path)
    before = path.read_bytes()
    opened(path)
    assert path.read_bytes() == before
