"""Reading `termal.sqlite` at start: metadata or refusal, each session row valid or quarantined. Changes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from termal.log import Log
from termal.model.delegation import DelegationRecord, DelegationWaitRecord
from termal.model.ids import message_number, session_number
from termal.model.message import Message
from termal.model.session import Session
from termal.model.stored import Metadata, StoredSession
from termal.rules.history_page import RESIDENT_MESSAGES
from termal.rules.settings import is_acp
from termal.rules.verdicts import Bad
from termal.store.connection import BROKEN, Cursorlike, broken, open_reader
from termal.store.files import StoreRefused
from workers.state.registry import Registry
from workers.state.row_checks import UNREADABLE, check_loadable, id_of, name_of, read_session, text_of, why
from workers.state.rows import decode_entry, decode_history, decode_message
from workers.state.session_record import SessionRecord
from workers.state.stored_metadata import read_metadata
from workers.state.turn import Turn

_ROWS = 64
"""Session rows read at a time: a row may hold images of queued prompts, or a whole transcript that is set aside."""

_DELEGATIONS = (
    "SELECT rowid, typeof(id), CAST(id AS BLOB), typeof(value_json), CAST(value_json AS BLOB)"
    " FROM delegations ORDER BY rowid"
)
_SESSIONS = (
    "SELECT rowid, typeof(id), CAST(id AS BLOB), typeof(value_json), CAST(value_json AS BLOB)"
    " FROM sessions WHERE rowid > ? ORDER BY rowid LIMIT ?"
)
_SINCE = (
    "SELECT count(*) FROM messages WHERE session_id = ?"
    " AND position >= (SELECT position FROM messages WHERE session_id = ? AND message_id = ?)"
)
_NEWEST = (
    "SELECT position, typeof(message_id), CAST(message_id AS BLOB), typeof(value_json), CAST(value_json AS BLOB)"
    " FROM messages WHERE session_id = ? ORDER BY position DESC LIMIT ?"
)
_HISTORY = "SELECT typeof(value_json), CAST(value_json AS BLOB) FROM session_prompt_histories WHERE session_id = ?"

_decode_delegation = msgspec.json.Decoder(DelegationRecord).decode


class Quarantined(NamedTuple):
    """A row that is set aside: kept as it is, not in the model. ``id`` as text, whatever the column holds."""

    table: str
    id: str
    rowid: int
    reason: str


Isolated = Callable[[Quarantined], None]


def load(
    path: Path,
    log: Log,
    *,
    fresh: bool,
    going_on: Callable[[], None] = lambda: None,
    isolated: Isolated | None = None,
) -> Registry:
    """The registry of a store that `open_store` opened. Raises `StoreRefused` for metadata that no start can use.

    ``going_on`` is called for each session; ``isolated`` gets each quarantined row (without it they are logged).
    """

    def set_aside(row: Quarantined) -> None:
        registry.quarantined.add(row.id)
        if isolated is not None:
            isolated(row)
        else:
            log.warning("load.quarantined", table=row.table, id=row.id, error=row.reason)

    connection = open_reader(path)
    try:
        connection.execute("BEGIN")
        metadata = _metadata(connection, path)
        registry = Registry(metadata, fresh=fresh)
        _load_delegations(connection, registry, set_aside)
        _load_waits(registry, metadata, log)
        _load_sessions(connection, registry, log, set_aside, going_on)
        connection.execute("COMMIT")
    except BROKEN as error:
        # Not a fault that another start would cure.
        raise broken(path, error) from error
    finally:
        connection.close()
    return registry


def _metadata(connection: Cursorlike, path: Path) -> Metadata:
    metadata = read_metadata(connection, path)
    if metadata is None:
        raise StoreRefused(f"{path} has no metadata")
    return metadata


def _load_delegations(connection: Cursorlike, registry: Registry, set_aside: Isolated) -> None:
    for rowid, id_kind, raw_id, kind, value in _rows(connection, _DELEGATIONS):
        try:
            row_id = id_of(id_kind, raw_id)
            record = _decode_delegation(text_of(kind, value))
            if record.id != row_id:
                raise Bad(f"the row calls itself {record.id}")
        except UNREADABLE as error:
            set_aside(Quarantined("delegations", name_of(raw_id, rowid), rowid, why(error)))
            continue
        registry.delegations.put(replace(record, review_result_recovery_error=UNSET))


def _load_waits(registry: Registry, metadata: Metadata, log: Log) -> None:
    """What is no wait is kept in the metadata as it is."""
    for value in metadata.delegation_waits or []:
        try:
            wait = msgspec.convert(value, DelegationWaitRecord)
        except msgspec.ValidationError as error:
            log.warning("load.wait_unreadable", error=str(error))
            registry.unread_waits.append(value)
            continue
        registry.waits[wait.id] = wait


def _load_sessions(
    connection: Cursorlike, registry: Registry, log: Log, set_aside: Isolated, going_on: Callable[[], None]
) -> None:
    highest = 0
    last_message = 0
    last_row = -(1 << 63)
    while batch := _rows(connection, _SESSIONS, last_row, _ROWS):
        for rowid, id_kind, raw_id, kind, value in batch:
            going_on()
            name = name_of(raw_id, rowid)
            highest = max(highest, session_number(name))
            try:
                record = _session(connection, registry, id_of(id_kind, raw_id), text_of(kind, value), log)
            except UNREADABLE as error:
                set_aside(Quarantined("sessions", name, rowid, why(error)))
                continue
            registry.add(record)
            last_message = max(last_message, _highest_message(record))
        last_row = batch[-1][0]
    registry.raise_session_number(highest)
    registry.next_message_number = max(registry.next_message_number, last_message + 1)


def _session(connection: Cursorlike, registry: Registry, session_id: str, text: bytes, log: Log) -> SessionRecord:
    """Raises one of `UNREADABLE` with the reason for a quarantine."""
    stored = read_session(session_id, text)
    check_loadable(stored, text, registry.projects)
    session = _cleaned(stored)
    record = SessionRecord(session, replace(stored, session=session))
    _load_messages(connection, record, log)
    row = connection.execute(_HISTORY, (session_id,)).fetchone()
    if row is not None:
        record.history = decode_history(text_of(*row))
    if stored.queued_prompts is not UNSET:
        record.queue = [decode_entry(raw) for raw in stored.queued_prompts]
    if stored.active_turn is not UNSET:
        record.turn = Turn.from_stored(stored.active_turn)
    return record


def _cleaned(stored: StoredSession) -> Session:
    """What a stored session never carries, and what is filled in when it is missing."""
    session = stored.session
    options = session.model_options if is_acp(session.agent) else UNSET
    effort = "auto" if session.agent == "OpenCode" and session.opencode_effort is UNSET else session.opencode_effort
    return replace(
        session,
        messages=[],
        remote_id=stored.remote_id,
        model_options=options,
        opencode_effort=effort,
        pending_prompts=UNSET,
        prompt_history=UNSET,
        prompt_history_redacted=UNSET,
        live_activity=UNSET,
        session_mutation_stamp=UNSET,
    )


def _load_messages(connection: Cursorlike, record: SessionRecord, log: Log) -> None:
    """The newest messages. Positions below the first stored row count as not there yet; any other gap is an error."""
    count = record.session.message_count
    rows = _rows(connection, _NEWEST, record.id, max(RESIDENT_MESSAGES, _of_its_turn(connection, record)))
    record.start = count
    if not rows:
        if count and not record.remote:
            log.warning("load.unhydrated", sessionId=record.id, messages=count)
        return
    end = int(rows[0][0]) + 1
    if end < count:
        raise Bad(f"the message at position {end} is missing")
    newest: list[Message] = []
    for row in rows:
        try:
            newest.append(_message(end - 1 - len(newest), row))
        except UNREADABLE as error:
            if len(newest) < RESIDENT_MESSAGES:
                raise
            # As far below the end, whoever reads there is told of it.
            log.warning("load.hole", sessionId=record.id, error=why(error))
            break
    newest.reverse()
    record.start = end - len(newest)
    record.messages = newest
    record.positions = {message.id: position for position, message in enumerate(newest, record.start)}
    if end > count:
        log.warning("load.longer", sessionId=record.id, messages=end, known=count)


def _message(expected: int, row: tuple[Any, ...]) -> Message:
    """The message of one row of `_NEWEST`. Raises one of `UNREADABLE`."""
    position, id_kind, message_id, kind, value = row
    if position != expected:
        raise Bad(f"the message at position {expected} is missing")
    message: Message = decode_message(text_of(kind, value))
    if message.id != id_of(id_kind, message_id):
        raise Bad(f"the message at position {position} calls itself {message.id}")
    return message


def _of_its_turn(connection: Cursorlike, record: SessionRecord) -> int:
    """How many messages a running turn has: all of them are needed, since its end closes what is open in any."""
    turn = record.stored.active_turn
    if turn is UNSET:
        return 0
    [[count]] = _rows(connection, _SINCE, record.id, record.id, turn.prompt_id)
    return int(count)


def _rows(connection: Cursorlike, sql: str, *parameters: Any) -> list[Any]:
    return connection.execute(sql, parameters).fetchall()


def _highest_message(record: SessionRecord) -> int:
    ids = [message.id for message in record.messages] + [queued.entry.pending_prompt.id for queued in record.queue]
    return max(map(message_number, ids), default=0)
