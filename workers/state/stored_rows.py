"""Session rows of an older file: read a few at a time, their JSON taken apart and put together again key by key."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from termal.store.connection import Cursorlike

SESSIONS = 16
"""Session rows in memory at a time; each may hold a whole transcript."""

_BATCH = (
    "SELECT rowid, typeof(id), CAST(id AS BLOB), typeof(value_json), CAST(value_json AS BLOB)"
    " FROM sessions WHERE rowid > ? ORDER BY rowid LIMIT ?"
)

decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
decode_list = msgspec.json.Decoder(list[Raw]).decode


class StoredRow(NamedTuple):
    """A session row as SQLite has it: types beside bytes."""

    rowid: int
    id_kind: str
    id: Any
    kind: str
    value: Any


def session_rows(connection: Cursorlike) -> Iterator[StoredRow]:
    """All session rows in rowid order, so read that each may be changed before the next comes."""
    last = -(1 << 63)
    while batch := [StoredRow(*row) for row in connection.execute(_BATCH, (last, SESSIONS))]:
        yield from batch
        last = batch[-1].rowid


def compact(text: bytes) -> str:
    """The same JSON without spaces. Raises `ValueError` for what is no UTF-8."""
    return bytes(msgspec.json.format(text, indent=-1)).decode()
