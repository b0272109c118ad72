"""Reading `termal.sqlite` at start: metadata or refusal, each session row valid or quarantined. Changes nothing."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from termal.log import Log
from termal.model.ids import message_number, project_number, session_number
from termal.model.session import Session
from termal.model.stored import LOCAL_REMOTE, DelegationLink, Metadata, StoredSession
from termal.rules.history_page import RESIDENT_MESSAGES
from termal.rules.settings import check_stored, is_acp
from termal.rules.verdicts import Bad
from termal.store.connection import Cursorlike, open_reader
from termal.store.files import StoreRefused
from workers.state.registry import Registry
from workers.state.rows import decode_entry, decode_history, decode_message, decode_metadata, decode_session
from workers.state.session_record import SessionRecord
from workers.state.store_schema import METADATA_KEY
from workers.state.turn import Turn

_decode_link = msgspec.json.Decoder(DelegationLink).decode


class _Embedded(msgspec.Struct):
    """Only whether a session row still carries its transcript, as the first schema version did."""

    session: "_EmbeddedSession"


class _EmbeddedSession(msgspec.Struct):
    messages: list[msgspec.Raw] = []


_decode_embedded = msgspec.json.Decoder(_Embedded).decode


def load(path: Path, log: Log, *, fresh: bool) -> Registry:
    """The registry of a store that `open_store` opened. Raises `StoreRefused` for metadata that no start can use."""
    connection = open_reader(path)
    try:
        connection.execute("BEGIN")
        registry = Registry(_metadata(connection, path), fresh=fresh)
        _load_delegations(connection, registry, log)
        _load_sessions(connection, registry, log)
        connection.execute("COMMIT")
    finally:
        connection.close()
    return registry


def _metadata(connection: Cursorlike, path: Path) -> Metadata:
    row = connection.execute("SELECT value_json FROM app_state WHERE key = ?", (METADATA_KEY,)).fetchone()
    if row is None:
        raise StoreRefused(
            f"{path} has rows but no metadata: a start would hand out ids that are taken. Put back a backup of it"
        )
    try:
        metadata = decode_metadata(_text(row[0]))
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreRefused(f"{path} has unreadable metadata ({error}); it was not changed") from error
    problem = _metadata_problem(metadata)
    if problem:
        raise StoreRefused(f"{path} has unusable metadata: {problem}. It was not changed")
    return metadata


def _metadata_problem(metadata: Metadata) -> str:
    remotes = [remote.id for remote in metadata.preferences.remotes]
    highest = max((project_number(project.id) for project in metadata.projects), default=0)
    counters = (metadata.next_project_number, metadata.next_session_number, metadata.next_message_number)
    if min(counters) < 1 or metadata.next_project_number <= highest:
        return "a counter is lower than what it has handed out"
    if len(set(remotes)) != len(remotes):
        return "two remotes have one id"
    if LOCAL_REMOTE not in remotes:
        return f"the remote {LOCAL_REMOTE!r} is missing"
    for project in metadata.projects:
        if project.remote_id not in remotes:
            return f"project {project.id} is on an unknown remote"
    return ""


def _load_delegations(connection: Cursorlike, registry: Registry, log: Log) -> None:
    for row_id, value in connection.execute("SELECT id, value_json FROM delegations ORDER BY rowid"):
        try:
            link = _decode_link(_text(value))
            if link.id != row_id:
                raise Bad(f"it calls itself {link.id}")
        except (msgspec.MsgspecError, ValueError, Bad) as error:
            registry.quarantined.add(str(row_id))
            log.warning("load.quarantined", table="delegations", id=str(row_id), error=_why(error))
            continue
        registry.delegations[link.id] = link


def _load_sessions(connection: Cursorlike, registry: Registry, log: Log) -> None:
    highest = 0
    last_message = 0
    for row_id, value in connection.execute("SELECT id, value_json FROM sessions ORDER BY rowid").fetchall():
        session_id = str(row_id)
        highest = max(highest, session_number(session_id))
        try:
            record = _session(connection, registry, session_id, value, log)
        except (msgspec.MsgspecError, ValueError, Bad) as error:
            registry.quarantined.add(session_id)
            log.warning("load.quarantined", table="sessions", id=session_id, error=_why(error))
            continue
        registry.add(record)
        last_message = max(last_message, _highest_message(record))
    registry.raise_session_number(highest)
    registry.next_message_number = max(registry.next_message_number, last_message + 1)


def _session(connection: Cursorlike, registry: Registry, session_id: str, value: Any, log: Log) -> SessionRecord:
    """Raises `Bad` or a decoding error with the reason for a quarantine."""
    text = _text(value)
    stored = decode_session(text)
    session = stored.session
    if session.id != session_id:
        raise Bad(f"the row calls itself {session.id}")
    _check(stored, registry)
    record = SessionRecord(_cleaned(session), replace(stored, session=_cleaned(session)))
    _load_messages(connection, record, text, log)
    row = connection.execute(
        "SELECT value_json FROM session_prompt_histories WHERE session_id = ?", (session_id,)
    ).fetchone()
    if row is not None:
        record.history = decode_history(_text(row[0]))
    if stored.queued_prompts is not UNSET:
        record.queue = [decode_entry(raw) for raw in stored.queued_prompts]
    if stored.active_turn is not UNSET:
        record.turn = Turn.from_stored(stored.active_turn)
    return record


def _check(stored: StoredSession, registry: Registry) -> None:
    session = stored.session
    check_stored(session)
    inner = None if session.external_session_id is UNSET else session.external_session_id
    if stored.external_session_id != inner:
        raise Bad("externalSessionId differs between the row and its session")
    halves = (stored.remote_id, stored.remote_session_id)
    if (halves[0] is UNSET) != (halves[1] is UNSET) or any(half is not UNSET and not half.strip() for half in halves):
        raise Bad("it has half of a remote identity")
    if session.project_id is not UNSET and session.project_id not in registry.projects:
        raise Bad(f"its project {session.project_id} is not there")


def _cleaned(session: Session) -> Session:
    """What a stored session never carries, and what is filled in when it is missing."""
    options = session.model_options if is_acp(session.agent) else UNSET
    effort = "auto" if session.agent == "OpenCode" and session.opencode_effort is UNSET else session.opencode_effort
    return replace(
        session,
        messages=[],
        model_options=options,
        opencode_effort=effort,
        pending_prompts=UNSET,
        prompt_history=UNSET,
        prompt_history_redacted=UNSET,
        live_activity=UNSET,
        session_mutation_stamp=UNSET,
    )


def _load_messages(connection: Cursorlike, record: SessionRecord, text: bytes, log: Log) -> None:
    """The newest messages. Positions below the first stored row count as not there yet; any other gap is an error."""
    count = record.session.message_count
    record.start = count
    first = connection.execute("SELECT min(position) FROM messages WHERE session_id = ?", (record.id,)).get
    if first is None:
        if count and not record.remote:
            if _decode_embedded(text).session.messages:
                raise Bad("its transcript was never moved out of its row")
            log.warning("load.unhydrated", sessionId=record.id, messages=count)
        return
    needed = max(count - RESIDENT_MESSAGES, int(first), 0)
    rows = connection.execute(
        "SELECT position, message_id, value_json FROM messages WHERE session_id = ? AND position >= ?"
        " ORDER BY position",
        (record.id, needed),
    )
    record.start = needed
    for position, message_id, value in rows:
        if position != record.count:
            raise Bad(f"the message at position {record.count} is missing")
        message = decode_message(_text(value))
        if message.id != message_id:
            raise Bad(f"the message at position {position} calls itself {message.id}")
        record.positions[message.id] = record.count
        record.messages.append(message)
    if record.count < count:
        raise Bad(f"the message at position {record.count} is missing")


def _highest_message(record: SessionRecord) -> int:
    ids = [message.id for message in record.messages] + [queued.entry.pending_prompt.id for queued in record.queue]
    return max(map(message_number, ids), default=0)


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("it is no text")  # noqa: TRY004 - a row that is wrong, not a call
    return value.encode()


def _why(error: Exception) -> str:
    return error.text if isinstance(error, Bad) else str(error)
