"""The rows of boards as records: heads and pages in one snapshot, receipts by their key. Reads alone."""

from typing import Any, NamedTuple

from msgspec import UNSET, Raw

from termal.faults import fault
from termal.model.board import BoardEntry, BoardHead, BoardPage
from termal.store.connection import Cursorlike
from termal.wire.codec import encode_json
from workers.coordination import board_refusal

COLUMNS = "key, revision, generation, value_json, author_session_id, author_name, updated_at, state_stamp"
_HEAD = f"SELECT {COLUMNS} FROM coordination_board_entries WHERE scope_id = ? AND key = ?"  # noqa: S608 - constants
_PAGE = (
    f"SELECT {COLUMNS} FROM coordination_board_entries"  # noqa: S608 - constants
    " WHERE scope_id = ? AND key > ? AND value_json IS NOT NULL ORDER BY key LIMIT ?"
)
_NULL = Raw(b"null")


class PageAsked(NamedTuple):
    scope_id: str
    after_key: str | None
    limit: int
    snapshot_generation: int | None
    known_generation: int | None


def is_fenced(connection: Cursorlike, scope_id: str) -> bool:
    found = connection.execute("SELECT 1 FROM coordination_board_deleted_scopes WHERE scope_id = ?", (scope_id,))
    return found.fetchone() is not None


def read_generation(connection: Cursorlike, scope_id: str) -> int:
    """0 for a scope that was never written to."""
    row = connection.execute(
        "SELECT generation FROM coordination_board_scopes WHERE scope_id = ?", (scope_id,)
    ).fetchone()
    return 0 if row is None else int(row[0])


def read_head(connection: Cursorlike, scope_id: str, key: str) -> BoardHead | None:
    """Deleted ones too."""
    row = connection.execute(_HEAD, (scope_id, key)).fetchone()
    return None if row is None else BoardHead(**_fields(row))


def read_entry(connection: Cursorlike, scope_id: str, key: str) -> bytes:
    """The final JSON of a key with a value. Raises `NotFound` with what there is instead."""
    generation = _open(connection, scope_id)
    row = connection.execute(_HEAD, (scope_id, key)).fetchone()
    if row is None:
        raise board_refusal.never_existed(key, generation)
    if row[3] is None:
        raise board_refusal.deleted(BoardHead(**_fields(row)), generation)
    return encode_json(BoardEntry(**_fields(row), scope_generation=generation))


def read_page(connection: Cursorlike, asked: PageAsked) -> bytes:
    """The final JSON of a page. Raises `NotFound`, and `Conflict` when the snapshot that is asked for is gone."""
    generation = _open(connection, asked.scope_id)
    if asked.snapshot_generation not in (None, generation):
        raise board_refusal.moved_on(generation)
    if asked.known_generation == generation:
        return encode_json(BoardPage(generation=generation, entries=[], unchanged=True))
    rows = connection.execute(_PAGE, (asked.scope_id, asked.after_key or "", asked.limit + 1)).fetchall()
    entries = [BoardHead(**_fields(row)) for row in rows[: asked.limit]]
    more = len(rows) > asked.limit
    return encode_json(
        BoardPage(
            generation=generation,
            entries=entries,
            unchanged=False,
            next_after_key=entries[-1].key if more else UNSET,
        )
    )


def _open(connection: Cursorlike, scope_id: str) -> int:
    """The generation of a scope that is not deleted."""
    fault("coordination.board_read")
    if is_fenced(connection, scope_id):
        raise board_refusal.scope_gone()
    return read_generation(connection, scope_id)


def _fields(row: tuple[Any, ...]) -> dict[str, Any]:
    key, revision, generation, value, author_id, author_name, updated_at, stamp = row
    return {
        "key": key,
        "revision": revision,
        "updated_at_generation": generation,
        "value": _NULL if value is None else Raw(value.encode()),
        "deleted": value is None,
        "author_session_id": author_id,
        "author_name": author_name,
        "updated_at": updated_at,
        "state_stamp": UNSET if stamp is None else stamp,
    }
