"""The rows of departures: who left which mailbox and when. Jobs for the writer; a departure is written by nobody else.

A repair takes stale departures back before it knows for certain that they are stale. What it took is remembered in
``meta``, in the same commit, until it is certain: an end of the process in between is found by the next start.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from termal.store.connection import BROKEN, Cursorlike, broken, open_reader
from workers.coordination.schema import read_meta, write_meta

_PREFIX = "left_at_repair:"
_BEYOND = "left_at_repair;"
"""The first key behind all those with the prefix."""

Pairs = list[tuple[str, str]]
"""Mailbox and the time of departure from it."""


class Departed(NamedTuple):
    """``left``: sessions that some mailbox thinks gone. ``unsettled``: those with a repair that was cut off."""

    left: set[str]
    unsettled: set[str]


def departed(path: Path) -> Departed:
    """What the file says at the start. Raises `StoreRefused` when it cannot be read."""
    reader = open_reader(path)
    try:
        # PERF: by itself SQLite walks the index of all participants, 50 ms for a million of whom nobody left.
        left = reader.execute(
            "SELECT DISTINCT session_id FROM mailbox_participants INDEXED BY mailbox_participants_left"
            " WHERE left_at IS NOT NULL"
        )
        found = {session_id for (session_id,) in left}
        open_repairs = reader.execute("SELECT key FROM meta WHERE key >= ? AND key < ?", (_PREFIX, _BEYOND))
        return Departed(found, {key.removeprefix(_PREFIX) for (key,) in open_repairs})
    except BROKEN as error:
        raise broken(path, error) from error
    finally:
        reader.close()


def depart(connection: Cursorlike, session_ids: Iterable[str], at: str) -> set[str]:
    """Mark the sessions as gone wherever they take part and are not gone already; those that had such a place."""
    gone: set[str] = set()
    for session_id in session_ids:
        connection.execute(
            "UPDATE mailbox_participants SET left_at = ? WHERE session_id = ? AND left_at IS NULL", (at, session_id)
        )
        if connection.changes():
            gone.add(session_id)
    return gone


def clear(connection: Cursorlike, session_id: str) -> Pairs:
    """Take every departure of the session back and remember it; what was taken back."""
    rows: Any = connection.execute(
        "SELECT mailbox_id, left_at FROM mailbox_participants WHERE session_id = ? AND left_at IS NOT NULL",
        (session_id,),
    )
    pairs: Pairs = list(rows)
    if pairs:
        connection.execute(
            "UPDATE mailbox_participants SET left_at = NULL WHERE session_id = ? AND left_at IS NOT NULL", (session_id,)
        )
        write_meta(connection, _PREFIX + session_id, msgspec.json.encode(pairs).decode())
    return pairs


def restore(connection: Cursorlike, session_id: str) -> bool:
    """Put back exactly what was remembered, where nothing newer stands; False when nothing is remembered."""
    remembered = read_meta(connection, _PREFIX + session_id)
    if remembered is None:
        return False
    connection.executemany(
        "UPDATE mailbox_participants SET left_at = ?2 WHERE mailbox_id = ?1 AND session_id = ?3 AND left_at IS NULL",
        ((mailbox_id, at, session_id) for mailbox_id, at in msgspec.json.decode(remembered, type=Pairs)),
    )
    keep(connection, session_id)
    return True


def keep(connection: Cursorlike, session_id: str) -> None:
    """The repair was right: nothing is remembered any more."""
    connection.execute("DELETE FROM meta WHERE key = ?", (_PREFIX + session_id,))


def has_left(connection: Cursorlike, session_id: str) -> bool:
    return bool(
        connection.execute(
            "SELECT EXISTS (SELECT 1 FROM mailbox_participants WHERE session_id = ? AND left_at IS NOT NULL)",
            (session_id,),
        ).get
    )
