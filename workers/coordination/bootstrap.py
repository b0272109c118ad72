"""Bringing ``coordination.sqlite`` to what this build works with, before anything of it is served.

Everything that a start has to change is one transaction: tables, the import from `termal.sqlite`, its mark. A start
that is refused or ended in the middle leaves both files as they were.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from termal.faults import fault
from termal.home import Home
from termal.log import Log
from termal.store.attach import attached
from termal.store.connection import Cursorlike, Durability, SchemaError, open_reader, open_writer
from termal.store.files import StoreRefused, secure, size_bytes
from termal.store.migration import Migrations, Version
from workers.coordination.legacy_import import (
    LEGACY,
    ImportRefused,
    import_legacy,
    is_marked,
    mark_fresh,
    require_empty,
)
from workers.coordination.marks import complete_deliveries
from workers.coordination.outcomes import add_outcome_column, complete_outcomes
from workers.coordination.schema import SCHEMA, VERSION_KEY, create_tables

_STEPS = 20_000
"""Of SQLite's machine between two reports that the work goes on: a few milliseconds."""


def bootstrap(home: Home, *, durability: Durability, log: Log, going_on: Callable[[], None] = lambda: None) -> None:
    """Make, check or complete the file, and import what `termal.sqlite` still keeps of it, once.

    ``going_on`` is called again and again while a long import works. Raises `StoreRefused` with both files as they
    were and the operator's next step in its text, `StoreError` when the disk fails.
    """
    path = home.coordination_db
    wants_import = not is_ready(home)
    connection = open_writer(path, durability=durability, uris=True)
    try:
        if not wants_import:
            _complete(connection, path, lambda _: None)
        elif not os.path.lexists(home.termal_db):
            _complete(connection, path, mark_fresh)
        else:
            _import(connection, home, log, going_on)
    finally:
        connection.close()
    secure(path)


def is_ready(home: Home) -> bool:
    """Whether the file has its mark. Nothing has been opened for writing when this refuses it."""
    path = home.coordination_db
    if not size_bytes(path):
        return False
    reader = open_reader(path)
    try:
        if SCHEMA.check(reader, path) is None:
            return False
        if is_marked(reader):
            return True
        with _explained(home):
            _require_unused(reader)
    finally:
        reader.close()
    return False


def _require_unused(reader: Cursorlike) -> None:
    try:
        require_empty(reader)
    except SchemaError:
        # A table is missing, so the file is one of an early build; what it has is looked at again when all are there.
        return


def _import(connection: Cursorlike, home: Home, log: Log, going_on: Callable[[], None]) -> None:
    legacy = home.termal_db

    def take_over(connection: Cursorlike) -> None:
        copied = import_legacy(connection, str(legacy))
        if copied.tables:
            log.info("coordination.imported", rows=copied.rows, tables=len(copied.tables))

    def still_working() -> bool:
        going_on()
        fault("coordination.import_working")
        return False

    with _explained(home), attached(connection, legacy, LEGACY):
        connection.set_progress_handler(still_working, _STEPS)
        try:
            _complete(connection, home.coordination_db, take_over)
        finally:
            connection.set_progress_handler(None)
        fault("coordination.import_committed")


def _complete(connection: Cursorlike, path: Path, fill: Callable[[Cursorlike], None]) -> None:
    def complete(connection: Cursorlike) -> None:
        add_outcome_column(connection)
        # Looked at again: now nobody else can write.
        if not is_marked(connection):
            fill(connection)
        complete_outcomes(connection)
        complete_deliveries(connection)

    Migrations(Version(SCHEMA.current), create=create_tables, complete=complete, key=VERSION_KEY).run(connection, path)


@contextmanager
def _explained(home: Home) -> Iterator[None]:
    """Every refusal of an import tells the operator of both files and of the way out."""
    try:
        yield
    except (ImportRefused, StoreRefused) as error:
        raise StoreRefused(
            f"the mailboxes and boards kept in {home.termal_db} were not taken over into {home.coordination_db}:"
            f" {error}. Nothing was served and neither file was changed. Stop TermAl and keep both files; repair"
            f" {home.termal_db.name}, put back a backup of it, or use a build that knows it, then start again: the"
            f" import begins anew. Move {home.coordination_db.name} aside only if a first start that failed made it"
            " and it never served anything"
        ) from error
