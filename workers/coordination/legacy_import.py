"""The copy of mailboxes and boards out of `termal.sqlite`, where builds before the second file kept them.

It runs inside the transaction of its caller and never writes to the file that it reads.
"""

from typing import NamedTuple

from termal.faults import fault
from termal.store.connection import BROKEN, ConstraintError, Cursorlike, SchemaError
from workers.coordination.legacy_checks import differences
from workers.coordination.outcomes import has_outcome, outcome_of_row
from workers.coordination.schema import BOARD_TABLES, DATA_TABLES, FENCE_TABLE, MAILBOX_TABLES, read_meta, write_meta

MARKER = "legacy_coordination_import_v1"
NOTHING = "no-legacy-state"
"""The mark of a file that was new together with its `termal.sqlite`. Otherwise it is the path of that file."""
LEGACY = "legacy"
"""The name under which the old file is attached."""

_HEAD = "scope_id, key, revision, generation, value_json, author_session_id, author_name, updated_at, state_stamp"
_COLUMNS = {
    "mailboxes": "id, participant_key, created_at, next_sequence",
    "mailbox_participants": "mailbox_id, session_id, display_name, joined_at, processed_through, left_at",
    "mailbox_messages": "id, mailbox_id, sequence, sender_session_id, sender_name, target_session_id, target_name,"
    " created_at, class, topic, state_stamp, idempotency_key, unread_depth_at_append, notification_disposition, body",
    "coordination_board_scopes": "scope_id, generation",
    "coordination_board_entries": _HEAD,
    "coordination_board_history": _HEAD,
    "coordination_board_idempotency": "scope_id, author_session_id, idempotency_key, request_hash, receipt_json,"
    " created_at",
    FENCE_TABLE: "scope_id, deleted_at",
}


class ImportRefused(Exception):
    """The old rows cannot be taken over as they are; the text says why."""


class Copied(NamedTuple):
    """``tables``: the old tables that were there, parents first. ``rows``: how many came over."""

    tables: tuple[str, ...]
    rows: int


def is_marked(connection: Cursorlike) -> bool:
    return read_meta(connection, MARKER) is not None


def require_empty(connection: Cursorlike) -> None:
    """Raises `ImportRefused` when somebody has worked with this file already: two histories are never merged."""
    for table in DATA_TABLES:
        if connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").get:  # noqa: S608 - a table of ours
            raise ImportRefused(f"it has rows in {table} and no mark of a finished import")


def import_legacy(connection: Cursorlike, path: str) -> Copied:
    """Copy from the attached file ``path``, verify, and mark; all of it is in the caller's transaction.

    Raises `ImportRefused`, after which the caller rolls back.
    """
    try:
        return _import(connection, path)
    except ConstraintError as error:
        raise ImportRefused(f"a row breaks a rule of its table ({error})") from error
    except SchemaError as error:
        raise ImportRefused(f"its tables are not those that are known ({error})") from error
    except BROKEN as error:
        raise ImportRefused(f"a part of it is damaged ({error})") from error


def mark_fresh(connection: Cursorlike) -> None:
    """There was nothing to take over."""
    require_empty(connection)
    write_meta(connection, MARKER, NOTHING)


def _import(connection: Cursorlike, path: str) -> Copied:
    tables = _tables(connection)
    if not tables:
        mark_fresh(connection)
        return Copied((), 0)
    require_empty(connection)
    _refuse_parts(tables)
    _refuse_damage(connection, tables)
    rows = 0
    for table in tables:
        fault("coordination.import_step")
        connection.execute(_copy(connection, table))
        rows += connection.changes()
    fault("coordination.import_step")
    different = differences(connection, tables, LEGACY)
    if different:
        raise ImportRefused(f"what was copied differs from it in: {', '.join(different)}")
    fault("coordination.import_step")
    write_meta(connection, MARKER, path)
    return Copied(tables, rows)


def _tables(connection: Cursorlike) -> tuple[str, ...]:
    found = connection.execute("SELECT name FROM legacy.sqlite_schema WHERE type = 'table'").fetchall()
    return tuple(table for table in DATA_TABLES if (table,) in found)


def _refuse_parts(tables: tuple[str, ...]) -> None:
    for group in (MAILBOX_TABLES, BOARD_TABLES):
        missing = [table for table in group if table not in tables]
        some = len(missing) < len(group) or (group is BOARD_TABLES and FENCE_TABLE in tables)
        if missing and some:
            raise ImportRefused(f"of its tables these are missing: {', '.join(missing)}")


def _refuse_damage(connection: Cursorlike, tables: tuple[str, ...]) -> None:
    """Rows that damage has hidden would be missing on both sides of every later comparison."""
    for table in tables:
        found = connection.execute(f"PRAGMA {LEGACY}.quick_check({table})").fetchall()
        if found != [("ok",)]:
            raise ImportRefused(f"a part of it is damaged: {str(found[0][0]).splitlines()[-1]}")


def _copy(connection: Cursorlike, table: str) -> str:
    """The statement. Plain, so that a row that collides with another fails instead of hiding it."""
    columns = values = _COLUMNS[table]
    order = ""
    if table == "mailbox_messages":
        columns += ", dispatch_outcome"
        values += ", " + outcome_of_row(has_column=has_outcome(connection, LEGACY))
    elif table == "coordination_board_idempotency":
        # Receipts age out in the order of their insertion.
        order = " ORDER BY rowid"
    return f"INSERT INTO main.{table} ({columns}) SELECT {values} FROM {LEGACY}.{table}{order}"  # noqa: S608
