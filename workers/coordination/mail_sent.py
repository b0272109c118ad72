"""What became of the messages that a session sent: read for their sender, newest first."""

# ruff: noqa: S608 - every query is made of constants

import re
import time

from msgspec import UNSET

from termal.model.mail import CONTROL_TOPIC, LIFECYCLES, UNDELIVERABLE, SentMessage, SentPage, Undeliverable
from termal.rules.mail import page_rows
from termal.store.connection import Cursorlike
from termal.wire.codec import encode_json
from termal.wire.errors import InvalidRequest
from termal.wire.mail_operations import ListSent
from workers.coordination.previews import HEAD, preview_of

SEARCH_S = 0.5
"""A page of few matches in a long history ends here, with the place to go on from."""
_STATES = (*LIFECYCLES, UNDELIVERABLE)
_PLACE = re.compile(r"[0-9]{1,18}")
SEARCH_ROWS = 10_000
# The index on the sender holds the numbers of its rows, which grow as messages are stored. The plus keeps SQLite from
# walking through everybody's rows to save the sorting.
_ROWS = "SELECT rowid FROM mailbox_messages WHERE sender_session_id = ? AND rowid < ? ORDER BY +rowid DESC LIMIT ?"
_ROW = (
    "SELECT m.id, m.mailbox_id, m.sequence, m.target_session_id, m.target_name, m.created_at, m.topic, m.state_stamp,"
    f" m.notification_disposition, p.processed_through, p.left_at, {HEAD}"
    " FROM mailbox_messages AS m CROSS JOIN mailbox_participants AS p"
    " ON p.mailbox_id = m.mailbox_id AND p.session_id = m.target_session_id"
    " WHERE m.rowid = ? AND m.topic IS NOT ?"
)


def check_sent(asked: ListSent) -> None:
    """Raises `InvalidRequest` for a state that there is not, or a cursor that was never given out."""
    if asked.state is not None and asked.state not in _STATES:
        raise InvalidRequest(f"state must be one of {', '.join(_STATES)}", reason="state")
    if asked.before is not None and _PLACE.fullmatch(asked.before) is None:
        raise InvalidRequest("before is no place that a page was given", reason="before")


def sent_page(connection: Cursorlike, asked: ListSent) -> bytes:
    """One page as final JSON."""
    before = (1 << 62) if asked.before is None else int(asked.before)
    limit, end_s = page_rows(asked.limit), time.monotonic() + SEARCH_S
    rows = [row for (row,) in connection.execute(_ROWS, (asked.session_id, before, SEARCH_ROWS))]
    found: list[SentMessage] = []
    place = None
    for row in rows:
        if len(found) == limit or time.monotonic() > end_s:
            break
        message = _sent(connection, row)
        if message is not None and _matches(message, asked.state):
            found.append(message)
        place = row
    more = place is not None and (place != rows[-1] or len(rows) == SEARCH_ROWS)
    return encode_json(SentPage(messages=found, next_before=str(place) if more else UNSET))


def _sent(connection: Cursorlike, row: int) -> SentMessage | None:
    columns = connection.execute(_ROW, (row, CONTROL_TOPIC)).fetchone()
    if columns is None:
        return None
    left_at = columns[10]
    processed = columns[9] >= columns[2]
    return SentMessage(
        message_id=columns[0],
        mailbox_id=columns[1],
        sequence=columns[2],
        target_session_id=columns[3],
        target_name=columns[4],
        created_at=columns[5],
        topic=UNSET if columns[6] is None else columns[6],
        state_stamp=UNSET if columns[7] is None else columns[7],
        preview=preview_of(connection, row, columns[11], columns[12]),
        notification_state=columns[8],
        processed=processed,
        undeliverable=UNSET if left_at is None or processed else Undeliverable(reason="receiverLeft", left_at=left_at),
    )


def _matches(message: SentMessage, state: str | None) -> bool:
    if state == UNDELIVERABLE:
        return message.undeliverable is not UNSET
    return state is None or message.notification_state == state
