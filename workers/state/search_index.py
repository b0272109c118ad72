"""The full-text index inside `termal.sqlite`: its tables, one slice of the work on it, and the look-up.

A commit that changes a message only marks it, in plain tables by triggers; the index follows in slices of its own. So
a write costs the same however long a message is, and a damaged index can neither fail a write nor lose a message.
"""

from collections.abc import Set as AbstractSet
from typing import Any, Literal, NamedTuple

import msgspec

from termal.faults import fault
from termal.model.ids import message_number
from termal.model.message import Message
from termal.rules.search_query import scope_of
from termal.rules.search_text import search_text
from termal.store.connection import Cursorlike

SLICE_ROWS = 64
SLICE_BYTES = 48 << 10
"""A slice holds up the writer for a few milliseconds; only one long message by itself may take longer."""
FORGET_ROWS = 256

_INDEX = """
CREATE VIRTUAL TABLE IF NOT EXISTS search_index USING fts5(
  session, body, content='', contentless_delete=1, tokenize="unicode61 remove_diacritics 2"
);
"""
_TABLES = """
CREATE TABLE IF NOT EXISTS search_documents (
  id INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,
  position INTEGER NOT NULL,
  UNIQUE(session_id, position),
  FOREIGN KEY(session_id, position) REFERENCES messages(session_id, position) ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE TABLE IF NOT EXISTS search_marked (
  session_id TEXT NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY(session_id, position),
  FOREIGN KEY(session_id, position) REFERENCES messages(session_id, position) ON DELETE CASCADE ON UPDATE CASCADE
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS search_forgotten (id INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS search_progress (
  id INTEGER PRIMARY KEY CHECK(id = 1),
  session_id TEXT,
  position INTEGER NOT NULL
);
CREATE TRIGGER IF NOT EXISTS search_message_added AFTER INSERT ON messages BEGIN
  INSERT INTO search_marked SELECT new.session_id, new.position WHERE NOT EXISTS
    (SELECT 1 FROM search_marked WHERE session_id = new.session_id AND position = new.position);
END;
CREATE TRIGGER IF NOT EXISTS search_message_changed AFTER UPDATE OF value_json ON messages
WHEN new.value_json IS NOT old.value_json BEGIN
  INSERT INTO search_marked SELECT new.session_id, new.position WHERE NOT EXISTS
    (SELECT 1 FROM search_marked WHERE session_id = new.session_id AND position = new.position);
END;
CREATE TRIGGER IF NOT EXISTS search_document_removed AFTER DELETE ON search_documents BEGIN
  INSERT INTO search_forgotten SELECT old.id WHERE NOT EXISTS (SELECT 1 FROM search_forgotten WHERE id = old.id);
END;
INSERT INTO search_progress (id, session_id, position)
  SELECT 1, NULL, 0 WHERE NOT EXISTS (SELECT 1 FROM search_progress) AND NOT EXISTS (SELECT 1 FROM messages);
"""
"""``search_progress``: how far the messages from before these tables are indexed; its session is NULL at the end."""

_decode_message = msgspec.json.Decoder(Message).decode
_END = (1 << 63) - 1

Left = Literal["nothing", "older", "marked"]
"""What a slice leaves to do: nothing, at most messages from before the index, or messages that were changed since."""
Row = tuple[str, int, str, bytes]
"""A stored message: session, position, message id, JSON."""


class Place(NamedTuple):
    """A hit and the message there."""

    document: int
    session_id: str
    position: int
    message: Message


class Found(NamedTuple):
    places: list[Place]
    more: bool
    complete: bool


def make_tables(connection: Cursorlike) -> None:
    """What is missing of them; nothing is read of the messages that are there."""
    connection.execute(_TABLES)
    connection.execute(_INDEX)


# ---------------------------------------------------------------------------------- the writer's side


def advance(connection: Cursorlike) -> Left:
    """Bring the index forward by one slice, what was changed last first. Raises `StoreError` for a damaged index."""
    left = _advance(connection)
    # By itself the index writes at COMMIT, where a damage in it would fail the commit of everybody.
    connection.execute("INSERT INTO search_index (search_index) VALUES ('flush')")
    fault("state.index_slice")
    return left


def _advance(connection: Cursorlike) -> Left:
    more = _forget(connection)
    rows = _slice(
        connection,
        "SELECT m.session_id, m.position, m.message_id, CAST(m.value_json AS BLOB) FROM search_marked AS s"
        " CROSS JOIN messages AS m ON m.session_id = s.session_id AND m.position = s.position LIMIT ?",
        (SLICE_ROWS,),
    )
    if not rows:
        return "older" if _walk(connection) or more else "nothing"
    for row in rows:
        _index(connection, row)
        connection.execute("DELETE FROM search_marked WHERE session_id = ? AND position = ?", row[:2])
    return "marked" if connection.execute("SELECT EXISTS (SELECT 1 FROM search_marked)").get else "older"


