"""Connections: the settings of writers and readers, the version guard. Never a connection without these settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import apsw

from termal.model.status import DatabaseStatus
from termal.store.files import StoreRefused, create, secure, size_bytes, wal

__all__ = [
    "ConstraintError",
    "Cursorlike",
    "Durability",
    "SchemaError",
    "StoreError",
    "StoreRefused",
    "check_version",
    "facts",
    "open_checkpointer",
    "open_copy",
    "open_reader",
    "open_writer",
    "sqlite_version",
]

Durability = Literal["normal", "full"]
"""``normal``: what is committed survives the end of any process. ``full``: it survives power loss too (one fsync)."""
Cursorlike = apsw.Connection
"""What a job gets: its ``execute`` makes a fresh cursor for each call. A job never begins, commits or rolls back."""
ConstraintError = apsw.ConstraintError
SchemaError = apsw.SQLError
"""A statement that cannot be compiled: it names a table or a column that is not there."""
StoreError = apsw.Error
"""Any failure of SQLite."""

OLDEST_SQLITE = (3, 51, 3)
"""3.7.0 to 3.51.2 can corrupt a WAL database when two connections write or checkpoint at the same instant."""
BUSY_MS = 5000
CACHE_KIB = 64 << 10
"""An upper bound: pages are taken as they are used."""
READER_CACHE_KIB = 2 << 10
"""PERF: a reader that walked 25 MB of history kept 24 MB of it; pages that it needs again are in the system's cache."""
CHECKPOINT_PAGES = 1000
"""PERF: a WAL that is reused commits in 149 us under FULL, one that keeps growing in 260-280."""

BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)


def sqlite_version() -> str:
    return apsw.sqlite_lib_version()


def check_version(version: Callable[[], str] = sqlite_version) -> None:
    """Raises `StoreRefused` for an SQLite that can corrupt the file."""
    found = version()
    if tuple(int(part) for part in found.split(".")[:3]) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreRefused(f"SQLite {found} can corrupt a database in WAL mode: {oldest} or newer is needed")


def open_writer(path: Path, *, durability: Durability, uris: bool = False) -> apsw.Connection:
    """The writing connection, its file made (0600) where it is missing. Raises `StoreRefused`, `StoreError`.

    ``uris``: databases may be attached to it by URI, which alone can say that one is not to be written.
    """
    check_version()
    create(path)
    secure(path)

    def settle(connection: apsw.Connection) -> None:
        _set(connection, "journal_mode", "WAL")
        set_durability(connection, durability)
        _set(connection, "foreign_keys", 1)
        connection.wal_autocheckpoint(CHECKPOINT_PAGES)
        secure(path)

    return _open(path, apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_URI if uris else 0), settle)


def open_reader(path: Path) -> apsw.Connection:
    """A connection that cannot write. Raises `StoreRefused`, `StoreError`; a missing file is refused."""
    check_version()
    secure(path)
    if not path.exists():
        raise StoreRefused(f"{path} is not there")

    def settle(connection: apsw.Connection) -> None:
        _set(connection, "query_only", 1)
        _set(connection, "cache_size", -READER_CACHE_KIB)
        # A reader that happens to be the last to close must not checkpoint: that is the writer's work.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    return _open(path, apsw.SQLITE_OPEN_READONLY, settle)


def open_checkpointer(path: Path) -> apsw.Connection:
    """A connection for checkpoints alone; the writer has made the file. Raises `StoreRefused`, `StoreError`."""

    def settle(connection: apsw.Connection) -> None:
        # Of all syncs the strongest, on whichever durability the writer is: nobody waits for them here.
        set_durability(connection, "full")
        _set(connection, "cache_size", -READER_CACHE_KIB)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    return _open(path, apsw.SQLITE_OPEN_READWRITE, settle)


def open_copy(path: Path) -> apsw.Connection:
    """The new file of a backup: every page comes from its source, so nothing is set that a page would hold."""
    create(path)
    return _open(path, apsw.SQLITE_OPEN_READWRITE, lambda connection: _set(connection, "synchronous", "FULL"))


def set_durability(connection: apsw.Connection, durability: Durability) -> None:
    """Outside a transaction. ``full`` also asks macOS, whose fsync does not reach the disk, for the one that does."""
    full = durability == "full"
    _set(connection, "synchronous", "FULL" if full else "NORMAL")
    _set(connection, "fullfsync", int(full))


def roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def broken(path: Path, error: apsw.Error) -> StoreRefused:
    return StoreRefused(f"{path} is damaged or no SQLite database ({error}): put back a backup of it")


def facts(path: Path, schema_version: str, quarantined: int = 0) -> DatabaseStatus:
    """Figures for status, from the file system alone: cheap enough for a loop's thread."""
    return DatabaseStatus(
        name=path.name,
        bytes=size_bytes(path),
        wal_bytes=size_bytes(wal(path)),
        schema_version=schema_version,
        sqlite_version=sqlite_version(),
        quarantined=quarantined,
    )


def _open(path: Path, flags: int, settle: Callable[[apsw.Connection], None]) -> apsw.Connection:
    try:
        connection = apsw.Connection(str(path), flags=flags)
    except apsw.CantOpenError as error:
        raise StoreRefused(f"{path} cannot be opened ({error})") from error
    try:
        connection.set_busy_timeout(BUSY_MS)
        _set(connection, "cache_size", -CACHE_KIB)
        _set(connection, "mmap_size", 0)
        settle(connection)
    except BROKEN as error:
        connection.close()
        raise broken(path, error) from error
    except apsw.CantOpenError as error:
        connection.close()
        raise StoreRefused(f"{path} cannot be opened ({error})") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _set(connection: apsw.Connection, name: str, value: str | int) -> None:
    connection.execute(f"PRAGMA {name} = {value}").fetchall()
