"""The wake lifecycle of stored messages: what became of wakes, applied to the rows that each of them covers.

Only these statements and the finalization of a send ever change ``notification_disposition``.
"""

# ruff: noqa: S608 - every statement is made of constants

from collections.abc import Sequence

from termal.store.connection import Cursorlike
from termal.wire.mail_operations import Mark
from workers.coordination.schema import IS_MAIL, NOT_DELIVERED

# Each repeats the condition of the index that it needs: without it SQLite reads a mailbox's whole history.
_COVERED = "target_session_id = ?1 AND mailbox_id = ?2 AND sequence <= ?3"
_DELIVERED = (
    "UPDATE mailbox_messages SET notification_disposition = 'deliveredToIdleSession'"
    " WHERE notification_disposition IN ('durableButNotWoken', 'queuedBehindActiveTurn', 'recoveredWake')"
    f" AND {NOT_DELIVERED} AND {_COVERED} AND {IS_MAIL}"
)
_RECOVERED = (
    "UPDATE mailbox_messages SET notification_disposition = 'recoveredWake'"
    f" WHERE notification_disposition = 'durableButNotWoken' AND {NOT_DELIVERED} AND {_COVERED} AND {IS_MAIL}"
)
_REWOKEN = (
    "UPDATE mailbox_messages SET notification_disposition = 'recoveredWake'"
    f" WHERE {IS_MAIL} AND {_COVERED} AND notification_disposition <> 'recoveredWake' AND sequence >"
    " (SELECT processed_through FROM mailbox_participants"
    " WHERE mailbox_id = ?2 AND session_id = ?1 AND left_at IS NULL)"
)
_STATEMENTS = {"delivered": _DELIVERED, "recovered": _RECOVERED, "rewoken": _REWOKEN}


def apply(connection: Cursorlike, marks: Sequence[Mark]) -> None:
    """Apply ``marks`` in order. Safe to repeat: a row that is already there is left alone."""
    for mark in marks:
        connection.execute(_STATEMENTS[mark.event], (mark.session_id, mark.mailbox_id, mark.through))
