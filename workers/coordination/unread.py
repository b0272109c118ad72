"""What is unread and of what nobody was told: read for `wake`, in snapshots, at a cost that history does not add to.

Nothing here changes a row; rows of the control topic take part in nothing.
"""

# ruff: noqa: S608 - every query is made of constants

from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from termal.model.status import MailboxCounts
from termal.store.connection import Cursorlike
from termal.wire.mail_operations import AskStale, AskUnwoken, ListUnread, Stale, Unread, UnreadPage, Unwoken
from workers.coordination.schema import IS_MAIL, NEVER_WOKEN

# Each query repeats the conditions of the index that it needs: without them SQLite does not take it.
_ABOVE = (
    f"FROM mailbox_messages AS m WHERE {IS_MAIL} AND m.target_session_id = p.session_id"
    " AND m.mailbox_id = p.mailbox_id AND m.sequence > p.processed_through"
)
_COUNT = f"(SELECT COUNT(*) {_ABOVE})"
_NEWEST = f"(SELECT MAX(m.sequence) {_ABOVE})"
_OLDEST = f"(SELECT MIN(m.sequence) {_ABOVE})"
_ROW = "m.mailbox_id, m.target_session_id, m.id, m.sequence, m.sender_session_id, m.sender_name, m.created_at"
_UNREAD = (
    f"SELECT {_ROW}, {_COUNT} FROM mailbox_participants AS p CROSS JOIN mailbox_messages AS m"
    f" ON m.mailbox_id = p.mailbox_id AND m.sequence = {_NEWEST} WHERE p.left_at IS NULL"
)
_UNREAD_OF = f"{_UNREAD} AND p.session_id = ? AND p.mailbox_id = ?"
_UNREAD_AFTER = f"{_UNREAD} AND p.session_id > ? ORDER BY p.session_id"
_UNWOKEN = (
    "FROM mailbox_messages AS m CROSS JOIN mailbox_participants AS p"
    " ON p.mailbox_id = m.mailbox_id AND p.session_id = m.target_session_id"
    f" WHERE {NEVER_WOKEN} AND {IS_MAIL}"
    " AND p.left_at IS NULL AND m.sequence > p.processed_through"
)
_NEVER = f"SELECT {_ROW}, 0 {_UNWOKEN}"
_ORDER = " ORDER BY m.target_session_id, m.mailbox_id, m.sequence DESC"
_NEVER_OF = f"{_NEVER} AND m.target_session_id = ?{_ORDER}"
_NEVER_AFTER = f"{_NEVER} AND m.target_session_id > ?{_ORDER}"
_COUNT_OF = f"SELECT {_COUNT} FROM mailbox_participants AS p WHERE p.session_id = ? AND p.mailbox_id = ?"


class Pending(Protocol):
    """The ids of messages whose first dispatch is under way (a set, or a mapping by id); changed by other threads."""

    def copy(self) -> Collection[str]: ...
    def __contains__(self, message_id: object, /) -> bool: ...


class _Row(NamedTuple):
    mailbox_id: str
    session_id: str
    message_id: str
    sequence: int
    sender_id: str
    sender_name: str
    created_at: str
    unread_count: int


