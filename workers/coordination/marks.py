"""The wake lifecycle of stored messages: what became of wakes, applied to the rows that each of them covers.

Only these statements and the finalization of a send ever change ``notification_disposition``. Beside the rows is kept,
for each receiver of a mailbox, up to where all of its mail is delivered: a mark looks at what came after that, never at
history.
"""

# ruff: noqa: S608 - every statement is made of constants

from collections.abc import Sequence

from termal.store.connection import Cursorlike
from termal.wire.mail_operations import Mark
from workers.coordination.schema import IS_MAIL, NEVER_WOKEN, OLD_INDEX, read_meta, write_meta

MARKER = "mailbox_deliveries_backfill_v1"
DONE = "complete"

# Each repeats the condition of the index that it needs: without it SQLite reads a mailbox's whole history.
_OF_RECEIVER = "mailbox_id = :mailbox AND session_id = :session"
_COVERED = "target_session_id = :session AND mailbox_id = :mailbox AND sequence <= :through"
_THROUGH = f"COALESCE((SELECT delivered_through FROM mailbox_deliveries WHERE {_OF_RECEIVER}), 0)"
_CURSOR = f"(SELECT processed_through FROM mailbox_participants WHERE {_OF_RECEIVER} AND left_at IS NULL)"
_DELIVERED = (
    "UPDATE mailbox_messages SET notification_disposition = 'deliveredToIdleSession'"
    f" WHERE {IS_MAIL} AND {_COVERED} AND sequence > {_THROUGH}"
    " AND notification_disposition IN ('durableButNotWoken', 'queuedBehindActiveTurn', 'recoveredWake');"
    # A wake may know of more than a file does that was put back from a backup.
    "INSERT INTO mailbox_deliveries SELECT id, :session, MIN(:through, next_sequence - 1) FROM mailboxes"
    " WHERE id = :mailbox"
    " ON CONFLICT DO UPDATE SET delivered_through = MAX(delivered_through, excluded.delivered_through)"
)
_RECOVERED = (
    "UPDATE mailbox_messages SET notification_disposition = 'recoveredWake'"
    f" WHERE {NEVER_WOKEN} AND {_COVERED} AND {IS_MAIL}"
)
_REWOKEN = (
    "UPDATE mailbox_messages SET notification_disposition = 'recoveredWake'"
    f" WHERE {IS_MAIL} AND {_COVERED} AND notification_disposition <> 'recoveredWake' AND sequence > {_CURSOR};"
    "UPDATE mailbox_deliveries SET delivered_through ="
    f" MIN(delivered_through, COALESCE({_CURSOR}, delivered_through)) WHERE {_OF_RECEIVER}"
)
_STATEMENTS = {"delivered": _DELIVERED, "recovered": _RECOVERED, "rewoken": _REWOKEN}
_BACKFILL = f"""
INSERT OR REPLACE INTO mailbox_deliveries
SELECT p.mailbox_id, p.session_id, COALESCE(u.first, b.next_sequence) - 1
FROM mailbox_participants AS p JOIN mailboxes AS b ON b.id = p.mailbox_id
LEFT JOIN (
  SELECT mailbox_id, target_session_id, MIN(sequence) AS first FROM mailbox_messages
  WHERE notification_disposition <> 'deliveredToIdleSession' AND {IS_MAIL} GROUP BY mailbox_id, target_session_id
) AS u ON u.mailbox_id = p.mailbox_id AND u.target_session_id = p.session_id
"""


def apply(connection: Cursorlike, marks: Sequence[Mark]) -> None:
    """Apply ``marks`` in order. Safe to repeat: a row that is already there is left alone."""
    for mark in marks:
        names = {"session": mark.session_id, "mailbox": mark.mailbox_id, "through": mark.through}
        connection.execute(_STATEMENTS[mark.event], names)


def complete_deliveries(connection: Cursorlike) -> None:
    """Find up to where mail is delivered: once in the life of a file, and after a build that kept no record of it."""
    if read_meta(connection, MARKER) == DONE and not _left_by_another_build(connection):
        return
    connection.execute(_BACKFILL)
    connection.execute(f"DROP INDEX IF EXISTS {OLD_INDEX}")
    write_meta(connection, MARKER, DONE)


def _left_by_another_build(connection: Cursorlike) -> bool:
    found: int = connection.execute("SELECT COUNT(*) FROM sqlite_schema WHERE name = ?", (OLD_INDEX,)).get
    return found > 0
