"""Rows of `termal.sqlite`: JSON made on the loop's thread, statements run on the writer's; as many as was changed."""

from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from termal.faults import fault
from termal.model.delegation import DelegationRecord
from termal.model.message import Message
from termal.model.stored import OldQueueEntry, PromptKey, QueueEntry
from termal.rules.overview import BadOverview, byte_of, kind_of, spliced
from termal.store.connection import Cursorlike
from workers.state.session_record import Queued, SessionRecord
from workers.state.store_schema import METADATA_KEY, rebuilt_overview

decode_message = msgspec.json.Decoder(Message).decode
decode_history = msgspec.json.Decoder(list[str]).decode
_decode_entry = msgspec.json.Decoder(QueueEntry).decode
_decode_old_entry = msgspec.json.Decoder(OldQueueEntry).decode
_encode = msgspec.json.Encoder().encode

_SESSION = (
    "INSERT INTO sessions (id, value_json) VALUES (?, ?)"
    " ON CONFLICT (id) DO UPDATE SET value_json = excluded.value_json"
)
_MESSAGE = (
    "INSERT INTO messages (session_id, position, message_id, value_json, overview_kind, is_user)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (session_id, position) DO UPDATE SET value_json = excluded.value_json,"
    " overview_kind = excluded.overview_kind, is_user = excluded.is_user"
)
_HISTORY = (
    "INSERT INTO session_prompt_histories (session_id, value_json) VALUES (?, ?)"
    " ON CONFLICT (session_id) DO UPDATE SET value_json = excluded.value_json"
)
_OVERVIEW = (
    "INSERT INTO session_overviews (session_id, value_blob) VALUES (?, ?)"
    " ON CONFLICT (session_id) DO UPDATE SET value_blob = excluded.value_blob"
)
_DELEGATION = (
    "INSERT INTO delegations (id, value_json) VALUES (?, ?)"
    " ON CONFLICT (id) DO UPDATE SET value_json = excluded.value_json"
)
_AUDIT = "INSERT INTO delegation_audit (parent_session_id, value_json) VALUES (?, ?)"
_AUDIT_TRIM = "DELETE FROM delegation_audit WHERE seq <= (SELECT max(seq) FROM delegation_audit) - ?"
AUDIT_ROWS = 100_000
"""The newest ones are kept."""
_METADATA = (
    "INSERT INTO app_state (key, value_json) VALUES (?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value_json = excluded.value_json"
)


def queued(entry: QueueEntry) -> Queued:
    return Queued(entry, msgspec.Raw(_encode(entry)))


def decode_entry(raw: msgspec.Raw) -> Queued:
    """One stored queue entry, under either spelling of its key. Raises `msgspec.MsgspecError`."""
    try:
        return Queued(_decode_entry(raw), raw)
    except msgspec.ValidationError:
        old = _decode_old_entry(raw)
        return queued(QueueEntry(old.source, old.pending_prompt, old.attachments))


def encode_session(record: SessionRecord) -> str:
    """``sessions.value_json`` of ``record``: without messages, history, live activity, stamp and queue views."""
    session = replace(
        record.session,
        status=record.status,
        preview=record.preview,
        message_count=record.count,
        messages_loaded=record.count == 0,
    )
    external = session.external_session_id
    stored = replace(
        record.stored,
        session=session,
        external_session_id=None if external is UNSET else external,
        queued_prompts=[entry.raw for entry in record.queue] or UNSET,
        queued_peer_messages=record.peer_messages or UNSET,
        orchestrator_auto_dispatch_blocked=record.blocked or UNSET,
        creation_key=record.creation_key or UNSET,
        prompt_keys=record.prompt_keys or UNSET,
        wake_keys=record.wake_keys or UNSET,
        started_in=record.started_in or UNSET,
        active_turn=record.turn.stored() if record.turn is not None else UNSET,
        last_turn=record.last_turn or UNSET,
    )
    return _encode(stored).decode()