class _Never:
    """The newest never-woken row of each mailbox. ``skipped``: rows that are being dispatched by their own send."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        # From before the snapshot and from after it: a dispatch that ended meanwhile is no reason to wake again.
        self._before = pending.copy()
        self.skipped = 0

    def newest(self, rows: Iterator[_Row]) -> list[_Row]:
        found: list[_Row] = []
        for _, group in groupby(rows, lambda row: (row.session_id, row.mailbox_id)):
            for row in group:
                if row.message_id in self._before or row.message_id in self._pending:
                    self.skipped += 1
                else:
                    found.append(row)
                    break
        return found


def unread_of(connection: Cursorlike, session_id: str, mailbox_id: str) -> Unread | None:
    """The newest unread message of one mailbox for one receiver."""
    for row in _rows(connection, _UNREAD_OF, session_id, mailbox_id):
        return _unread(row)
    return None


def unwoken(connection: Cursorlike, asked: AskUnwoken, pending: Pending) -> Unwoken:
    """Never-woken mail of one session, newest first, and what is unread behind the wake at the head of its queue."""
    never = _Never(pending)
    rows = _newest_first(never.newest(_rows(connection, _NEVER_OF, asked.session_id)))
    mail = [_counted(connection, row) for row in rows[: asked.limit]]
    head = unread_of(connection, asked.session_id, asked.head[0]) if asked.head is not None else None
    return Unwoken(mail, head, settled=len(rows) <= asked.limit and not never.skipped)


def unread_page(connection: Cursorlike, asked: ListUnread, pending: Pending) -> UnreadPage:
    """Whole receivers, as many as it takes to reach the limit."""
    after = "" if asked.after is None else asked.after[0]
    never = _Never(pending)
    query = _NEVER_AFTER if asked.only_unwoken else _UNREAD_AFTER
    found: list[Unread] = []
    last: tuple[str, str] | None = None
    for _, group in groupby(_rows(connection, query, after), lambda row: row.session_id):
        if len(found) >= asked.limit:
            return UnreadPage(found, last, never.skipped)
        rows = list(group)
        rows = _newest_first(never.newest(iter(rows)) if asked.only_unwoken else rows)
        found += [_counted(connection, row) if asked.only_unwoken else _unread(row) for row in rows]
        if rows:
            last = (rows[-1].session_id, rows[-1].mailbox_id)
    return UnreadPage(found, None, never.skipped)


def stale(connection: Cursorlike, asked: AskStale) -> Stale:
    """Those of the asked wakes whose mail is acknowledged."""
    wakes = [wake for wake in asked.wakes if unread_of(connection, wake[0], wake[1]) is None]
    return Stale(wakes)


def _rows(connection: Cursorlike, query: str, *parameters: Any) -> Iterator[_Row]:
    return (_Row(*row) for row in connection.execute(query, parameters))


def _newest_first(rows: list[_Row]) -> list[_Row]:
    """Sorted in place: by time, those of one time by mailbox."""
    rows.sort(key=lambda row: row.mailbox_id)
    rows.sort(key=lambda row: row.created_at, reverse=True)
    return rows


def _counted(connection: Cursorlike, row: _Row) -> Unread:
    count = connection.execute(_COUNT_OF, (row.session_id, row.mailbox_id)).get
    return _unread(row._replace(unread_count=count))


def _unread(row: _Row) -> Unread:
    return Unread(
        mailbox_id=row.mailbox_id,
        session_id=row.session_id,
        message_id=row.message_id,
        sequence=row.sequence,
        unread_count=row.unread_count,
        sender_id=row.sender_id,
        sender_name=row.sender_name,
    )


_SINCE = f"(SELECT MIN(created_at) FROM mailbox_messages WHERE mailbox_id = p.mailbox_id AND sequence = {_OLDEST})"
_COUNTS = (
    "SELECT COALESCE(SUM(unread), 0), MIN(since)"
    f" FROM (SELECT {_COUNT} AS unread, {_SINCE} AS since"
    " FROM mailbox_participants AS p WHERE p.left_at IS NULL)"
)
_NEVER_COUNTS = f"SELECT COUNT(*), MIN(m.created_at) {_UNWOKEN}"


def counts(connection: Cursorlike) -> MailboxCounts:
    """How much mail is unread and never woken, and since when."""
    mailboxes = connection.execute("SELECT COUNT(*) FROM mailboxes").get
    unread, unread_since = next(iter(connection.execute(_COUNTS)))
    never, never_since = next(iter(connection.execute(_NEVER_COUNTS)))
    return MailboxCounts(
        count=mailboxes, unread=unread, unwoken=never, unread_since=unread_since, unwoken_since=never_since
    )
