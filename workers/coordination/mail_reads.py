"""Reads of mail, each in one snapshot on a reader's thread, to the final JSON. Nothing here changes a row."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import UNSET

from termal.model.mail import CONTROL_TOPIC, MailMessage
from termal.rules.mail import page_rows
from termal.store.connection import Cursorlike
from termal.wire.codec import encode_json
from termal.wire.errors import NotFound
from termal.wire.mail_operations import ReadMailbox, ReadMessage
from workers.coordination.mail_counts import UnreadCounts
from workers.coordination.mail_store import not_participant
from workers.coordination.mail_summary import Party, summary_of

PAGE_BYTES = 32 << 20
"""A page ends before its limit when it would be larger than this: what travels at once is bounded."""
_PAST_ANY_SEQUENCE = (1 << 63) - 1
_MESSAGE = (
    "SELECT id, mailbox_id, sequence, sender_session_id, sender_name, target_session_id, target_name, created_at,"
    " class, topic, state_stamp, body, notification_disposition FROM mailbox_messages"
)
_PARTICIPANTS = (
    "SELECT p.mailbox_id, m.next_sequence, p.session_id, p.display_name, p.processed_through, p.left_at"
    " FROM mailbox_participants AS me CROSS JOIN mailboxes AS m ON m.id = me.mailbox_id"
    " CROSS JOIN mailbox_participants AS p ON p.mailbox_id = me.mailbox_id"
    " WHERE me.session_id = ? AND me.left_at IS NULL"
)


class Piece(NamedTuple):
    """One mailbox of a list: its place in it, and its JSON. None for ``json``: it is not listed."""

    mailbox_id: str
    latest_at: str
    json: bytes | None


def pieces(
    connection: Cursorlike, counts: UnreadCounts, session_id: str, mailbox_ids: Iterable[str] | None
) -> list[Piece]:
    """The summaries of all mailboxes of a session, or of the given ones, in no order."""
    found: list[Piece] = []
    for mailbox_id, last, parties in _mailboxes(connection, session_id, mailbox_ids):
        cursor = next(party.cursor for party in parties if party.session_id == session_id)
        unread = counts.unread(connection, (mailbox_id, session_id), cursor, last, keep=True)
        summary = summary_of(connection, mailbox_id, parties, unread)
        if summary is not None:
            found.append(Piece(mailbox_id, summary.latest_message_at, encode_json(summary)))
    if mailbox_ids is not None:
        seen = {piece.mailbox_id for piece in found}
        found += [Piece(mailbox_id, "", None) for mailbox_id in mailbox_ids if mailbox_id not in seen]
    return found


def page(connection: Cursorlike, asked: ReadMailbox) -> bytes:
    """A page of messages, both directions, ascending. Raises `NotFound`."""
    _check_participant(connection, asked.session_id, asked.mailbox_id)
    after = min(asked.after_sequence, _PAST_ANY_SEQUENCE)
    rows = connection.execute(
        f"{_MESSAGE} WHERE mailbox_id = ? AND sequence > ? AND topic IS NOT ? ORDER BY sequence LIMIT ?",
        (asked.mailbox_id, after, CONTROL_TOPIC, page_rows(asked.limit)),
    )
    found: list[bytes] = []
    size = 0
    for row in rows:
        json = encode_json(_message(row))
        size += len(json) + 1
        if found and size > PAGE_BYTES:
            break
        found.append(json)
    return b"[" + b",".join(found) + b"]"


def message(connection: Cursorlike, asked: ReadMessage) -> bytes:
    """One message. Raises `NotFound`, in the same words whether it is not there or not for the caller."""
    row = connection.execute(
        f"{_MESSAGE} WHERE id = ? AND topic IS NOT ?", (asked.message_id, CONTROL_TOPIC)
    ).fetchone()
    if row is None or not _takes_part(connection, asked.session_id, row[1]):
        raise NotFound(f"the session has no mailbox message {asked.message_id}", reason="unknownMessage")
    return encode_json(_message(row))


def _mailboxes(
    connection: Cursorlike, session_id: str, mailbox_ids: Iterable[str] | None
) -> Iterator[tuple[str, int, list[Party]]]:
    """Each mailbox with its last sequence and its participants."""
    rows: list[Any] = []
    if mailbox_ids is None:
        rows += connection.execute(_PARTICIPANTS, (session_id,))
    for mailbox_id in mailbox_ids or ():
        rows += connection.execute(f"{_PARTICIPANTS} AND me.mailbox_id = ?", (session_id, mailbox_id))
    parties: dict[str, tuple[int, list[Party]]] = {}
    for mailbox_id, next_sequence, *party in rows:
        parties.setdefault(mailbox_id, (next_sequence - 1, []))[1].append(Party(*party))
    return ((mailbox_id, last, found) for mailbox_id, (last, found) in parties.items())


def _check_participant(connection: Cursorlike, session_id: str, mailbox_id: str) -> None:
    if not _takes_part(connection, session_id, mailbox_id):
        raise not_participant(mailbox_id)


def _takes_part(connection: Cursorlike, session_id: str, mailbox_id: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM mailbox_participants WHERE mailbox_id = ? AND session_id = ? AND left_at IS NULL",
        (mailbox_id, session_id),
    )
    return found.fetchone() is not None


def _message(row: tuple[str, str, int, str, str, str, str, str, str, str | None, str | None, str, str]) -> MailMessage:
    return MailMessage(
        id=row[0],
        mailbox_id=row[1],
        sequence=row[2],
        sender_session_id=row[3],
        sender_name=row[4],
        target_session_id=row[5],
        target_name=row[6],
        created_at=row[7],
        kind=row[8],
        topic=UNSET if row[9] is None else row[9],
        state_stamp=UNSET if row[10] is None else row[10],
        body=row[11],
        notification_state=row[12],
    )
