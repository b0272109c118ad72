"""The rows of a session that is being imported: hidden until it is complete, removed in slices when it never is.

Such a session has its row from the start, for its messages refer to it, but the row is none that a load takes.
"""

from collections.abc import Sequence

from termal.faults import fault
from termal.rules.overview import BadOverview, spliced
from termal.store.connection import Cursorlike

REMOVED_ROWS = 256
"""A slice of a removal: other writes come in between."""
_MARK = '{"importing":true}'
_MESSAGE = (
    "INSERT INTO messages (session_id, position, message_id, value_json, overview_kind, is_user)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)

MessageRow = tuple[str, int, str, str, int, int]


def begin(connection: Cursorlike, session_id: str) -> None:
    connection.execute("INSERT INTO sessions (id, value_json) VALUES (?, ?)", (session_id, _MARK))


def append(connection: Cursorlike, session_id: str, rows: Sequence[MessageRow], overview: bytes) -> None:
    """``overview`` has one byte for each of ``rows``. Raises `ConstraintError` when they are there already."""
    connection.executemany(_MESSAGE, rows)
    stored = connection.execute("SELECT value_blob FROM session_overviews WHERE session_id = ?", (session_id,)).get
    first = rows[0][1]
    changes = dict(enumerate(overview, first))
    try:
        blob = spliced(stored or b"", changes, first + len(overview))
    except BadOverview:
        # The map is made anew from the rows at the next start.
        connection.execute("DELETE FROM session_overviews WHERE session_id = ?", (session_id,))
    else:
        connection.execute("INSERT OR REPLACE INTO session_overviews VALUES (?, ?)", (session_id, blob))
    fault("state.import_slice")


def abandoned(connection: Cursorlike, session_ids: Sequence[str]) -> list[str]:
    """Those of ``session_ids`` whose import never came to its end."""
    sql = "SELECT 1 FROM sessions WHERE id = ? AND CAST(value_json AS BLOB) = CAST(? AS BLOB)"
    return [session_id for session_id in session_ids if connection.execute(sql, (session_id, _MARK)).fetchone()]


def remove(connection: Cursorlike, session_id: str) -> bool:
    """Remove one slice of an unfinished import, its session row last. True: something is left."""
    if not abandoned(connection, [session_id]):
        return False
    last = connection.execute("SELECT max(position) FROM messages WHERE session_id = ?", (session_id,)).get
    if last is not None:
        connection.execute(
            "DELETE FROM messages WHERE session_id = ? AND position > ?", (session_id, int(last) - REMOVED_ROWS)
        )
        if int(last) >= REMOVED_ROWS:
            return True
    connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    return False
