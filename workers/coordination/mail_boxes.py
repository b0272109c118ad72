"""What the one writer of mail remembers of mailboxes between its jobs: the row, the cursors, what is unread.

A memory of uncommitted work is a lie after a failure: `Boxes.forget` then drops all of it, and it is read again.
"""

from termal.rules.mail import mailbox_key
from termal.store.connection import Cursorlike
from workers.coordination.mail_counts import UnreadCounts, count_above

_KEPT = 20_000


class Side:
    """One participant. ``unread`` is None until it is needed."""

    __slots__ = ("cursor", "left_at", "name", "session_id", "unread")

    def __init__(self, session_id: str, name: str, cursor: int, left_at: str | None) -> None:
        self.session_id = session_id
        self.name = name
        self.cursor = cursor
        self.left_at = left_at
        self.unread: int | None = None


class Box:
    """One mailbox; ``last`` is its last sequence."""

    __slots__ = ("id", "last", "pair", "sides")

    def __init__(self, mailbox_id: str, pair: tuple[str, str], last: int) -> None:
        self.id = mailbox_id
        self.pair = pair
        self.last = last
        self.sides: dict[str, Side] = {}


class Boxes:
    """Used on the writer's thread alone, inside its jobs."""

    def __init__(self, counts: UnreadCounts) -> None:
        self._counts = counts
        self._by_pair: dict[tuple[str, str], Box] = {}
        self._by_id: dict[str, Box] = {}

    def forget(self) -> None:
        """After a rollback, and in every job that changes participants or cursors by statements of its own."""
        self._by_pair.clear()
        self._by_id.clear()

    def between(self, connection: Cursorlike, one: str, other: str) -> Box | None:
        """The mailbox of a pair, None when they have none yet."""
        pair = (one, other) if one < other else (other, one)
        box = self._by_pair.get(pair)
        if box is None:
            row = connection.execute(
                "SELECT id, next_sequence FROM mailboxes WHERE participant_key = ?", (mailbox_key(one, other),)
            ).fetchone()
            if row is not None:
                box = self._load(connection, row[0], pair, row[1] - 1)
        return box

    def of(self, connection: Cursorlike, mailbox_id: str) -> Box | None:
        box = self._by_id.get(mailbox_id)
        if box is None:
            row = connection.execute("SELECT next_sequence FROM mailboxes WHERE id = ?", (mailbox_id,)).fetchone()
            if row is not None:
                box = self._load(connection, mailbox_id, None, row[0] - 1)
        return box

    def add(self, box: Box) -> None:
        if len(self._by_id) >= _KEPT:
            self.forget()
        self._by_pair[box.pair] = self._by_id[box.id] = box

    def unread(self, connection: Cursorlike, box: Box, side: Side) -> int:
        """What ``side`` has not read, as this transaction sees it."""
        if side.unread is None:
            place = (box.id, side.session_id)
            side.unread = self._counts.unread(connection, place, side.cursor, box.last, keep=False)
        return side.unread

    def unread_above(self, connection: Cursorlike, box: Box, side: Side, cursor: int) -> int:
        """What ``side`` has not read once its cursor has gone forward to ``cursor``."""
        place = (box.id, side.session_id)
        known = (side.cursor, box.last)
        return count_above(connection, place, cursor, known, lambda: self.unread(connection, box, side))

    def _load(self, connection: Cursorlike, mailbox_id: str, pair: tuple[str, str] | None, last: int) -> Box:
        sides = [
            Side(*row)
            for row in connection.execute(
                "SELECT session_id, display_name, processed_through, left_at FROM mailbox_participants"
                " WHERE mailbox_id = ? ORDER BY session_id",
                (mailbox_id,),
            )
        ]
        if pair is None:
            ids = sorted(side.session_id for side in sides)
            pair = (ids[0], ids[-1]) if ids else (mailbox_id, mailbox_id)
        box = Box(mailbox_id, pair, last)
        box.sides = {side.session_id: side for side in sides}
        self.add(box)
        return box
