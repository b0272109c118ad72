"""A `termal.sqlite` of the time when mailboxes and boards were kept in it, written by the test."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from termal.home import find_home, prepare
from termal.store.connection import Cursorlike, open_writer
from workers.state.store_schema import open_store

_MESSAGES = """
CREATE TABLE mailbox_messages (
  id TEXT PRIMARY KEY, mailbox_id TEXT NOT NULL, sequence INTEGER NOT NULL, sender_session_id TEXT NOT NULL,
  sender_name TEXT NOT NULL, target_session_id TEXT NOT NULL, target_name TEXT NOT NULL, created_at TEXT NOT NULL,
  class TEXT NOT NULL, topic TEXT, state_stamp TEXT, body TEXT NOT NULL, idempotency_key TEXT NOT NULL,
  unread_depth_at_append INTEGER NOT NULL, notification_disposition TEXT NOT NULL{outcome}
)"""
_HEAD = """
  scope_id TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, generation INTEGER NOT NULL, value_json TEXT,
  author_session_id TEXT NOT NULL, author_name TEXT NOT NULL, updated_at TEXT NOT NULL, state_stamp TEXT"""
_TABLES = {
    # No type on the second: what a build wrote there as text stays text.
    "mailboxes": "CREATE TABLE mailboxes (id TEXT PRIMARY KEY, participant_key TEXT, created_at TEXT, next_sequence)",
    "mailbox_participants": "CREATE TABLE mailbox_participants (mailbox_id TEXT, session_id TEXT, display_name TEXT,"
    " joined_at TEXT, processed_through INTEGER NOT NULL DEFAULT 0, left_at TEXT,"
    " PRIMARY KEY (mailbox_id, session_id))",
    "coordination_board_scopes": "CREATE TABLE coordination_board_scopes (scope_id TEXT PRIMARY KEY,"
    " generation INTEGER NOT NULL DEFAULT 0)",
    "coordination_board_entries": f"CREATE TABLE coordination_board_entries ({_HEAD}, PRIMARY KEY (scope_id, key))",
    "coordination_board_history": f"CREATE TABLE coordination_board_history ({_HEAD},"
    " PRIMARY KEY (scope_id, key, revision))",
    "coordination_board_idempotency": "CREATE TABLE coordination_board_idempotency (scope_id TEXT NOT NULL,"
    " author_session_id TEXT NOT NULL, idempotency_key TEXT NOT NULL, request_hash TEXT NOT NULL,"
    " receipt_json TEXT NOT NULL, created_at TEXT NOT NULL,"
    " PRIMARY KEY (scope_id, author_session_id, idempotency_key))",
    "coordination_board_deleted_scopes": "CREATE TABLE coordination_board_deleted_scopes"
    " (scope_id TEXT PRIMARY KEY, deleted_at TEXT NOT NULL)",
}
ALL = ("mailbox_messages", *_TABLES)


@contextmanager
def legacy_store(home_dir: Path, *, tables: Sequence[str] = ALL, outcomes: bool = True) -> Iterator[Cursorlike]:
    """The file with ``tables`` in it, open for the block, in one transaction. ``outcomes``: receipts are recorded."""
    home = find_home(str(home_dir))
    prepare(home)
    open_store(home.termal_db, durability="normal")
    connection = open_writer(home.termal_db, durability="normal")
    try:
        with connection:
            for table in tables:
                messages = _MESSAGES.format(outcome=", dispatch_outcome TEXT" if outcomes else "")
                connection.execute(_TABLES.get(table, messages))
            yield connection
    finally:
        connection.close()
