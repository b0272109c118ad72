"""The migrations runner: which files are refused untouched, which are brought up, and that it is all or nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from termal.store.connection import Cursorlike, StoreError, StoreRefused, open_reader, open_writer
from termal.store.migration import Migrations, Version, read_version

META = "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"


def tables(connection: Cursorlike) -> None:
    connection.execute(META)
    connection.execute("CREATE TABLE IF NOT EXISTS items (number INTEGER PRIMARY KEY, text TEXT NOT NULL)")


def capitals(connection: Cursorlike) -> None:
    connection.execute("UPDATE items SET text = upper(text)")


def no_change(_: Cursorlike) -> None:
    pass


THINGS = Migrations(Version("1"), Version("2", capitals), create=tables)


@pytest.fixture
def path(run_dir: Path) -> Path:
    return run_dir / "things.sqlite"


def old_file(path: Path, version: object, *, rows: int = 3) -> None:
    connection = apsw.Connection(str(path))
    tables(connection)
    connection.execute("DELETE FROM meta")
    if version is not None:
        connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", (version,))
    for number in range(rows):
        connection.execute("INSERT INTO items VALUES (?, ?)", (number, f"item {number}"))
    connection.close()


def texts(path: Path) -> list[str]:
    reader = open_reader(path)
    try:
        return [text for (text,) in reader.execute("SELECT text FROM items ORDER BY number")]
    finally:
        reader.close()


def version(path: Path) -> str | None:
    reader = open_reader(path)
    try:
        return read_version(reader)
    finally:
        reader.close()


@pytest.mark.parametrize("empty", [False, True], ids=["no file", "empty file"])
def test_a_fresh_file_gets_the_tables_and_the_current_version(path: Path, empty: bool) -> None:
    if empty:
        path.touch()
    assert THINGS.apply(path, durability="normal") is None
    assert version(path) == "2"
    assert texts(path) == []


def test_an_old_file_is_brought_up_once(path: Path) -> None:
    old_file(path, "1")
    assert THINGS.apply(path, durability="normal") == "1"
    assert (version(path), texts(path)) == ("2", ["ITEM 0", "ITEM 1", "ITEM 2"])
    assert THINGS.apply(path, durability="normal") == "2"


def test_a_file_of_the_current_version_is_used_without_writing_a_page(path: Path) -> None:
    THINGS.apply(path, durability="normal")
    before = path.read_bytes()
    connection = open_writer(path, durability="normal")
    try:
        changes = connection.total_changes()
        assert THINGS.run(connection, path) == "2"
        assert connection.total_changes() == changes
    finally:
        connection.close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("found", ["3", "02", "", "1.0", " 2", "two", None, b"2"], ids=repr)
def test_a_foreign_version_is_refused_before_anything_is_altered(path: Path, found: object) -> None:
    old_file(path, found)
    before = path.read_bytes()
    names = sorted(path.parent.iterdir())
    with pytest.raises(StoreRefused) as refused:
        THINGS.apply(path, durability="normal")
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == names
    message = str(refused.value)
    assert "'2'" in message
    assert "things.sqlite" in message
    assert ("no schema version" if found is None else repr(found)) in message


def test_tables_without_any_version_are_refused(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE somebody_elses (number INTEGER)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="no schema version"):
        THINGS.apply(path, durability="normal")
    assert path.read_bytes() == before


def test_a_meta_table_of_another_program_is_refused(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE meta (name TEXT, content TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="another program"):
        THINGS.apply(path, durability="normal")
    assert path.read_bytes() == before


def test_a_file_with_a_damaged_schema_page_is_refused(path: Path) -> None:
    old_file(path, "2")
    page = bytearray(path.read_bytes())
    page[100:140] = b"\xff" * 40
    path.write_bytes(bytes(page))
    with pytest.raises(StoreRefused, match="damaged"):
        THINGS.apply(path, durability="normal")
    assert path.read_bytes() == bytes(page)


def test_a_foreign_file_with_a_log_of_a_killed_process_keeps_its_content(path: Path) -> None:
    source = path.with_name("source.sqlite")
    old_file(source, "7")
    connection = apsw.Connection(str(source))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("INSERT INTO items VALUES (9, 'in the log alone')")
    for suffix in ("", "-wal"):
        path.with_name(path.name + suffix).write_bytes(source.with_name(source.name + suffix).read_bytes())
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="'7'"):
        THINGS.apply(path, durability="normal")
    assert path.read_bytes() == before
    assert texts(path)[-1] == "in the log alone"


def test_a_step_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    def broken(connection: Cursorlike) -> None:
        capitals(connection)
        connection.execute("INSERT INTO items VALUES (0, 'taken')")

    old_file(path, "1")
    with pytest.raises(StoreRefused, match="not changed"):
        Migrations(Version("1"), Version("2", broken), create=tables).apply(path, durability="normal")
    assert (version(path), texts(path)[0]) == ("1", "item 0")


def test_a_full_disk_is_no_refusal_and_leaves_the_file_as_it_was(path: Path) -> None:
    def large(connection: Cursorlike) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone() or (0,)
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
        connection.execute("INSERT INTO items VALUES (100, ?)", ("x" * 40_000,))

    old_file(path, "1")
    with pytest.raises(StoreError, match="full"):
        Migrations(Version("1"), Version("2", large), create=tables).apply(path, durability="normal")
    assert (version(path), len(texts(path))) == ("1", 3)


def test_the_small_repairs_run_at_every_opening_after_the_upgrades(path: Path) -> None:
    seen: list[list[str]] = []

    def complete(connection: Cursorlike) -> None:
        seen.append([text for (text,) in connection.execute("SELECT text FROM items")])

    things = Migrations(Version("1"), Version("2", capitals), create=tables, complete=complete)
    old_file(path, "1", rows=1)
    things.apply(path, durability="normal")
    things.apply(path, durability="normal")
    assert seen == [["ITEM 0"], ["ITEM 0"]]


def test_a_file_two_versions_behind_takes_both_steps_in_order(path: Path) -> None:
    def exclaim(connection: Cursorlike) -> None:
        connection.execute("UPDATE items SET text = text || '!' WHERE text = upper(text)")

    old_file(path, "1", rows=1)
    things = Migrations(Version("1"), Version("2", capitals), Version("3", exclaim), create=tables)
    assert things.apply(path, durability="normal") == "1"
    assert (version(path), texts(path)) == ("3", ["ITEM 0!"])


def test_killed_inside_the_migration_the_file_is_the_old_one_and_migrates_at_the_next_start(
    path: Path, run_dir: Path
) -> None:
    old_file(path, "1")
    faults = run_dir / "faults"
    faults.mkdir()
    (faults / "migration.step").write_text("kill")
    program = (
        "import sys; from pathlib import Path; from tests.component.test_store_migration import THINGS; "
        "THINGS.apply(Path(sys.argv[1]), durability='normal')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TERMAL_FAULTS": str(faults)},
        timeout=20,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert (version(path), texts(path)[0]) == ("1", "item 0")
    assert THINGS.apply(path, durability="normal") == "1"
    assert texts(path)[0] == "ITEM 0"
