"""What older builds kept inside another row, moved to the table where this one looks for it.

Runs inside the transaction of an opening. A row that the load will set aside is not touched.
"""

from collections.abc import Callable, Container

import msgspec
from msgspec import Raw

from termal.faults import fault
from termal.log import Log
from termal.rules.prompt_history import bounded
from termal.store.connection import Cursorlike
from workers.state.row_checks import UNREADABLE, check_loadable, id_of, name_of, read_session, text_of, why
from workers.state.stored_metadata import METADATA_KEY
from workers.state.stored_rows import StoredRow, compact, decode_list, decode_object, session_rows

_decode_texts = msgspec.json.Decoder(list[str]).decode
_encode = msgspec.json.Encoder().encode


class _Named(msgspec.Struct):
    id: str


_decode_named = msgspec.json.Decoder(_Named).decode


def move_prompt_histories(
    connection: Cursorlike, projects: Container[str], log: Log, going_on: Callable[[], None]
) -> None:
    """``session.promptHistory`` of every row into ``session_prompt_histories``, its newest entries."""
    for row in session_rows(connection):
        fault("migration.step")
        going_on()
        try:
            _move_history(connection, row, projects)
        except UNREADABLE as error:
            log.warning("upgrade.history_left", sessionId=name_of(row.id, row.rowid), error=why(error))


def _move_history(connection: Cursorlike, row: StoredRow, projects: Container[str]) -> None:
    session_id, text = id_of(row.id_kind, row.id), text_of(row.kind, row.value)
    check_loadable(read_session(session_id, text), text, projects)
    wrapper = decode_object(text)
    session = decode_object(wrapper["session"])
    embedded = session.pop("promptHistory", None)
    if embedded is None:
        return
    history = bounded(_decode_texts(embedded))
    wrapper["session"] = Raw(_encode(session))
    value = compact(_encode(wrapper))
    if history:
        connection.execute(
            "INSERT INTO session_prompt_histories VALUES (?, ?) ON CONFLICT (session_id) DO NOTHING",
            (session_id, _encode(history).decode()),
        )
    connection.execute("UPDATE sessions SET value_json = ? WHERE rowid = ?", (value, row.rowid))


def move_delegations(connection: Cursorlike, metadata: bytes, log: Log) -> None:
    """``delegations`` of the metadata into rows, the key out of it. The table is empty."""
    content = decode_object(metadata)
    embedded = content.pop("delegations", None)
    if embedded is None:
        return
    try:
        records = [] if bytes(embedded) == b"null" else decode_list(embedded)
    except UNREADABLE as error:
        log.warning("upgrade.delegations_left", error=why(error))
        return
    taken: set[str] = set()
    for number, record in enumerate(records, 1):
        fault("migration.step")
        name = _name(record, number, taken)
        taken.add(name)
        connection.execute("INSERT INTO delegations VALUES (?, ?)", (name, compact(bytes(record))))
    connection.execute("UPDATE app_state SET value_json = ? WHERE key = ?", (compact(_encode(content)), METADATA_KEY))


def _name(record: Raw, number: int, taken: set[str]) -> str:
    """The id of the record. One without an id of its own gets a name that it does not bear: the load sets it aside."""
    try:
        name = _decode_named(record).id
    except UNREADABLE:
        name = ""
    while not name or name in taken:
        name = f"{name or 'unnamed'}#{number}"
    return name
