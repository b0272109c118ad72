"""``python -m workers.state.inspection``: what a start sets aside in `termal.sqlite`, listed or written out.

For people who look at damaged rows, through ``termal doctor``. Reads only, beside a running daemon or without one.
"""

import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from termal.log import Log
from termal.store.connection import Cursorlike, StoreError, open_reader
from termal.store.files import StoreRefused
from termal.wire.control import EXIT_REFUSED
from workers.state.load import Quarantined, load
from workers.state.store_schema import SCHEMA_VERSION, examine_store

EXIT_UNKNOWN = 1
EXIT_OLDER = 3
"""The file is of an older build: nothing is decided about its rows before a start has upgraded it."""
_VALUES = {
    "sessions": "SELECT typeof(value_json), CAST(value_json AS BLOB) FROM sessions WHERE rowid = ?",
    "delegations": "SELECT typeof(value_json), CAST(value_json AS BLOB) FROM delegations WHERE rowid = ?",
    "session_prompt_histories": (
        "SELECT typeof(value_json), CAST(value_json AS BLOB) FROM session_prompt_histories"
        " WHERE session_id = (SELECT id FROM sessions WHERE rowid = ?)"
    ),
    "session_overviews": (
        "SELECT typeof(value_blob), CAST(value_blob AS BLOB) FROM session_overviews"
        " WHERE session_id = (SELECT id FROM sessions WHERE rowid = ?)"
    ),
}
_MESSAGES = (
    "SELECT position, typeof(message_id), CAST(message_id AS BLOB), typeof(value_json), CAST(value_json AS BLOB)"
    " FROM messages WHERE session_id = (SELECT id FROM sessions WHERE rowid = ?) ORDER BY position"
)


class Older(Exception):
    """Not upgraded yet. The text is for the operator."""


class Listed(msgspec.Struct, frozen=True, rename="camel"):
    """One row that is set aside. ``messages``: rows of its transcript; one that was never moved out counts as none."""

    table: str
    id: str
    reason: str
    messages: int
    size_bytes: int


def quarantined(path: Path) -> list[Quarantined]:
    """What a start on this file sets aside. Raises `StoreRefused`, `Older` for a file that a start upgrades first."""
    reader = open_reader(path)
    try:
        version = examine_store(reader, path)
        whole = all(reader.table_exists("main", table) for table in _VALUES)
    finally:
        reader.close()
    if version is None:
        return []
    if version != SCHEMA_VERSION or not whole:
        raise Older(f"{path} is of an older build: the next start of the daemon upgrades it")
    rows: list[Quarantined] = []
    load(path, Log("inspection", Path("/dev/null")), fresh=False, isolated=rows.append)
    return rows


def listed(path: Path) -> list[Listed]:
    """The same with sizes, for people."""
    rows = quarantined(path)
    reader = open_reader(path)
    try:
        return [_listed(reader, row) for row in rows]
    finally:
        reader.close()


def contents(path: Path, row_id: str) -> Iterator[dict[str, Any]]:
    """Every stored byte of one row that is set aside, an object for each row. Raises KeyError for any other id."""
    found = [row for row in quarantined(path) if row.id == row_id]
    if not found:
        raise KeyError(row_id)
    reader = open_reader(path)
    try:
        reader.execute("BEGIN")
        for row in found:
            yield {"quarantined": row.id, "table": row.table, "reason": row.reason, "database": path.name}
            yield from _contents(reader, row)
    finally:
        reader.close()


def _contents(reader: Cursorlike, row: Quarantined) -> Iterator[dict[str, Any]]:
    tables = ("delegations",) if row.table == "delegations" else tuple(set(_VALUES) - {"delegations"})
    for table in sorted(tables):
        for kind, value in reader.execute(_VALUES[table], (row.rowid,)):
            yield {"table": table, "id": row.id, **_value("value", kind, value)}
    if row.table == "delegations":
        return
    for position, id_kind, message_id, kind, value in reader.execute(_MESSAGES, (row.rowid,)):
        identity = _value("messageId", id_kind, message_id)
        yield {"table": "messages", "position": position, **identity, **_value("value", kind, value)}


def _value(name: str, kind: Any, value: Any) -> dict[str, Any]:
    """A text as it is, everything else (and a text that is no UTF-8) in base64 under another name."""
    if kind == "text":
        try:
            return {name: bytes(value).decode()}
        except UnicodeDecodeError:
            pass
    return {f"{name}Base64": b64encode(value or b"").decode(), f"{name}Type": kind}


def _listed(reader: Cursorlike, row: Quarantined) -> Listed:
    messages = 0
    if row.table == "sessions":
        messages = reader.execute(
            "SELECT count(*) FROM messages WHERE session_id = (SELECT id FROM sessions WHERE rowid = ?)", (row.rowid,)
        ).get
    _, value = reader.execute(_VALUES[row.table], (row.rowid,)).fetchone() or ("null", None)
    return Listed(row.table, row.id, row.reason, messages, len(bytes(value or b"")))


def main(arguments: Sequence[str]) -> int:
    """``FILE`` lists, ``FILE ID`` writes one out; JSON lines on standard output, the reason of a refusal on stderr."""
    path, wanted = Path(arguments[0]), arguments[1:]
    try:
        for line in contents(path, wanted[0]) if wanted else listed(path):
            sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    except KeyError:
        sys.stderr.write(f"no row with the id {wanted[0]!r} is set aside\n")
        return EXIT_UNKNOWN
    except Older as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_OLDER
    except (StoreRefused, StoreError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
