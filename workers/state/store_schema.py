"""The tables of `termal.sqlite`, the empty store of a first start, and how files of earlier builds are brought up."""

from collections.abc import Callable, Container
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from termal.log import Log
from termal.model.stored import fresh_metadata
from termal.rules.overview import USER_BIT
from termal.store.connection import Cursorlike, Durability
from termal.store.migration import Migrations, Version
from termal.wire.codec import encode_json
from workers.state.search_index import make_tables
from workers.state.stored_metadata import METADATA_KEY, metadata_text, read_metadata

__all__ = ["METADATA_KEY", "SCHEMA_VERSION", "examine_store", "open_store", "rebuilt_overview"]

SCHEMA_VERSION = "2"
FIRST_VERSION = "1"
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

_NO_OVERVIEW = (
    "SELECT EXISTS (SELECT 1 FROM sessions"
    " WHERE NOT EXISTS (SELECT 1 FROM session_overviews WHERE session_id = sessions.id)"
    " AND EXISTS (SELECT 1 FROM messages WHERE session_id = sessions.id))"
)


class _Older(msgspec.Struct):
    """Metadata of builds that kept delegations in it."""

    delegations: Raw | UnsetType = UNSET


class Upgrade(NamedTuple):
    """Who hears of an upgrade: the log of what was left alone, and whoever must know that the work goes on."""

    log: Log
    going_on: Callable[[], None]


def open_store(
    path: Path,
    *,
    durability: Durability,
    log: Log | None = None,
    going_on: Callable[[], None] = lambda: None,
) -> str | None:
    """Make, check or upgrade the file. Returns the version found, None for a fresh one.

    ``going_on`` is called at least every few milliseconds of work on an older file, which takes as long as it is large.
    Raises `StoreRefused` with the file as it was, `StoreError` when the disk fails.
    """
    return _migrations(Upgrade(log or Log("state"), going_on)).apply(path, durability=durability)


def examine_store(connection: Cursorlike, path: Path) -> str | None:
    """The version of a file that a start would take, None for an empty one. Raises `StoreRefused`."""
    version = _migrations(Upgrade(Log("state"), lambda: None)).check(connection, path)
    if version is not None:
        read_metadata(connection, path)
    return version


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


def _migrations(upgrade: Upgrade) -> Migrations:
    return Migrations(
        Version(FIRST_VERSION),
        Version(SCHEMA_VERSION, lambda connection: _second_version(connection, upgrade)),
        create=lambda connection: _create(connection, upgrade),
        complete=lambda connection: _complete(connection, upgrade),
        examine=read_metadata,
    )


def _create(connection: Cursorlike, upgrade: Upgrade) -> None:
    connection.execute(_TABLES)
    columns = {str(name) for (name,) in connection.execute("SELECT name FROM pragma_table_info('messages')")}
    missing = [column for column in ("overview_kind", "is_user") if column not in columns]
    for column in missing:
        connection.execute(f"ALTER TABLE messages ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    if missing:
        from workers.state.upgrade_overviews import fill_columns  # noqa: PLC0415 - once in the life of an old file

        fill_columns(connection, upgrade.going_on)


def _second_version(connection: Cursorlike, upgrade: Upgrade) -> None:
    from workers.state.migrate_transcripts import move_transcripts  # noqa: PLC0415 - once in the life of an old file

    move_transcripts(connection, upgrade.log, upgrade.going_on)


def _complete(connection: Cursorlike, upgrade: Upgrade) -> None:
    _bootstrap(connection)
    # Behind the upgrades: what they move is indexed in the background, like everything that was there before.
    make_tables(connection)
    if not connection.execute("SELECT EXISTS (SELECT 1 FROM delegations)").get:
        _place_delegations(connection, upgrade)
    known = connection.execute("SELECT value FROM meta WHERE key = ?", (HISTORY_VERSION_KEY,)).get
    unmapped = connection.execute(_NO_OVERVIEW).get
    if known == HISTORY_VERSION and not unmapped:
        return
    projects = _projects(connection)
    if known != HISTORY_VERSION:
        _place_histories(connection, projects, upgrade)
    if unmapped:
        from workers.state.upgrade_overviews import make_overviews  # noqa: PLC0415 - seldom

        make_overviews(connection, projects, upgrade.log, upgrade.going_on)


def _place_delegations(connection: Cursorlike, upgrade: Upgrade) -> None:
    metadata = metadata_text(connection)
    if metadata is not None and msgspec.json.decode(metadata, type=_Older).delegations is not UNSET:
        from workers.state.upgrade_places import move_delegations  # noqa: PLC0415 - once in the life of an old file

        move_delegations(connection, metadata, upgrade.log)


def _place_histories(connection: Cursorlike, projects: Container[str], upgrade: Upgrade) -> None:
    from workers.state.upgrade_places import move_prompt_histories  # noqa: PLC0415 - once in the life of an old file

    move_prompt_histories(connection, projects, upgrade.log, upgrade.going_on)
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (HISTORY_VERSION_KEY, HISTORY_VERSION))


def _projects(connection: Cursorlike) -> set[str]:
    metadata = read_metadata(connection, Path(connection.filename))
    return set() if metadata is None else {project.id for project in metadata.projects}


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
