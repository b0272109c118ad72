"""Files of earlier builds as they lay on a disk: sessions with their transcripts inside, and every byte of a file."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from termal.log import Log
from workers.state.load import load
from workers.state.registry import Registry
from workers.state.store_schema import open_store

Json = dict[str, Any]
Dump = dict[str, list[tuple[Any, ...]]]

METADATA: Json = {
    "revision": 7,
    "nextProjectNumber": 1,
    "nextSessionNumber": 1000,
    "nextMessageNumber": 1_000_000,
    "projects": [],
    "preferences": {"remotes": [{"id": "local", "name": "Local", "transport": "local", "enabled": True}]},
    "sessions": [],
}
FIRST_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE app_state (key TEXT PRIMARY KEY, value_json TEXT NOT NULL);
CREATE TABLE sessions (id TEXT PRIMARY KEY, value_json TEXT NOT NULL);
CREATE TABLE delegations (id TEXT PRIMARY KEY, value_json TEXT NOT NULL);
INSERT INTO meta VALUES ('schema_version', '1');
"""
OTHER_TABLES = """
CREATE TABLE board_cards (id TEXT PRIMARY KEY, x REAL, y REAL, w REAL, h REAL, snapshot_json TEXT,
  source_session_id TEXT, source_message_id TEXT, created_at TEXT);
CREATE TABLE mailboxes (id TEXT PRIMARY KEY, value_json TEXT NOT NULL);
CREATE TABLE mailbox_messages (mailbox_id TEXT NOT NULL, sequence INTEGER NOT NULL, body BLOB,
  PRIMARY KEY(mailbox_id, sequence)) WITHOUT ROWID;
CREATE INDEX mailbox_messages_by_body ON mailbox_messages(body);
INSERT INTO board_cards VALUES ('card-1', 1.5, 2, 3, 4, '{ not json', 'session-1', 'message-1', 'now'), (NULL, 0, 0, 0,
  0, NULL, NULL, NULL, NULL);
INSERT INTO mailboxes VALUES ('mailbox-1', '{"a": 1}');
INSERT INTO mailbox_messages VALUES ('mailbox-1', 1, x'00ff'), ('mailbox-1', 2, 'text');
"""


def message(number: int, **values: Any) -> Json:
    """One message; every seventh is of a person, others are commands, diffs and texts by turns."""
    common = {"id": f"message-{number}", "timestamp": "10:00:00", "author": "assistant"}
    if number % 7 == 0:
        own: Json = {"type": "text", "author": "you", "text": f"prompt {number} ü"}
    elif number % 7 == 1:
        own = {"type": "command", "command": "ls", "output": "x", "status": "error" if number % 2 else "success"}
    elif number % 7 == 2:
        own = {"type": "diff", "filePath": "/a", "summary": "s", "diff": "+a", "changeType": "edit"}
    else:
        own = {"type": "text", "text": f"answer {number}", "ofAnotherBuild": {"kept": [1, 2.50]}}
    return {**common, **own, **values}


def session(session_id: str, messages: Sequence[Any] = (), **values: Any) -> Json:
    """The wrapper of one session row."""
    inner = {
        "id": session_id,
        "name": session_id,
        "emoji": "DM",
        "agent": "Demo",
        "workdir": "/",
        "model": "auto",
        "status": "idle",
        "preview": "Ready",
        "messageCount": len(messages),
        "messagesLoaded": True,
        "messages": list(messages),
        **values.pop("session", {}),
    }
    return {"session": inner, "externalSessionId": None, "futureKey": "kept", **values}


class OlderStore:
    """A file under construction; rows may be anything, also what no build would have written."""

    def __init__(self, path: Path, *, schema: str = FIRST_TABLES, metadata: Json | None = None) -> None:
        self.path = path
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._connection = apsw.Connection(str(path))
        self._connection.execute("BEGIN")
        self._connection.execute(schema)
        self.run("INSERT INTO app_state VALUES ('metadataState', ?)", json.dumps({**METADATA, **(metadata or {})}))

    @classmethod
    def reopen(cls, path: Path) -> "OlderStore":
        """A file that is there, to be changed behind everybody's back."""
        store = cls.__new__(cls)
        store.path = path
        store._connection = apsw.Connection(str(path))
        store.run("PRAGMA foreign_keys = ON")
        store.run("BEGIN")
        return store

    def run(self, sql: str, *parameters: Any) -> None:
        self._connection.execute(sql, parameters)

    def add(self, session_id: Any, value: Any) -> None:
        """``value``: a wrapper, or the very content of the column."""
        content = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
        self.run("INSERT INTO sessions VALUES (?, ?)", session_id, content)

    def add_text(self, session_id: str, raw: bytes) -> None:
        """A text column with bytes that need not be UTF-8."""
        self.run("INSERT INTO sessions VALUES (?, CAST(? AS TEXT))", session_id, raw)

    def close(self) -> None:
        self._connection.execute("COMMIT")
        self._connection.close()


