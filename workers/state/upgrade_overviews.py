"""The overview of older files: its two columns beside each message, and the map of each session that has none.

Runs inside the transaction of an opening; where nothing is missing it changes nothing.
"""

from collections.abc import Callable, Container
from typing import Any

from termal.faults import fault
from termal.log import Log
from termal.rules.overview import USER_BIT, byte_of
from termal.store.connection import Cursorlike
from workers.state.row_checks import UNREADABLE, check_loadable, id_of, is_remote, name_of, read_session, text_of
from workers.state.rows import decode_message
from workers.state.store_schema import rebuilt_overview

ROWS = 512
"""Message rows read and written at a time."""

_PAGE = (
    "SELECT session_id, position, typeof(value_json), CAST(value_json AS BLOB) FROM messages"
    " WHERE (session_id, position) > (?, ?) ORDER BY session_id, position LIMIT ?"
)
_MISSING = (
    "SELECT rowid, typeof(id), CAST(id AS BLOB), typeof(value_json), CAST(value_json AS BLOB) FROM sessions"
    " WHERE NOT EXISTS (SELECT 1 FROM session_overviews WHERE session_id = sessions.id)"
    " AND EXISTS (SELECT 1 FROM messages WHERE session_id = sessions.id) ORDER BY rowid"
)
_FILL = "UPDATE messages SET overview_kind = ?, is_user = ? WHERE session_id = ? AND position = ?"


def fill_columns(connection: Cursorlike, going_on: Callable[[], None]) -> None:
    """Kind and author of every message into its columns; a message that cannot be read counts as text."""
    last: tuple[object, object] = ("", -1)
    while page := connection.execute(_PAGE, (*last, ROWS)).fetchall():
        fault("migration.step")
        going_on()
        changes = []
        for session_id, position, kind, value in page:
            byte = _byte(kind, value)
            if byte:
                changes.append((byte & ~USER_BIT, int(bool(byte & USER_BIT)), session_id, position))
        connection.executemany(_FILL, changes)
        last = (page[-1][0], page[-1][1])


def _byte(kind: Any, value: Any) -> int:
    try:
        return byte_of(decode_message(text_of(kind, value)))
    except UNREADABLE:
        return 0


def make_overviews(connection: Cursorlike, projects: Container[str], log: Log, going_on: Callable[[], None]) -> None:
    """The map of every session that has messages and no map, from the columns of its rows."""
    for rowid, id_kind, raw_id, kind, value in connection.execute(_MISSING).fetchall():
        going_on()
        try:
            session_id, text = id_of(id_kind, raw_id), text_of(kind, value)
            stored = read_session(session_id, text)
            check_loadable(stored, text, projects)
        except UNREADABLE:
            # Set aside by the load, which says why; nothing of it is touched.
            continue
        if is_remote(stored):
            continue
        last = connection.execute("SELECT max(position) FROM messages WHERE session_id = ?", (session_id,)).get
        overview = rebuilt_overview(connection, session_id, int(last) + 1)
        if overview is None:
            log.warning("upgrade.no_overview", sessionId=name_of(raw_id, rowid))
        else:
            fault("migration.step")
            connection.execute("INSERT INTO session_overviews VALUES (?, ?)", (session_id, overview))
