"""Connections: their settings, the guard against faulty versions of SQLite, modes and links of the files."""

import os
import stat
from pathlib import Path

import apsw
import pytest

from termal.home import OVERRIDE
from termal.store.connection import StoreRefused, check_version, facts, open_reader, open_writer, sqlite_version
from tests.support.store_owner import create, insert


@pytest.fixture
def path(run_dir: Path) -> Path:
    return run_dir / "home" / "things.sqlite"


def setting(connection: apsw.Connection, name: str) -> object:
    return (connection.execute(f"PRAGMA {name}").fetchone() or (None,))[0]


def filled(path: Path) -> apsw.Connection:
    """A writer with its sidecars on the disk."""
    connection = open_writer(path, durability="normal")
    create(connection)
    insert(1)(connection)
    return connection


@pytest.mark.parametrize("found", ["3.40.1", "3.51.2", "3.7.0"])
def test_an_sqlite_that_can_corrupt_the_file_is_refused(found: str) -> None:
    with pytest.raises(StoreRefused, match=r"3\.51\.3"):
        check_version(lambda: found)


@pytest.mark.parametrize("found", ["3.51.3", "3.52.0", "4.0.0"])
def test_a_sound_sqlite_is_accepted(found: str) -> None:
    check_version(lambda: found)


@pytest.mark.parametrize(("durability", "level"), [("normal", 1), ("full", 2)])
def test_a_writer_has_the_settings_that_were_measured(path: Path, durability: str, level: int) -> None:
    connection = open_writer(path, durability="full" if durability == "full" else "normal")
    try:
        found = {
            name: setting(connection, name)
            for name in ("journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint", "cache_size")
        }
        assert found == {
            "journal_mode": "wal",
            "synchronous": level,
            "foreign_keys": 1,
            "wal_autocheckpoint": 1000,
            "cache_size": -65536,
        }
        assert setting(connection, "busy_timeout") == 5000
        assert setting(connection, "mmap_size") == 0
    finally:
        connection.close()


def test_a_reader_cannot_write(path: Path) -> None:
    writer = filled(path)
    reader = open_reader(path)
    try:
        assert reader.execute("SELECT text FROM items").fetchall() == [("item 1",)]
        with pytest.raises(apsw.ReadOnlyError):
            reader.execute("DELETE FROM items")
        assert setting(reader, "query_only") == 1
    finally:
        reader.close()
        writer.close()


def test_a_reader_of_a_missing_file_is_refused_and_makes_none(path: Path) -> None:
    with pytest.raises(StoreRefused, match="not there"):
        open_reader(path)
    assert not path.exists()


def test_all_files_are_made_for_their_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        connection = filled(path)
    finally:
        os.umask(before)
    try:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        for suffix in ("", "-wal", "-shm"):
            assert stat.S_IMODE(path.with_name(path.name + suffix).stat().st_mode) == 0o600, suffix
    finally:
        connection.close()


def test_modes_that_are_too_open_are_repaired(path: Path) -> None:
    filled(path).close()
    path.chmod(0o644)
    path.parent.chmod(0o755)
    open_writer(path, durability="normal").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_mode_that_cannot_be_changed_is_refused_unless_the_operator_allows_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path).close()
    path.chmod(0o644)

    def refused(_: Path, __: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refused)
    with pytest.raises(StoreRefused, match="open to others"):
        open_writer(path, durability="normal")
    monkeypatch.setenv(OVERRIDE, "1")
    open_writer(path, durability="normal").close()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("override", ["", "1"], ids=["plain", "override"])
def test_a_link_is_refused_whatever_the_operator_allows(
    path: Path, run_dir: Path, suffix: str, override: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OVERRIDE, override)
    filled(path).close()
    place = path.with_name(path.name + suffix)
    place.unlink(missing_ok=True)
    elsewhere = run_dir / "elsewhere"
    elsewhere.touch()
    place.symlink_to(elsewhere)
    with pytest.raises(StoreRefused, match="symbolic link"):
        open_writer(path, durability="normal")
    with pytest.raises(StoreRefused, match="symbolic link"):
        open_reader(path)
    assert elsewhere.read_bytes() == b""


def test_a_linked_directory_is_refused(run_dir: Path) -> None:
    (run_dir / "real").mkdir()
    (run_dir / "home").symlink_to(run_dir / "real")
    with pytest.raises(StoreRefused, match="link"):
        open_writer(run_dir / "home" / "things.sqlite", durability="normal")
    assert list((run_dir / "real").iterdir()) == []


def test_a_file_that_is_no_database_is_refused_unchanged(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"something else" * 1000)
    path.chmod(0o600)
    with pytest.raises(StoreRefused, match=r"things\.sqlite is damaged"):
        open_writer(path, durability="normal")
    with pytest.raises(StoreRefused, match="damaged"):
        open_reader(path)
    assert path.read_bytes() == b"something else" * 1000


def test_a_directory_in_the_place_of_the_file_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    path.parent.chmod(0o700)
    with pytest.raises(StoreRefused, match="no regular file"):
        open_writer(path, durability="normal")


def test_facts_are_the_sizes_and_versions_of_the_file(path: Path) -> None:
    connection = filled(path)
    try:
        found = facts(path, "2", quarantined=3)
        assert found.bytes == path.stat().st_size
        assert found.wal_bytes == path.with_name("things.sqlite-wal").stat().st_size > 0
    finally:
        connection.close()
    assert (found.name, found.schema_version, found.quarantined) == ("things.sqlite", "2", 3)
    assert found.sqlite_version == sqlite_version()
    assert facts(path, "2").wal_bytes == 0