def transcript(number: int, count: int) -> list[Json]:
    """The messages of the session of that number: ids are unique in the whole file."""
    return [message(number * 10_000 + position) for position in range(count)]


def damaged(number: int, count: int) -> Iterator[tuple[str, Any]]:
    """Session rows, each with one fault that keeps it from being migrated; the fault is the first of the pair."""

    def row(**values: Any) -> Json:
        return session(f"session-{number}", transcript(number, count), **values)

    def with_message(bad: Any) -> Json:
        messages: list[Any] = transcript(number, count)
        messages[count // 2] = bad
        return session(f"session-{number}", messages)

    first = f"message-{number * 10_000}"
    row_messages = transcript(number, count)
    yield "not JSON", "{ not json"
    yield "cut off", json.dumps(row())[:-40]
    yield "no text", b"\x00\x01"
    yield "no UTF-8", json.dumps(row()).encode().replace(b"Ready", b"\xff\xfe")
    yield "nested without end", '{"session":' + "[" * 100_000
    yield "another id", row(session={"id": "session-0"})
    yield "a setting is missing", row(session={"agent": "Cursor"})
    yield "a setting of another agent", row(session={"cursorMode": "ask"})
    yield "half a remote identity", row(remoteId="host")
    yield "another count", row(session={"messageCount": count + 1})
    yield "two equal message ids", with_message(message(1, id=first))
    yield "a message of an unknown type", with_message(message(1, type="hologram"))
    yield "a message without an id", with_message({"type": "text", "timestamp": "", "author": "you", "text": ""})
    yield "a message that is no object", with_message(17)
    unknown = [message(1, type="hologram") if not at % 50 else known for at, known in enumerate(row_messages)]
    yield "one message in fifty of an unknown type", session(f"session-{number}", unknown)
    yield "no list of messages", session(f"session-{number}", session={"messages": {"a": 1}})
    yield "no session", {"externalSessionId": None}


def add_damaged(store: OlderStore, number: int, value: Any) -> None:
    if isinstance(value, bytes) and value[:1] == b"{":
        store.add_text(f"session-{number}", value)
    else:
        store.add(f"session-{number}", value)


def first_store(
    path: Path, sessions: int, messages: int, *, damage_every: int = 0, fault: str | None = None
) -> list[int]:
    """A file of the first version. Returns the numbers of the damaged sessions: ``fault``, or each kind by turns."""
    store = OlderStore(path)
    bad: list[int] = []
    for number in range(1, sessions + 1):
        if damage_every and number % damage_every == 0:
            faults = dict(damaged(number, messages))
            add_damaged(store, number, faults[fault or list(faults)[len(bad) % len(faults)]])
            bad.append(number)
        else:
            store.add(f"session-{number}", session(f"session-{number}", transcript(number, messages)))
    store.close()
    return bad


def migrate(path: Path) -> Registry:
    """Open the file as a start does; what is loaded from it."""
    log = Log("state", path.parent / "log")
    assert open_store(path, durability="normal", log=log) == "1"
    registry = load(path, log, fresh=False)
    log.close()
    return registry


def query(path: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """What a reader of the file sees now."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(sql, parameters).fetchall()
    finally:
        connection.close()


def dump(path: Path, *, without: Sequence[str] = ()) -> Dump:
    """Every table with its definition and every value with its type and bytes, in the order of their keys."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name").fetchall()
        found: Dump = {"schema": [row for row in schema if row[2] not in without]}
        for kind, table, _, _ in schema:
            if kind == "table" and table not in without:
                found[str(table)] = _rows(connection, str(table))
        return found
    finally:
        connection.close()


def _rows(connection: apsw.Connection, table: str) -> list[tuple[Any, ...]]:
    columns = [str(name) for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]
    values = ", ".join(f'typeof("{column}"), CAST("{column}" AS BLOB)' for column in columns)
    rowid = "" if "WITHOUT ROWID" in _definition(connection, table) else "rowid, "
    return connection.execute(f'SELECT {rowid}{values} FROM "{table}"').fetchall()


def _definition(connection: apsw.Connection, table: str) -> str:
    return str(connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get)
