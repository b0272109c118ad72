"""The first start on a data directory whose `termal.sqlite` still keeps mailboxes and boards: all of it or nothing."""

import contextlib
import hashlib
import shutil
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath

import apsw
import pytest

from termal.home import Home, find_home
from termal.log import Log
from termal.store.attach import read_only_uri
from termal.store.connection import Cursorlike
from termal.store.files import StoreRefused
from termal.wire.control import EXIT_REFUSED, Extend, Ready, Refused
from termal.worker.patience import EXTENSION_S
from tests.support.control_peer import ControlPeer
from tests.support.coordination_rows import add_board, add_mailbox, add_message, coordination_file
from tests.support.legacy_store import ALL, legacy_store
from tests.support.waiting import wait_until
from workers.coordination.bootstrap import bootstrap

MODULE = "workers.coordination"
STEPS = 10
"""Of an import of all tables: each of them, the comparison, the mark."""
Rows = list[tuple[object, ...]]


def boot(home_dir: Path, going_on: Callable[[], None] = lambda: None) -> Home:
    home = find_home(str(home_dir))
    with contextlib.closing(Log("test", home_dir / "logs" / "test.log")) as log:
        bootstrap(home, durability="normal", log=log, going_on=going_on)
    return home


def rows(path: Path, query: str) -> Rows:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def marker(home: Home) -> str | None:
    found = rows(home.coordination_db, "SELECT value FROM meta WHERE key = 'legacy_coordination_import_v1'")
    return str(found[0][0]) if found else None


