"""The tables of ``coordination.sqlite`` and the version they carry. Other files' tables are never touched here."""

from pathlib import Path

from termal.model.ids import session_number
from termal.store.connection import BROKEN, Cursorlike, broken, open_reader
from termal.store.migration import Migrations, Version

VERSION_KEY = "coordination_schema_version"


def _create(connection: Cursorlike) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS coordination_board_deleted_scopes"
        " (scope_id TEXT PRIMARY KEY NOT NULL, deleted_at TEXT NOT NULL)"
    )


SCHEMA = Migrations(Version("1"), create=_create, key=VERSION_KEY)


def highest_session(path: Path) -> int:
    """The highest n of the ``session-{n}`` that take part in mail, 0 for none: state never gives such an id again."""
    reader = open_reader(path)
    try:
        if not reader.table_exists("main", "mailbox_participants"):
            return 0
        rows = reader.execute("SELECT DISTINCT session_id FROM mailbox_participants")
        return max((session_number(session_id) for (session_id,) in rows), default=0)
    except BROKEN as error:
        raise broken(path, error) from error
    finally:
        reader.close()
