"""Opening a file at its schema version: refuse foreign ones untouched, bring older ones up in one transaction."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw

from termal.faults import fault
from termal.store.connection import BROKEN, Cursorlike, Durability, broken, open_reader, open_writer, roll_back
from termal.store.files import StoreRefused, size_bytes

Step = Callable[[Cursorlike], None]
Look = Callable[[Cursorlike, Path], object]


class Version(NamedTuple):
    """``upgrade`` brings a file of the version before this one to it; the first supported version has none."""

    name: str
    upgrade: Step | None = None


class Migrations:
    """The versions of one kind of file, oldest first; the last one is what this build reads and writes.

    ``create`` runs at every opening, before the upgrades, and makes the tables that are missing; ``complete`` runs
    after them (small repairs that carry no version of their own). Both must change nothing where nothing is missing:
    a start on a full disk must not need a page. ``examine`` may refuse a file of ours for what it holds
    (`StoreRefused`) while nothing has been opened for writing. The version is kept in ``meta`` under ``key``.
    """

    def __init__(
        self,
        *versions: Version,
        create: Step,
        complete: Step | None = None,
        examine: Look | None = None,
        key: str = "schema_version",
    ) -> None:
        self._versions = versions
        self._names = [version.name for version in versions]
        self._create = create
        self._complete = complete
        self._examine = examine
        self.key = key

    @property
    def current(self) -> str:
        return self._names[-1]

    def apply(self, path: Path, *, durability: Durability) -> str | None:
        """Bring ``path`` to the current version, made fresh where it is missing; the version found, None for fresh.

        Raises `StoreRefused` with the file as it was. Other errors (`StoreError`: disk full, I/O) leave it as it was
        too, and may be gone at the next start.
        """
        if size_bytes(path):
            # Before the connection that writes: its very first setting would alter a foreign file.
            reader = open_reader(path)
            try:
                if self.check(reader, path) is not None and self._examine is not None:
                    self._examine(reader, path)
            finally:
                reader.close()
        connection = open_writer(path, durability=durability)
        try:
            return self.run(connection, path)
        finally:
            connection.close()

    def check(self, connection: Cursorlike, path: Path) -> str | None:
        """The file's version if it is one of ours, None for a fresh file. Raises `StoreRefused` for all else."""
        try:
            found = read_version(connection, self.key)
            tables = _tables(connection)
        except apsw.SQLError as error:
            raise StoreRefused(f"{path} is a database of another program ({error}); it was not changed") from error
        except BROKEN as error:
            raise broken(path, error) from error
        if found in self._names:
            return found
        if found is None and not tables:
            return None
        described = "no schema version beside its tables" if found is None else f"schema version {found!r}"
        raise StoreRefused(
            f"{path} has {described}; this build supports {self.current!r}"
            + (f" and upgrades from {', '.join(map(repr, self._names[:-1]))}" if self._names[1:] else "")
            + ". The file was not changed: use a build that knows it, or put back a backup"
        )

    def run(self, connection: Cursorlike, path: Path) -> str | None:
        """The upgrade in one transaction on an open connection; the version found before."""
        try:
            connection.execute("BEGIN IMMEDIATE")
            found = self.check(connection, path)
            self._create(connection)
            for version in self._after(found):
                fault("migration.step")
                if version.upgrade is not None:
                    version.upgrade(connection)
            if self._complete is not None:
                self._complete(connection)
            if found != self.current:
                connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (self.key, self.current))
            connection.execute("COMMIT")
        except (*BROKEN, apsw.ConstraintError, apsw.SQLError) as error:
            roll_back(connection)
            raise StoreRefused(
                f"{path} could not be brought to schema version {self.current!r} ({error}); it was not changed"
            ) from error
        except BaseException:
            roll_back(connection)
            raise
        return found

    def _after(self, found: str | None) -> tuple[Version, ...]:
        """The steps to take: none for a fresh file, which `create` makes at the current version."""
        return () if found is None else self._versions[self._names.index(found) + 1 :]


def read_version(connection: Cursorlike, key: str = "schema_version") -> str | None:
    """The recorded version, None where there is no ``meta`` table or no such row in it."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta'").fetchone():
        return None
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    return row[0] if isinstance(row[0], str) else repr(row[0])


def _tables(connection: Cursorlike) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    return [str(name) for (name,) in rows]