def content(path: Path) -> str:
    """A digest of everything that a file holds, tables and rows, wherever its pages lie."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        schema = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
        digest = hashlib.sha256(repr(schema).encode())
        for kind, name, _ in schema:
            if kind == "table":
                digest.update(repr(sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"')))).encode())
        return digest.hexdigest()
    finally:
        connection.close()


def fill(connection: Cursorlike) -> None:
    """Two mailboxes with read and unread mail, a departed participant, a board with a tombstone, a fence."""
    first = add_mailbox(connection, "session-1", "session-2", cursors=(1, 0))
    add_message(connection, first, "session-1", "session-2", body="eins\n \t", state="recoveredWake")
    add_message(connection, first, "session-2", "session-1", body="zwei € \U0001f600", topic="", outcome="bogus")
    second = add_mailbox(connection, "session-3", "session-1")
    add_message(connection, second, "session-3", "session-1", outcome="queuedBehindActiveTurn")
    connection.execute("UPDATE mailbox_participants SET left_at = joined_at WHERE session_id = 'session-3'")
    add_board(connection, "project-1", keys=3)
    connection.execute("UPDATE coordination_board_entries SET value_json = NULL WHERE key = 'key-1'")
    connection.execute("INSERT INTO coordination_board_deleted_scopes VALUES ('project-0', '2026-01-01T00:00:00.000Z')")


def imported(home: Home) -> bool:
    return (
        rows(home.coordination_db, "SELECT count(*), sum(dispatch_outcome IS NULL) FROM mailbox_messages") == [(3, 0)]
        and rows(home.coordination_db, "SELECT count(*) FROM coordination_board_entries") == [(3,)]
        and rows(home.coordination_db, "SELECT count(*) FROM coordination_board_deleted_scopes") == [(1,)]
        and marker(home) == str(home.termal_db)
    )


MESSAGE = (
    "id, mailbox_id, sequence, sender_session_id, sender_name, target_session_id, target_name, created_at, class,"
    " topic, state_stamp, body, idempotency_key, unread_depth_at_append, notification_disposition"
)
SAME = [
    "SELECT * FROM mailboxes ORDER BY id",
    "SELECT * FROM mailbox_participants ORDER BY mailbox_id, session_id",
    f"SELECT {MESSAGE} FROM mailbox_messages ORDER BY id",
    "SELECT * FROM coordination_board_scopes ORDER BY scope_id",
    "SELECT * FROM coordination_board_entries ORDER BY scope_id, key",
    "SELECT * FROM coordination_board_history ORDER BY scope_id, key, revision",
    "SELECT * FROM coordination_board_idempotency ORDER BY rowid",
    "SELECT * FROM coordination_board_deleted_scopes ORDER BY scope_id",
]


def test_every_row_comes_over_once_and_the_old_file_keeps_its_own(home_dir: Path) -> None:
    with legacy_store(home_dir) as connection:
        fill(connection)
    before = content(home_dir / "termal.sqlite")
    home = boot(home_dir)
    assert imported(home)
    assert content(home.termal_db) == before
    for query in SAME:
        assert rows(home.coordination_db, query) == rows(home.termal_db, query), query
    outcomes = rows(home.coordination_db, "SELECT dispatch_outcome FROM mailbox_messages ORDER BY rowid")
    assert outcomes == [("durableButNotWoken",), ("durableButNotWoken",), ("queuedBehindActiveTurn",)]
    with legacy_store(home_dir, tables=()) as connection:
        add_mailbox(connection, "session-8", "session-9")
    boot(home_dir)
    assert imported(home)
    assert rows(home.coordination_db, "SELECT count(*) FROM mailboxes") == [(2,)]


def test_a_board_without_fences_and_mail_alone_are_complete(home_dir: Path, run_dir: Path) -> None:
    with legacy_store(home_dir, tables=[table for table in ALL if "deleted" not in table]) as connection:
        add_board(connection, "project-1", keys=2)
    assert rows(boot(home_dir).coordination_db, "SELECT count(*) FROM coordination_board_history") == [(2,)]
    other = run_dir / "other"
    with legacy_store(other, tables=[table for table in ALL if table.startswith("mailbox")]) as connection:
        add_mailbox(connection, "session-1", "session-2")
    assert rows(boot(other).coordination_db, "SELECT count(*) FROM mailbox_participants") == [(2,)]


def test_a_home_without_old_tables_or_without_the_file_is_marked_as_new(home_dir: Path, run_dir: Path) -> None:
    with legacy_store(home_dir, tables=()):
        pass
    assert marker(boot(home_dir)) == "no-legacy-state"
    with legacy_store(home_dir) as connection:
        fill(connection)
    assert marker(boot(home_dir)) == "no-legacy-state"
    assert rows(home_dir / "coordination.sqlite", "SELECT count(*) FROM mailboxes") == [(0,)]
    assert marker(boot(run_dir / "empty")) == "no-legacy-state"


@pytest.mark.case("C72")
def test_outcomes_that_the_old_file_does_not_know_are_worked_out_from_the_states(home_dir: Path) -> None:
    states = {
        "durableButNotWoken": "durableButNotWoken",
        "queuedBehindActiveTurn": "queuedBehindActiveTurn",
        "recoveredWake": "durableButNotWoken",
        "deliveredToIdleSession": "deliveredToIdleSession",
        "somethingElse": "durableButNotWoken",
    }
    with legacy_store(home_dir, outcomes=False) as connection:
        mailbox_id = add_mailbox(connection, "session-1", "session-2")
        for state in states:
            add_message(connection, mailbox_id, "session-1", "session-2", state=state)
    found = rows(
        boot(home_dir).coordination_db,
        "SELECT notification_disposition, dispatch_outcome FROM mailbox_messages ORDER BY sequence",
    )
    assert found == list(states.items())


# ----------------------------------------------------------------- the file's own older rows


@pytest.mark.case("C77")
def test_a_row_without_an_outcome_is_a_send_under_way_once_the_file_was_completed(home_dir: Path) -> None:
    with coordination_file(home_dir) as connection:
        mailbox_id = add_mailbox(connection, "session-1", "session-2")
        add_message(connection, mailbox_id, "session-1", "session-2", state="deliveredToIdleSession")
    home = boot(home_dir)
    assert rows(home.coordination_db, "SELECT dispatch_outcome FROM mailbox_messages") == [(None,)]


@pytest.mark.parametrize("has_column", [True, False], ids=["with the column", "without the column"])
def test_a_file_that_was_never_completed_is_completed_once(home_dir: Path, has_column: bool) -> None:
    with coordination_file(home_dir) as connection:
        mailbox_id = add_mailbox(connection, "session-1", "session-2")
        for state, outcome in (("queuedBehindActiveTurn", None), ("recoveredWake", "bogus")):
            add_message(connection, mailbox_id, "session-1", "session-2", state=state, outcome=outcome)
        if not has_column:
            connection.execute("ALTER TABLE mailbox_messages DROP COLUMN dispatch_outcome")
        connection.execute("DELETE FROM meta WHERE key = 'mailbox_dispatch_outcome_backfill_v1'")
    home = boot(home_dir)
    query = "SELECT dispatch_outcome FROM mailbox_messages ORDER BY sequence"
    assert rows(home.coordination_db, query) == [("queuedBehindActiveTurn",), ("durableButNotWoken",)]
    query = "SELECT value FROM meta WHERE key = 'mailbox_dispatch_outcome_backfill_v1'"
    assert rows(home.coordination_db, query) == [("complete",)]


# --------------------------------------------------------------------------------- refusals


def populated(connection: Cursorlike) -> None:
    fill(connection)


def with_text_for_a_number(connection: Cursorlike) -> None:
    fill(connection)
    connection.execute("UPDATE mailboxes SET next_sequence = '3' WHERE next_sequence = 3")


def with_an_orphan(connection: Cursorlike) -> None:
    fill(connection)
    connection.execute("UPDATE coordination_board_history SET scope_id = 'project-9' WHERE key = 'key-2'")


def with_a_repeated_key(connection: Cursorlike) -> None:
    fill(connection)
    connection.execute("UPDATE mailbox_messages SET idempotency_key = 'k', sender_session_id = 'session-1'")


def with_another_class(connection: Cursorlike) -> None:
    fill(connection)
    connection.execute("UPDATE mailbox_messages SET class = 'urgent'")


def without_a_column(connection: Cursorlike) -> None:
    fill(connection)
    connection.execute("ALTER TABLE mailbox_participants DROP COLUMN left_at")


def nothing(_: Cursorlike) -> None:
    pass


def without(*names: str) -> list[str]:
    return [table for table in ALL if table not in names]


BOARDS = [table for table in ALL if table.startswith("coordination_board")]


@pytest.mark.parametrize(
    ("tables", "change", "words"),
    [
        pytest.param(
            without("mailbox_messages"), nothing, "mailbox_messages", marks=pytest.mark.case("C75"), id="two of three"
        ),
        pytest.param(without("mailboxes", "mailbox_participants"), nothing, "mailboxes", id="messages alone"),
        pytest.param(["coordination_board_deleted_scopes"], nothing, "board_scopes", id="fences alone"),
        pytest.param(without("coordination_board_history"), nothing, "board_history", id="a board without history"),
        pytest.param(ALL, with_text_for_a_number, "mailboxes", id="a difference after the copy"),
        pytest.param(ALL, with_an_orphan, "FOREIGN KEY", id="a row without its parent"),
        pytest.param(ALL, with_a_repeated_key, "UNIQUE", id="one key twice"),
        pytest.param(ALL, with_another_class, "CHECK", id="a class that is not known"),
        pytest.param(ALL, without_a_column, "left_at", id="a column missing"),
    ],
)
def test_what_cannot_be_taken_over_whole_is_refused_and_both_files_stay(
    home_dir: Path, tables: list[str], change: Callable[[Cursorlike], None], words: str
) -> None:
    with legacy_store(home_dir, tables=tables) as connection:
        change(connection)
    before = content(home_dir / "termal.sqlite")
    for _ in range(2):
        with pytest.raises(StoreRefused) as refused:
            boot(home_dir)
        message = str(refused.value)
        assert words in message
        for name in ("termal.sqlite", "coordination.sqlite"):
            assert str(home_dir / name) in message
        assert "put back a backup" in message
        assert content(home_dir / "termal.sqlite") == before
        assert rows(home_dir / "coordination.sqlite", "SELECT name FROM sqlite_schema") == []


def test_a_repaired_file_is_imported_by_the_next_start(home_dir: Path) -> None:
    with legacy_store(home_dir) as connection:
        with_an_orphan(connection)
    with pytest.raises(StoreRefused):
        boot(home_dir)
    with legacy_store(home_dir, tables=()) as connection:
        connection.execute("UPDATE coordination_board_history SET scope_id = 'project-1' WHERE key = 'key-2'")
    assert imported(boot(home_dir))


@pytest.mark.parametrize("with_legacy", [True, False], ids=["with old rows", "without"])
def test_a_file_with_rows_and_without_a_mark_is_never_merged(home_dir: Path, with_legacy: bool) -> None:
    with coordination_file(home_dir) as connection:
        connection.execute("INSERT INTO coordination_board_deleted_scopes VALUES ('project-7', '')")
        connection.execute("DELETE FROM meta WHERE key = 'legacy_coordination_import_v1'")
    if with_legacy:
        with legacy_store(home_dir) as connection:
            fill(connection)
    before = (home_dir / "coordination.sqlite").read_bytes()
    with pytest.raises(StoreRefused, match="coordination_board_deleted_scopes and no mark"):
        boot(home_dir)
    assert (home_dir / "coordination.sqlite").read_bytes() == before


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_an_old_file_behind_a_link_is_refused(home_dir: Path, run_dir: Path, suffix: str) -> None:
    with legacy_store(home_dir) as connection:
        fill(connection)
    place = home_dir / f"termal.sqlite{suffix}"
    elsewhere = run_dir / "elsewhere"
    if place.exists():
        place.rename(elsewhere)
    else:
        elsewhere.touch()
    place.symlink_to(elsewhere)
    with pytest.raises(StoreRefused, match="symbolic link"):
        boot(home_dir)


def test_an_old_file_with_damage_in_its_mail_is_refused(home_dir: Path) -> None:
    with legacy_store(home_dir) as connection:
        mailbox_id = add_mailbox(connection, "session-1", "session-2")
        for _ in range(500):
            add_message(connection, mailbox_id, "session-1", "session-2", body="x" * 200)
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'mailbox_messages'").get
    with (home_dir / "termal.sqlite").open("r+b") as file:
        file.seek((page - 1) * 4096 + 100)
        file.write(b"\xee" * 3000)
    before = (home_dir / "termal.sqlite").read_bytes()
    with pytest.raises(StoreRefused, match="damaged"):
        boot(home_dir)
    assert (home_dir / "termal.sqlite").read_bytes() == before
    assert rows(home_dir / "coordination.sqlite", "SELECT name FROM sqlite_schema") == []


# ------------------------------------------------------------------------------ as a process


def test_a_refused_import_ends_the_worker_before_it_serves(home_dir: Path, run_dir: Path) -> None:
    with legacy_store(home_dir, tables=["mailboxes"]):
        pass
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        assert worker.wait() == EXIT_REFUSED
        assert "mailbox_messages" in worker.said(Refused)[0].message
        assert worker.said(Ready) == []


@pytest.mark.case("C73")
def test_kills_in_an_import_leave_nothing_of_it_and_the_next_start_repeats_it(home_dir: Path, run_dir: Path) -> None:
    with legacy_store(home_dir) as connection:
        fill(connection)
    home = find_home(str(home_dir))
    before = content(home.termal_db)
    faults = run_dir / "faults"
    faults.mkdir()
    for step in range(1, STEPS + 1):
        (faults / "coordination.import_step").write_text(f"kill {step}")
        with ControlPeer(MODULE, home_dir, run_dir, faults=faults) as worker:
            assert worker.wait() == -9
        assert rows(home.coordination_db, "SELECT name FROM sqlite_schema") == []
        assert content(home.termal_db) == before
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(Ready)
    assert imported(home)
    assert content(home.termal_db) == before


def test_a_kill_behind_the_commit_is_no_second_import(home_dir: Path, run_dir: Path) -> None:
    with legacy_store(home_dir) as connection:
        fill(connection)
    faults = run_dir / "faults"
    faults.mkdir()
    (faults / "coordination.import_committed").write_text("kill")
    with ControlPeer(MODULE, home_dir, run_dir, faults=faults) as worker:
        assert worker.wait() == -9
    assert imported(find_home(str(home_dir)))
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(Ready)
    assert imported(find_home(str(home_dir)))


def test_a_long_import_asks_for_the_time_that_it_takes(home_dir: Path, run_dir: Path) -> None:
    with legacy_store(home_dir) as connection:
        mailbox_id = add_mailbox(connection, "session-1", "session-2")
        for _ in range(2000):
            add_message(connection, mailbox_id, "session-1", "session-2")
    faults = run_dir / "faults"
    faults.mkdir()
    (faults / "coordination.import_working").write_text("hold")
    with ControlPeer(MODULE, home_dir, run_dir, faults=faults) as worker:
        wait_until((faults / "coordination.import_working.held").exists, "the import to work")
        assert worker.wait_for(Extend) == Extend(EXTENSION_S, "importing mailboxes and boards")
        assert worker.said(Ready) == []
        (faults / "coordination.import_working.go").touch()
        worker.wait_for(Ready)


# ----------------------------------------------------------------------------------- the URI


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PurePosixPath("/home/me/.termal/termal.sqlite"), "file:///home/me/.termal/termal.sqlite?mode=ro"),
        (PurePosixPath("/a b/100%/x?y#z/ü~"), "file:///a%20b/100%25/x%3Fy%23z/%C3%BC~?mode=ro"),
        (PurePosixPath("/a&b=c;d\\e"), "file:///a%26b%3Dc%3Bd%5Ce?mode=ro"),
        (PureWindowsPath("C:\\Users\\me\\termal.sqlite"), "file:///C:/Users/me/termal.sqlite?mode=ro"),
        (PureWindowsPath("\\\\box\\share\\termal.sqlite"), "file:////box/share/termal.sqlite?mode=ro"),
    ],
    ids=["plain", "reserved", "more reserved", "drive", "share"],
)
def test_a_path_becomes_a_uri_that_names_the_same_file(path: PurePosixPath | PureWindowsPath, uri: str) -> None:
    assert read_only_uri(path) == uri


@pytest.mark.parametrize("name", ["a b", "x?mode=rwc&y", "100%41#é", "c:d"])
def test_a_home_with_any_name_is_imported(run_dir: Path, name: str) -> None:
    home_dir = run_dir / name
    with legacy_store(home_dir) as connection:
        fill(connection)
    assert imported(boot(home_dir))


def test_files_that_others_may_read_are_closed_to_them_by_an_import(home_dir: Path) -> None:
    with legacy_store(home_dir) as connection:
        fill(connection)
    with coordination_file(home_dir / "other"):
        pass
    shutil.copy(home_dir / "other" / "coordination.sqlite", home_dir / "coordination.sqlite")
    with apsw.Connection(str(home_dir / "coordination.sqlite")) as copy:
        copy.execute("DELETE FROM meta WHERE key = 'legacy_coordination_import_v1'")
    copy.close()
    (home_dir / "coordination.sqlite").chmod(0o644)
    assert imported(boot(home_dir))
    for file in home_dir.glob("*.sqlite*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_linked_directory_is_refused_also_with_the_override(
    home_dir: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMAL_ALLOW_INSECURE_STATE_PERMISSIONS", "1")
    with legacy_store(home_dir) as connection:
        fill(connection)
    link = run_dir / "link"
    link.symlink_to(home_dir)
    with pytest.raises(StoreRefused, match="is a link"), contextlib.closing(Log("test")) as log:
        bootstrap(Home(link), durability="normal", log=log)
