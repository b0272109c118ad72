"""The tables of `termal.sqlite`, the empty store of a first start, and which stored versions this build opens."""

from pathlib import Path
from typing import Any

from termal.model.stored import fresh_metadata
from termal.rules.overview import USER_BIT
from termal.store.connection import Cursorlike, Durability
from termal.store.files import StoreRefused
from termal.store.migration import Migrations, Version
from termal.wire.codec import encode_json

METADATA_KEY = "metadataState"
HISTORY_VERSION_KEY = "prompt_history_storage_version"
HISTORY_VERSION = "1"

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS app_state (key TEXT PRIMARY KEY, value_json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, value_json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS messages (
  session_id TEXT NOT NULL,
  position INTEGER NOT NULL CHECK(position >= 0),
  message_id TEXT NOT NULL,
  value_json TEXT NOT NULL,
  overview_kind INTEGER NOT NULL DEFAULT 0,
  is_user INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(session_id, position),
  UNIQUE(session_id, message_id),
  FOREIGN KEY(session_id) REFERENCES sessions(id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS session_overviews (
  session_id TEXT PRIMARY KEY,
  value_blob BLOB NOT NULL,
  FOREIGN KEY(session_id) REFERENCES sessions(id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS delegations (id TEXT PRIMARY KEY, value_json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS session_prompt_histories (
  session_id TEXT PRIMARY KEY,
  value_json TEXT NOT NULL,
  FOREIGN KEY(session_id) REFERENCES sessions(id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS delegation_audit (
  seq INTEGER PRIMARY KEY,
  parent_session_id TEXT NOT NULL,
  value_json TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS delegation_audit_by_parent ON delegation_audit(parent_session_id, seq);
"""


def open_store(path: Path, *, durability: Durability) -> str | None:
    """Make or check the file. Returns the version found, None for a fresh one.

    Raises `StoreRefused` with the file as it was, `StoreError` when the disk fails.
    """
    return MIGRATIONS.apply(path, durability=durability)


def rebuilt_overview(connection: Cursorlike, session_id: Any, count: int) -> bytes | None:
    """The overview of ``count`` messages from their rows, None when a row is missing or says something impossible."""
    rows = connection.execute(
        "SELECT position, overview_kind, is_user FROM messages WHERE session_id = ? ORDER BY position", (session_id,)
    )
    out = bytearray()
    for position, kind, is_user in rows:
        if position != len(out) or kind not in (0, 1, 2, 3):
            return None
        out.append(kind | (USER_BIT if is_user else 0))
    return bytes(out) if len(out) == count else None


def _create(connection: Cursorlike) -> None:
    connection.execute(_TABLES)


def _refuse_first_version(_: Cursorlike) -> None:
    raise StoreRefused(
        "termal.sqlite has schema version '1', which this build cannot migrate yet; the file was not changed"
    )


def _complete(connection: Cursorlike) -> None:
    _bootstrap(connection)
    connection.execute(
        "INSERT INTO meta (key, value) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM meta WHERE key = ?)",
        (HISTORY_VERSION_KEY, HISTORY_VERSION, HISTORY_VERSION_KEY),
    )
    missing = connection.execute(
        "SELECT id FROM sessions WHERE NOT EXISTS (SELECT 1 FROM session_overviews WHERE session_id = sessions.id)"
        " AND EXISTS (SELECT 1 FROM messages WHERE session_id = sessions.id)"
    ).fetchall()
    for (session_id,) in missing:
        last = connection.execute("SELECT max(position) FROM messages WHERE session_id = ?", (session_id,)).get
        overview = rebuilt_overview(connection, session_id, int(last) + 1)
        if overview is not None:
            connection.execute("INSERT INTO session_overviews VALUES (?, ?)", (session_id, overview))


def _bootstrap(connection: Cursorlike) -> None:
    """An empty store gets its metadata; rows without metadata are left for the load to refuse."""
    taken = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM app_state) OR EXISTS (SELECT 1 FROM sessions)"
        " OR EXISTS (SELECT 1 FROM delegations) OR EXISTS (SELECT 1 FROM messages)"
    ).get
    if not taken:
        connection.execute(
            "INSERT INTO app_state (key, value_json) VALUES (?, ?)",
            (METADATA_KEY, encode_json(fresh_metadata()).decode()),
        )


MIGRATIONS = Migrations(Version("1"), Version("2", _refuse_first_version), create=_create, complete=_complete)
SCHEMA_VERSION = MIGRATIONS.current
