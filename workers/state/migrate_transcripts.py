"""From the first schema version: transcripts leave the session rows and become rows of their own, order and ids kept.

Runs inside the transaction of an opening. A session that cannot be moved whole keeps its row as it is, byte for byte.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from termal.faults import fault
from termal.log import Log
from termal.model.message import Message
from termal.rules.overview import USER_BIT, byte_of
from termal.rules.prompt_history import bounded, prompt_in
from termal.rules.verdicts import Bad
from termal.store.connection import ConstraintError, Cursorlike
from workers.state.row_checks import UNREADABLE, id_of, is_remote, name_of, read_session, text_of, why
from workers.state.stored_rows import StoredRow, compact, decode_list, decode_object, session_rows

MESSAGES = 64
"""Message rows of one insert."""

_INSERT = (
    "INSERT INTO messages (session_id, position, message_id, value_json, overview_kind, is_user)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
_encode = msgspec.json.Encoder().encode


def move_transcripts(connection: Cursorlike, log: Log, going_on: Callable[[], None]) -> None:
    """Every session row of the file in the order of their making. ``going_on`` is called at each step."""
    for row in session_rows(connection):
        fault("migration.step")
        going_on()
        connection.execute("SAVEPOINT one_session")
        try:
            _move(connection, row, going_on)
        except (*UNREADABLE, ConstraintError) as error:
            connection.execute("ROLLBACK TO one_session")
            log.warning("migration.skipped", sessionId=name_of(row.id, row.rowid), error=why(error))
        connection.execute("RELEASE one_session")
    fault("migration.step")


def _move(connection: Cursorlike, row: StoredRow, going_on: Callable[[], None]) -> None:
    """Raises one of `UNREADABLE`, or `ConstraintError`, for a session that is to be left as it is."""
    session_id = id_of(row.id_kind, row.id)
    text = text_of(row.kind, row.value)
    stored = read_session(session_id, text)
    messages = stored.session.messages
    wrapper = decode_object(text)
    session = decode_object(wrapper["session"])
    raw_messages = decode_list(session.get("messages", Raw(b"[]")))
    count = len(messages)
    known = session.get("messageCount")
    if is_remote(stored) or not messages:
        # The owner of a proxied session has its transcript; what was kept of it here is a window without positions.
        # A count with nothing behind it is one too.
        if len({message.id for message in messages}) != count:
            raise Bad("two of its messages have one id")
        count = max(count, msgspec.json.decode(known, type=int) if known is not None else 0)
    else:
        if known is not None and msgspec.json.decode(known, type=int) != count:
            raise Bad(f"messageCount differs from the {count} messages of the row")
        history = _insert(connection, session_id, list(zip(messages, raw_messages, strict=True)), going_on)
        if history and "promptHistory" not in session:
            connection.execute(
                "INSERT INTO session_prompt_histories VALUES (?, ?)", (session_id, _encode(history).decode())
            )
    session |= {"messages": Raw(b"[]"), "messageCount": Raw(b"%d" % count)}
    session["messagesLoaded"] = Raw(b"false" if count else b"true")
    wrapper["session"] = Raw(_encode(session))
    connection.execute("UPDATE sessions SET value_json = ? WHERE rowid = ?", (compact(_encode(wrapper)), row.rowid))


def _insert(
    connection: Cursorlike, session_id: str, messages: list[tuple[Message, Raw]], going_on: Callable[[], None]
) -> list[str]:
    """The rows and the overview of one transcript; the prompts in it."""
    overview = bytearray()
    history: list[str] = []
    for first in range(0, len(messages), MESSAGES):
        fault("migration.step")
        going_on()
        rows = []
        for position, (message, raw) in enumerate(messages[first : first + MESSAGES], first):
            byte = byte_of(message)
            overview.append(byte)
            prompt = prompt_in(message)
            if prompt is not None:
                history.append(prompt)
            is_user = int(bool(byte & USER_BIT))
            rows.append((session_id, position, message.id, compact(bytes(raw)), byte & ~USER_BIT, is_user))
        connection.executemany(_INSERT, rows)
    if overview:
        connection.execute("INSERT INTO session_overviews VALUES (?, ?)", (session_id, bytes(overview)))
    return bounded(history)
