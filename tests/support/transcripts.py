"""Search, export and import as the gateway asks `state` for them, and the index checked behind its back."""

import hashlib
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from termal.wire.transcript_operations import (
    EXPORT_READ,
    IMPORT_BEGIN,
    IMPORT_FINISH,
    IMPORT_MESSAGES,
    SEARCH,
    BeginImport,
    FinishImport,
    ImportBegun,
    ImportMessages,
    ReadExport,
    Search,
)
from tests.support.state_worker import Json, StateWorker, text_message
from tests.support.waiting import wait_until


def search(state: StateWorker, query: str, **more: Any) -> Json:
    return state.json(SEARCH, Search(query=query, **more))


def places(found: Json) -> list[tuple[str, int]]:
    return [(hit["sessionId"], hit["position"]) for hit in found["hits"]]


def wait_complete(state: StateWorker) -> None:
    wait_until(lambda: search(state, "anything")["complete"], "everything to be indexed")


def stop_and_check(state: StateWorker) -> None:
    """Stop the worker once it has indexed everything; its index must be right then."""
    wait_complete(state)
    wait_until(lambda: state.rows("SELECT * FROM search_forgotten") == [], "the index to forget what is gone")
    state.stop()
    check_index(state)


def check_index(state: StateWorker) -> None:
    """The index is whole, and has exactly the messages that are there. For a worker that is not running."""
    connection = apsw.Connection(str(state.home.termal_db))
    try:
        connection.execute("INSERT INTO search_index(search_index) VALUES ('integrity-check')")
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        documents = connection.execute("SELECT session_id, position FROM search_documents ORDER BY 1, 2").fetchall()
        messages = connection.execute("SELECT session_id, position FROM messages ORDER BY 1, 2").fetchall()
        assert documents == messages
        indexed = connection.execute("SELECT rowid FROM search_index ORDER BY 1").fetchall()
        ids = connection.execute("SELECT id FROM search_documents ORDER BY 1").fetchall()
        assert indexed == ids
        for table in ("search_marked", "search_forgotten"):
            assert connection.execute(f"SELECT count(*) FROM {table}").get == 0
    finally:
        connection.close()


def export(state: StateWorker, session_id: str) -> list[bytes]:
    """Header and message lines, page by page."""
    page = state.ask(EXPORT_READ, ReadExport(session_id=session_id))
    lines = [page.header, *page.lines.splitlines()]
    while page.next < page.count:
        asked = ReadExport(session_id=session_id, position=page.next, count=page.count, after=page.last)
        page = state.ask(EXPORT_READ, asked)
        assert page.header == b""
        lines += page.lines.splitlines()
    return lines


def begin(state: StateWorker, header: bytes, key: str = "key") -> ImportBegun:
    return state.ask(IMPORT_BEGIN, BeginImport(key, json.dumps(json.loads(header)["session"]).encode()))


def bring_in(state: StateWorker, lines: Sequence[bytes], key: str = "key", slice_rows: int = 64) -> Json:
    """The created session of a whole import."""
    begun = begin(state, lines[0], key)
    messages = list(lines[1:])
    for first in range(0, len(messages), slice_rows):
        state.ask(IMPORT_MESSAGES, ImportMessages(begun.import_id, first, messages[first : first + slice_rows]))
    created: Json = state.json(IMPORT_FINISH, FinishImport(begun.import_id, key, len(messages)))["session"]
    return created


def header(**session: Any) -> bytes:
    """The first line of an export."""
    fields = {"name": "Brought", "agent": "Demo", "workdir": "/", "model": "auto", **session}
    return json.dumps({"format": "termal-session", "version": 1, "session": fields}).encode()


def lines(count: int, text: str = "said") -> list[bytes]:
    """An export of ``count`` messages, without its last line."""
    messages = [text_message(f"old-{number}", f"{text} {number}") for number in range(count)]
    return [header(), *(json.dumps(message).encode() for message in messages)]


def file_of(lines: Sequence[bytes]) -> bytes:
    """A complete export with its last line."""
    body = b"".join(line + b"\n" for line in lines)
    footer = {"end": True, "count": len(lines) - 1, "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps(footer, separators=(",", ":")).encode() + b"\n"


@contextmanager
def begun_import(url: str, body: bytes, more: int = 100) -> Iterator[socket.socket]:
    """The connection of an import that has sent ``body`` and wants to send ``more`` bytes."""
    head = "POST /api/sessions/import HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(f"{head}Content-Length: {len(body) + more}\r\n\r\n".encode() + body)
        yield connection
