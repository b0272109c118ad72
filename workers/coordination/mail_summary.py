"""The summary of one mailbox for one caller, from its rows."""

# ruff: noqa: S608 - the query is made of constants

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET

from termal.model.mail import CONTROL_TOPIC, MailboxSummary, Participant
from termal.store.connection import Cursorlike
from workers.coordination.previews import HEAD, preview_of

_LATEST = (
    f"SELECT rowid, sequence, created_at, {HEAD} FROM mailbox_messages WHERE mailbox_id = ? AND topic IS NOT ?"
    " ORDER BY sequence DESC LIMIT 1"
)


class Party(NamedTuple):
    """A participant as its row says."""

    session_id: str
    name: str
    cursor: int
    left_at: str | None


def summary_of(connection: Cursorlike, mailbox_id: str, parties: Sequence[Party], unread: int) -> MailboxSummary | None:
    """None for a mailbox without a message that anybody may see."""
    latest = connection.execute(_LATEST, (mailbox_id, CONTROL_TOPIC)).fetchone()
    if latest is None:
        return None
    row, sequence, created_at, head, size_bytes = latest
    return MailboxSummary(
        id=mailbox_id,
        participants=[
            Participant(
                session_id=party.session_id,
                display_name=party.name,
                processed_through=party.cursor,
                left_at=UNSET if party.left_at is None else party.left_at,
            )
            for party in sorted(parties)
        ],
        latest_sequence=sequence,
        unread_count=unread,
        latest_message_preview=preview_of(connection, row, head, size_bytes),
        latest_message_at=created_at,
    )
