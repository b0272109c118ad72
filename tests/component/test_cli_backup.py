"""``termal backup`` and ``termal restore`` on real files: a pair of one instant, and never a mixture of two."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.cli import main as cli
from termal.home import Home, find_home, prepare
from termal.procs.lock import DirectoryLock, Owner
from termal.store.backup import back_up_together
from termal.store.connection import Cursorlike, open_reader, open_writer
from termal.wire.control import EXIT_LOCKED, EXIT_REFUSED
from tests.support.coordination_rows import add_mailbox, coordination_file
from tests.support.stored import StoredSessions

NAMES = ("termal.sqlite", "coordination.sqlite")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Cursorlike]:
    with contextlib.closing(open_reader(path)) as reader:
        yield reader


def facts(home: Home) -> tuple[int, int]:
    """Sessions in the one file, mailboxes in the other."""
    with reading(home.termal_db) as state, reading(home.coordination_db) as mail:
        return (
            state.execute("SELECT count(*) FROM sessions").get,
            mail.execute("SELECT count(*) FROM mailboxes").get,
        )


def grow(home: Home, number: int) -> None:
    """One more mailbox; and a session that stays as it is."""
    with coordination_file(home.root) as connection:
        add_mailbox(connection, "session-1", f"session-{number}")


@pytest.fixture
def home(home_dir: Path) -> Home:
    found = find_home(str(home_dir))
    with StoredSessions(found.termal_db) as sessions:
        sessions.add(3)
    grow(found, 2)
    return found


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


def back_up(home: Home, folder: Path) -> None:
    assert run("backup", str(folder), "--home", str(home.root)) == 0


def restored(home: Home, folder: Path) -> int:
    return run("restore", str(folder), "--home", str(home.root))


def kept(home: Home) -> list[Path]:
    return sorted(home.backups.glob("before-restore-*"))


def test_a_backup_is_put_back_and_what_was_there_is_kept(home: Home, run_dir: Path) -> None:
    folder = run_dir / "saved"
    back_up(home, folder)
    assert {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()} == {
        **dict.fromkeys(NAMES, 0o600),
        "manifest.json": 0o600,
    }
    assert folder.stat().st_mode & 0o777 == 0o700
    grow(home, 3)
    with open_writer_closed(home.termal_db) as connection:
        connection.execute("DELETE FROM sessions")
    assert facts(home) == (0, 2)
    assert restored(home, folder) == 0
    assert facts(home) == (1, 1)
    [aside] = kept(home)
    assert facts(Home(aside)) == (0, 2)
    assert {(home.root / name).stat().st_mode & 0o777 for name in NAMES} == {0o600}
    assert not home.restoring.exists()


@contextlib.contextmanager
def open_writer_closed(path: Path) -> Iterator[Cursorlike]:
    with contextlib.closing(open_writer(path, durability="normal")) as connection:
        yield connection


def test_a_backup_without_a_folder_goes_into_the_data_directory(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("backup", "--home", str(home.root), "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    folder = Path(shown["folder"])
    assert folder.parent == home.backups
    assert [(entry["name"], entry["schemaVersion"]) for entry in shown["files"]] == list(
        zip(NAMES, ("2", "1"), strict=True)
    )
    assert shown["sameInstant"] is True
    assert json.loads((folder / "manifest.json").read_text())["files"] == shown["files"]


def test_a_fresh_machine_takes_a_backup_of_another(home: Home, run_dir: Path) -> None:
    back_up(home, run_dir / "saved")
    other = find_home(str(run_dir / "other"))
    assert restored(other, run_dir / "saved") == 0
    assert facts(other) == (1, 1)


def test_both_files_are_of_one_instant_also_while_they_are_written(run_dir: Path) -> None:
    paths = [run_dir / name for name in ("first.sqlite", "second.sqlite")]
    ending = threading.Event()
    ready = threading.Barrier(2)

    def write() -> None:
        writers = [open_writer(path, durability="normal") for path in paths]
        for writer in writers:
            writer.execute("CREATE TABLE n (n INTEGER); INSERT INTO n VALUES (0)")
        ready.wait()
        while not ending.is_set():
            for writer in writers:
                writer.execute("UPDATE n SET n = n + 1")
        for writer in writers:
            writer.close()

    writing = threading.Thread(target=write)
    writing.start()
    try:
        ready.wait()
        for attempt in range(10):
            targets = [run_dir / f"{attempt}-{path.name}" for path in paths]
            exact = back_up_together(dict(zip(paths, targets, strict=True)))
            with reading(targets[0]) as first, reading(targets[1]) as second:
                one, other = first.execute("SELECT n FROM n").get, second.execute("SELECT n FROM n").get
            assert one - 1 <= other
            assert not exact or other <= one
    finally:
        ending.set()
        writing.join()


# -------------------------------------------------------------------------------- refusals


def test_a_folder_that_is_not_empty_is_left_alone(
    home: Home, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file, link = run_dir / "mine", run_dir / "file", run_dir / "link"
    folder.mkdir(mode=0o755)
    (folder / "letter").write_text("mine")
    file.write_text("mine")
    (run_dir / "empty").mkdir()
    link.symlink_to(run_dir / "empty")
    for place in (folder, file, link):
        assert run("backup", str(place), "--home", str(home.root)) == 1
        assert "no empty folder" in capsys.readouterr().err
    assert [entry.name for entry in folder.iterdir()] == ["letter"]
    assert folder.stat().st_mode & 0o777 == 0o755
    assert list((run_dir / "empty").iterdir()) == []


def test_a_home_without_databases_and_a_damaged_one_give_no_backup(
    home: Home, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_dir / "saved"
    assert run("backup", str(folder), "--home", str(run_dir / "nowhere")) == 1
    assert "nothing to back up" in capsys.readouterr().err
    with home.coordination_db.open("r+b") as file:
        file.seek(4096 + 100)
        file.write(b"\xee" * 3900)
    assert run("backup", str(folder), "--home", str(home.root)) == 1
    assert "damaged" in capsys.readouterr().err
    assert not folder.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), "no backup"),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "no list of a backup"),
        (lambda folder: (folder / "coordination.sqlite").unlink(), "cannot be read"),
        (lambda folder: (folder / "termal.sqlite").write_bytes(b"x"), "not what was backed up"),
        (
            lambda folder: (folder / "manifest.json").write_text(
                (folder / "manifest.json").read_text().replace("coordination.sqlite", "../saved/coordination.sqlite")
            ),
            "no backup of a data directory",
        ),
        (
            lambda folder: (folder / "manifest.json").write_text(
                (folder / "manifest.json").read_text().replace('"format": 1', '"format": 2')
            ),
            "newer build",
        ),
    ],
    ids=["no list", "an empty list", "a file missing", "a file changed", "a foreign name", "another format"],
)
def test_what_is_no_whole_backup_is_refused_and_nothing_is_changed(
    home: Home, run_dir: Path, capsys: pytest.CaptureFixture[str], change: object, words: str
) -> None:
    back_up(home, run_dir / "saved")
    assert callable(change)
    change(run_dir / "saved")
    grow(home, 3)
    assert restored(home, run_dir / "saved") == 1
    assert words in capsys.readouterr().err
    assert facts(home) == (1, 2)
    assert kept(home) == []


def test_a_running_daemon_keeps_its_files(home: Home, run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    back_up(home, run_dir / "saved")
    prepare(home)
    lock = DirectoryLock(home, Owner(os.getpid(), None, "http://127.0.0.1:1"))
    try:
        assert restored(home, run_dir / "saved") == EXIT_LOCKED
        assert "stop the daemon first" in capsys.readouterr().err
    finally:
        lock.close()
    assert kept(home) == []


# --------------------------------------------------------------------------- interruptions


@pytest.mark.parametrize("file", [1, 2])
def test_a_restore_that_was_cut_off_is_done_again_before_a_daemon_may_start(
    home: Home, run_dir: Path, file: int
) -> None:
    back_up(home, run_dir / "saved")
    grow(home, 3)
    faults = run_dir / "faults"
    faults.mkdir()
    (faults / "restore.file").write_text(f"kill {file}")
    command = "from termal.cli.main import main; main()"
    arguments = ["restore", str(run_dir / "saved"), "--home", str(home.root)]
    ended = subprocess.run(
        [sys.executable, "-c", command, *arguments], env={**os.environ, "TERMAL_FAULTS": str(faults)}, check=False
    )
    assert ended.returncode == -9
    refused = subprocess.run(
        [sys.executable, "-m", "supervisor", "--home", str(home.root), "--port", "0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert refused.returncode == EXIT_REFUSED
    assert "termal restore" in refused.stderr
    assert restored(home, run_dir / "saved") == 0
    assert facts(home) == (1, 1)
    [aside] = kept(home)
    assert facts(Home(aside)) == (1, 2)


def test_a_backup_of_the_time_before_the_second_file_takes_the_second_file_away(home: Home, run_dir: Path) -> None:
    older = find_home(str(run_dir / "older"))
    with StoredSessions(older.termal_db) as sessions:
        sessions.add(0)
        sessions.add(0)
    back_up(older, run_dir / "saved")
    assert restored(home, run_dir / "saved") == 0
    assert not home.coordination_db.exists()
    [aside] = kept(home)
    assert facts(Home(aside)) == (1, 1)


def test_a_place_that_cannot_be_made_is_named_as_what_it_is(
    home: Home, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_dir / "file").write_text("", "utf-8")
    assert run("backup", str(run_dir / "file" / "copies"), "--home", str(home.root)) == 1
    said = capsys.readouterr().err
    assert ("cannot be made (Not a directory)" in said, "another place for the backup" in said) == (True, True), said
