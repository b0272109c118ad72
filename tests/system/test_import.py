"""The first start of a whole daemon on an old, a fresh and a spoiled data directory."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from termal.store.connection import Cursorlike, open_writer
from termal.wire.control import EXIT_REFUSED
from tests.support.coordination_rows import BOARD_TIME, TIME, add_board, add_mailbox, add_message, coordination_file
from tests.support.daemon import Daemon
from tests.support.legacy_store import legacy_store
from tests.support.stored import StoredSessions
from workers.coordination.schema import DATA_TABLES

pytestmark = pytest.mark.system

Dump = dict[str, list[str]]
MARKER = "SELECT value FROM meta WHERE key = 'legacy_coordination_import_v1'"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Cursorlike]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        yield connection
    finally:
        connection.close()


def rows(path: Path, query: str) -> list[Any]:
    with opened(path) as connection:
        return connection.execute(query).fetchall()


def dump(path: Path) -> Dump:
    """Every row of every table."""
    with opened(path) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {table: sorted(map(repr, connection.execute(f'SELECT * FROM "{table}"'))) for table in tables}


def two_sessions(home_dir: Path) -> tuple[str, str]:
    with StoredSessions(home_dir / "termal.sqlite", str(home_dir)) as sessions:
        return sessions.add(0), sessions.add(0)


@pytest.mark.case("C70")
@pytest.mark.case("C123")
def test_a_fresh_home_gets_both_files_and_the_mark_that_there_was_nothing(daemon: Daemon) -> None:
    assert rows(daemon.home.coordination_db, MARKER) == [("no-legacy-state",)]
    assert not set(dump(daemon.home.termal_db)) & set(DATA_TABLES)


@pytest.mark.case("C71")
def test_old_mail_and_boards_go_on_where_they_were_and_are_never_imported_again(home_dir: Path) -> None:
    one, other = two_sessions(home_dir)
    with legacy_store(home_dir) as connection:
        mailbox_id = add_mailbox(connection, one, other, cursors=(1, 1))
        add_message(connection, mailbox_id, one, other, outcome="deliveredToIdleSession")
        add_board(connection, "project-1", keys=2)
        connection.execute("UPDATE coordination_board_entries SET value_json = NULL WHERE key = 'key-1'")
        connection.execute("INSERT INTO coordination_board_deleted_scopes VALUES ('project-0', ?)", (BOARD_TIME,))
    old = dump(home_dir / "termal.sqlite")
    with Daemon(home_dir) as daemon:
        daemon.start()
        assert rows(daemon.home.coordination_db, MARKER) == [(str(daemon.home.termal_db),)]
        with daemon.client() as client:
            [mailbox] = client.get(f"/api/sessions/{other}/mailboxes").json()
            assert (mailbox["id"], mailbox["latestSequence"], mailbox["unreadCount"]) == (mailbox_id, 1, 0)
            sent = {"targetSessionId": other, "message": "on", "idempotencyKey": "k"}
            receipt = client.post(f"/api/sessions/{one}/mailboxes/send", json=sent)
            assert (receipt.status_code, receipt.json()["sequence"]) == (202, 2)
        tombstone = "SELECT revision, generation FROM coordination_board_entries WHERE value_json IS NULL"
        assert rows(daemon.home.coordination_db, tombstone) == [(2, 2)]
        fences = "SELECT * FROM coordination_board_deleted_scopes"
        assert rows(daemon.home.coordination_db, fences) == [("project-0", BOARD_TIME)]
        assert {table: dump(daemon.home.termal_db)[table] for table in DATA_TABLES} == {
            table: old[table] for table in DATA_TABLES
        }
        assert daemon.stop() == 0
        late = open_writer(daemon.home.termal_db, durability="normal")
        add_mailbox(late, one, "session-77")
        late.close()
        daemon.start()
        assert rows(daemon.home.coordination_db, "SELECT id FROM mailboxes") == [(mailbox_id,)]


def free_port() -> int:
    """Below those that the system gives to connections: one that is tried from its own port connects to itself."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


class Knocking:
    """Tries to connect to ``port`` all the time; ``accepted`` tells whether that ever worked."""

    def __init__(self) -> None:
        self.port = free_port()
        self.accepted = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._knock)

    def __enter__(self) -> "Knocking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _knock(self) -> None:
        while not self._end.wait(0.005):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                self.accepted = True


def spoiled(home_dir: Path) -> str:
    """Old rows that change when they are copied; what the refusal says of them."""
    with legacy_store(home_dir) as connection:
        add_mailbox(connection, "session-1", "session-2")
        connection.execute("UPDATE mailboxes SET next_sequence = '1'")
    return "differs"


def occupied(home_dir: Path) -> str:
    """A new file that somebody has worked with and that no import has marked."""
    with legacy_store(home_dir) as connection:
        add_mailbox(connection, "session-1", "session-2")
    with coordination_file(home_dir) as connection:
        connection.execute("DELETE FROM mailbox_participants")
        connection.execute("DELETE FROM mailboxes")
        connection.execute("DELETE FROM meta WHERE key = 'legacy_coordination_import_v1'")
        connection.execute(f"INSERT INTO mailboxes VALUES ('mailbox-x', 'k', '{TIME}', 1)")
    return "rows in mailboxes and no mark"


@pytest.mark.parametrize(
    "prepare",
    [pytest.param(spoiled, marks=pytest.mark.case("C124")), pytest.param(occupied, marks=pytest.mark.case("C74"))],
)
def test_a_refused_import_ends_the_start_before_anybody_could_connect(home_dir: Path, prepare: Any) -> None:
    words = prepare(home_dir)
    before = dump(home_dir / "termal.sqlite")
    target = home_dir / "coordination.sqlite"
    found = dump(target) if target.exists() else {}
    with Knocking() as knocking, Daemon(home_dir, environment={"TERMAL_PORT": str(knocking.port)}) as daemon:
        daemon.start(ready=False)
        assert daemon.wait_exit() == EXIT_REFUSED
        assert not knocking.accepted
        said = daemon.printed()
        assert words in said
        for name in ("termal.sqlite", "coordination.sqlite"):
            assert str(home_dir / name) in said
        assert "put back a backup" in said
    assert dump(home_dir / "termal.sqlite") == before
    assert dump(target) == found