def rebuild(connection: Cursorlike) -> None:
    """Throw the index away: every message is indexed again, slice by slice."""
    connection.execute("DROP TABLE IF EXISTS search_index").fetchall()
    connection.execute(_INDEX).fetchall()
    connection.execute("DELETE FROM search_forgotten")
    connection.execute("DELETE FROM search_progress")


def _forget(connection: Cursorlike) -> bool:
    gone = connection.execute("SELECT id FROM search_forgotten LIMIT ?", (FORGET_ROWS,)).fetchall()
    for one in gone:
        connection.execute("DELETE FROM search_index WHERE rowid = ?", one)
        connection.execute("DELETE FROM search_forgotten WHERE id = ?", one)
    return len(gone) == FORGET_ROWS


def _walk(connection: Cursorlike) -> bool:
    progress = connection.execute("SELECT session_id, position FROM search_progress").fetchone()
    session_id, position = progress or ("", -1)
    if session_id is None:
        return False
    rows = _slice(
        connection,
        "SELECT session_id, position, message_id, CAST(value_json AS BLOB) FROM messages"
        " WHERE (session_id, position) > (?, ?) ORDER BY session_id, position LIMIT ?",
        (session_id, position, SLICE_ROWS),
    )
    for row in rows:
        _index(connection, row)
    end: tuple[str | None, int] = rows[-1][:2] if rows else (None, 0)
    connection.execute("INSERT OR REPLACE INTO search_progress (id, session_id, position) VALUES (1, ?, ?)", end)
    return bool(rows)


def _slice(connection: Cursorlike, sql: str, parameters: tuple[Any, ...]) -> list[Row]:
    cursor = connection.execute(sql, parameters)
    rows: list[Row] = []
    size_bytes = 0
    for row in cursor:
        rows.append(row)
        size_bytes += len(row[3])
        if size_bytes >= SLICE_BYTES:
            break
    cursor.close()
    return rows


def _index(connection: Cursorlike, row: Row) -> None:
    session_id, position, message_id, text = row
    try:
        body = search_text(_decode_message(text))
    except (msgspec.MsgspecError, TypeError, ValueError):
        # A damaged row stays as it is, and is found by nobody.
        body = ""
    document = _document(connection, session_id, position, message_id)
    connection.execute(
        "INSERT OR REPLACE INTO search_index (rowid, session, body) VALUES (?, ?, ?)",
        (document, scope_of(session_id), body),
    )


def _document(connection: Cursorlike, session_id: str, position: int, message_id: str) -> int:
    """The number of a message in the index: that of its id, so that a higher number is a newer message."""
    row = connection.execute(
        "SELECT id FROM search_documents WHERE session_id = ? AND position = ?", (session_id, position)
    ).fetchone()
    if row is not None:
        return int(row[0])
    number = message_number(message_id)
    taken = "SELECT 1 FROM search_documents WHERE id = ?"
    if not number or connection.execute(taken, (number,)).fetchone():
        # An id that was not made here, or one that two sessions have: older than all others.
        number = min(int(connection.execute("SELECT min(id) FROM search_documents").get or 0), 0) - 1
    connection.execute("INSERT INTO search_documents VALUES (?, ?, ?)", (number, session_id, position))
    # The index's row of a message that is gone is overwritten, and must not be deleted afterwards.
    connection.execute("DELETE FROM search_forgotten WHERE id = ?", (number,))
    return number


# ---------------------------------------------------------------------------------- the reader's side


def find(connection: Cursorlike, match: str, before: int | None, limit: int, visible: AbstractSet[str]) -> Found:
    """The newest messages that match, older than the document ``before``, of the sessions in ``visible``."""
    cursor = connection.execute(
        "SELECT d.id, m.session_id, m.position, m.message_id, CAST(m.value_json AS BLOB) FROM search_index AS s"
        " CROSS JOIN search_documents AS d ON d.id = s.rowid"
        " CROSS JOIN messages AS m ON m.session_id = d.session_id AND m.position = d.position"
        " WHERE s.search_index MATCH ? AND s.rowid < ? ORDER BY s.rowid DESC",
        (match, _END if before is None else before),
    )
    places: list[Place] = []
    more = False
    for document, session_id, position, message_id, text in cursor:
        if session_id not in visible:
            continue
        if len(places) == limit:
            more = True
            break
        message = _decoded(text)
        if message is not None and message.id == message_id:
            places.append(Place(document, session_id, position, message))
    cursor.close()
    return Found(places, more, _complete(connection))


def _decoded(text: Any) -> Message | None:
    try:
        message: Message = _decode_message(text)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None
    return message


def _complete(connection: Cursorlike) -> bool:
    return bool(
        connection.execute(
            "SELECT NOT EXISTS (SELECT 1 FROM search_marked)"
            " AND EXISTS (SELECT 1 FROM search_progress WHERE session_id IS NULL)"
        ).get
    )
