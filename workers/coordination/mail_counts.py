"""How much mail is unread: counted once, then only what came or was read since. Never a count of a whole mailbox twice.

Messages never change and cursors only go forward, so a count of committed rows stays true for its place. Any thread may
use it; what one thread keeps is true for all.
"""

# ruff: noqa: S608 - the query is made of constants

from collections.abc import Callable
from typing import NamedTuple

from termal.store.connection import Cursorlike
from workers.coordination.schema import IS_MAIL

_KEPT = 100_000
_COUNT = (
    "SELECT count(*) FROM mailbox_messages WHERE target_session_id = ? AND mailbox_id = ?"
    f" AND sequence > ? AND sequence <= ? AND {IS_MAIL}"
)


Place = tuple[str, str]
"""A mailbox, and one of its participants."""


class _Count(NamedTuple):
    cursor: int
    through: int
    unread: int


def count_between(connection: Cursorlike, place: Place, after: int, through: int) -> int:
    """Mail to the participant with a sequence above ``after``, up to ``through``."""
    if through <= after:
        return 0
    mailbox_id, session_id = place
    arguments = (session_id, mailbox_id, after, through)
    count: int = connection.execute(_COUNT, arguments).get
    return count


class UnreadCounts:
    def __init__(self) -> None:
        self._known: dict[Place, _Count] = {}

    def unread(self, connection: Cursorlike, place: Place, cursor: int, through: int, *, keep: bool) -> int:
        """Mail above ``cursor`` up to the last sequence ``through``. ``keep`` only where all of it is committed."""
        known = self._known.get(place)
        if known is None or known.cursor > cursor or known.through > through:
            # Nothing is known, or this snapshot is older than what is.
            unread = count_between(connection, place, cursor, through)
        else:
            unread = count_above(connection, place, cursor, known[:2], lambda: known.unread)
            unread += count_between(connection, place, max(cursor, known.through), through)
        if keep:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[place] = _Count(cursor, through, unread)
        return unread


def count_above(
    connection: Cursorlike, place: Place, cursor: int, known: tuple[int, int], unread: Callable[[], int]
) -> int:
    """Mail above ``cursor`` up to the end of what is ``known``: an earlier cursor, and up to where ``unread`` counts.

    The shorter of the two sides of ``cursor`` is counted; ``unread`` is called only where that needs it.
    """
    earlier, through = known
    if cursor >= through:
        return 0
    if cursor - earlier <= through - cursor:
        return unread() - count_between(connection, place, earlier, cursor)
    return count_between(connection, place, cursor, through)