class Batch:
    """The rows of one commit. Filled on the loop's thread, written by `write` on the writer's, any number of times."""

    def __init__(self) -> None:
        self.sessions: list[tuple[str, str]] = []
        self.messages: list[tuple[str, int, str, str, int, int]] = []
        self.overviews: list[tuple[str, dict[int, int], int]] = []
        self.histories: list[tuple[str, str]] = []
        self.removed: list[tuple[str]] = []
        self.replaced: list[tuple[str]] = []
        self.delegations: list[tuple[str, str]] = []
        self.audit: list[tuple[str, str]] = []
        self.metadata = ""

    def take(self, record: SessionRecord) -> None:
        """Every dirty part of ``record`` and its session row; the record is clean after it."""
        row = encode_session(record)
        changes: dict[int, int] = {}
        messages = []
        for position in sorted(record.dirty_positions):
            message = record.at(position)
            byte = byte_of(message)
            if record.stored_bytes.get(position) != byte:
                changes[position] = record.stored_bytes[position] = byte
            messages.append(
                (
                    record.id,
                    position,
                    message.id,
                    _encode(message).decode(),
                    kind_of(message),
                    int(message.author == "you"),
                )
            )
        history = _encode(record.history).decode() if record.dirty_history else None
        self.sessions.append((record.id, row))
        if record.replaced:
            self.replaced.append((record.id,))
            record.replaced = False
        self.messages += messages
        if changes:
            self.overviews.append((record.id, changes, record.count))
        if history is not None:
            self.histories.append((record.id, history))
        record.dirty_positions.clear()
        record.distant.clear()
        record.dirty_history = False

    def take_delegation(self, record: DelegationRecord) -> None:
        self.delegations.append((record.id, _encode(record).decode()))

    def write(self, connection: Cursorlike) -> None:
        """Raises `StoreError`."""
        execute = connection.execute
        if self.removed:
            connection.executemany("DELETE FROM sessions WHERE id = ?", self.removed)
        if self.sessions:
            connection.executemany(_SESSION, self.sessions)
        if self.replaced:
            connection.executemany("DELETE FROM messages WHERE session_id = ?", self.replaced)
            connection.executemany("DELETE FROM session_overviews WHERE session_id = ?", self.replaced)
        if self.messages:
            connection.executemany(_MESSAGE, self.messages)
        for session_id, changes, count in self.overviews:
            _write_overview(connection, session_id, changes, count)
        if self.histories:
            connection.executemany(_HISTORY, self.histories)
        if self.delegations:
            connection.executemany(_DELEGATION, self.delegations)
        if self.audit:
            connection.executemany(_AUDIT, self.audit)
            execute(_AUDIT_TRIM, (AUDIT_ROWS,))
        execute(_METADATA, (METADATA_KEY, self.metadata))
        fault("state.before_commit")


def _write_overview(connection: Cursorlike, session_id: str, changes: dict[int, int], count: int) -> None:
    # PERF: the table is WITHOUT ROWID, so it has no incremental blob I/O. A change in place still writes one page
    # (SQLite compares pages of an equal-sized cell); an append writes the blob anew: 1 byte per message of history.
    row = connection.execute("SELECT value_blob FROM session_overviews WHERE session_id = ?", (session_id,)).fetchone()
    stored: Any = row[0] if row else b""
    try:
        overview: bytes | None = spliced(stored, changes, count)
    except (BadOverview, TypeError):
        # No map yet (older positions were never stored here) or a damaged one: whole from the rows, or none at all.
        overview = rebuilt_overview(connection, session_id, count)
    if overview is not None:
        connection.execute(_OVERVIEW, (session_id, overview))
    elif row:
        connection.execute("DELETE FROM session_overviews WHERE session_id = ?", (session_id,))


def remembered(keys: list[PromptKey], key: str) -> PromptKey | None:
    for known in keys:
        if known.key == key:
            return known
    return None
