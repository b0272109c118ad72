"""``termal doctor`` on real files, locks, ports and processes."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.cli import main as cli
from termal.cli.checks import Finding, examine
from termal.home import Home, prepare
from termal.procs.lock import DirectoryLock, Owner
from termal.procs.tree import start_time
from termal.store.connection import open_writer
from termal.wire.launch import MARK_VARIABLE
from tests.support.coordination_rows import coordination_file
from tests.support.waiting import wait_until


@pytest.fixture
def home(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("TERMAL_PORT", "0")
    found = Home(home_dir)
    prepare(found)
    return found


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def findings(home: Home, subject: str) -> list[Finding]:
    return [finding for finding in examine(home) if finding.subject == subject]


def make_database(path: Path) -> None:
    connection = open_writer(path, durability="normal")
    connection.execute("CREATE TABLE t (a TEXT)")
    connection.execute(
        "INSERT INTO t SELECT hex(randomblob(500)) FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9))"
    )
    connection.close()


def test_a_fresh_machine_has_no_problem(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMAL_PORT", "0")
    assert [finding for finding in examine(Home(home_dir)) if finding.level == "problem"] == []


def test_every_finding_that_is_no_praise_says_what_to_do(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.config.write_text("port = 'x'", "utf-8")
    home.termal_db.write_bytes(b"no database" * 1000)
    home.termal_db.chmod(0o644)
    monkeypatch.setenv("TERMAL_PORT", "many")
    bad = [finding for finding in examine(home) if finding.level != "ok"]
    assert {finding.subject for finding in bad} >= {"directory", "configuration", "port", "termal.sqlite"}
    assert all(finding.advice for finding in bad)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_may_read_is_a_problem(home: Home, mode: int) -> None:
    home.coordination_db.touch()
    home.coordination_db.chmod(mode)
    [finding] = findings(home, "directory")
    assert (finding.level, str(home.coordination_db) in finding.text) == ("problem", True)


def test_a_link_in_the_place_of_a_file_is_a_problem(home: Home) -> None:
    home.termal_db.symlink_to(home.root / "elsewhere")
    assert findings(home, "directory")[0].level == "problem"


def test_whole_databases_are_found_whole_also_while_somebody_writes(home: Home) -> None:
    make_database(home.termal_db)
    writer = open_writer(home.termal_db, durability="normal")
    try:
        writer.execute("INSERT INTO t VALUES ('x')")
        assert [finding.text for finding in findings(home, "termal.sqlite")] == ["is whole"]
    finally:
        writer.close()


def test_a_damaged_page_is_found(home: Home) -> None:
    make_database(home.termal_db)
    damaged = bytearray(home.termal_db.read_bytes())
    damaged[4096:4200] = b"\xff" * 104
    home.termal_db.write_bytes(damaged)
    [finding] = findings(home, "termal.sqlite")
    assert finding.level == "problem"


def test_a_port_of_somebody_else_is_a_problem_that_names_the_process(
    home: Home, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMAL_PORT", str(taken_port))
    [finding] = findings(home, "port")
    assert finding.level == "problem"
    assert str(os.getpid()) in finding.text


def test_the_port_of_the_daemon_of_this_directory_is_fine(
    home: Home, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMAL_PORT", str(taken_port))
    url = f"http://127.0.0.1:{taken_port}"
    home.daemon.write_text(json.dumps({"pid": os.getpid(), "url": url, "startTime": start_time(os.getpid())}), "utf-8")
    lock = DirectoryLock(home, Owner(pid=os.getpid(), url=url))
    try:
        assert findings(home, "port")[0].level == "ok"
        assert findings(home, "daemon")[0].text == f"process {os.getpid()} runs at {url}"
    finally:
        lock.close()


def _left_behind(home: Home) -> Finding | None:
    [finding] = findings(home, "processes")
    return finding if finding.level == "hint" else None


def test_a_process_that_a_dead_daemon_left_behind_is_found(home: Home) -> None:
    environment = {**os.environ, MARK_VARIABLE: f"{home.mark}:1"}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=environment) as left:
        # The environment of a program can be read a moment after it has begun.
        finding = wait_until(lambda: _left_behind(home), "the process to be found")
        left.communicate()
    assert str(left.pid) in finding.text
    assert findings(home, "processes")[0].level == "ok"


@pytest.mark.parametrize(("config", "code"), [("", 0), ("port = 'x'", 1)])
def test_the_exit_code_says_whether_there_is_a_problem(
    home: Home, config: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    home.config.write_text(config, "utf-8")
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor", "--home", str(home.root), "--json"])
    assert ended.value.code == code
    assert json.loads(capsys.readouterr().out)["ok"] == (code == 0)


UNMARKED = """
DELETE FROM meta WHERE key = 'legacy_coordination_import_v1';
INSERT INTO coordination_board_deleted_scopes VALUES ('project-1', '')
"""


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        ("", "ok", "schema version 1; there was nothing to import"),
        ("UPDATE meta SET value = '/old/termal.sqlite' WHERE key = 'legacy_coordination_import_v1'", "ok", "/old/"),
        ("DELETE FROM meta WHERE key = 'legacy_coordination_import_v1'", "ok", "the next start looks"),
        (UNMARKED, "problem", "no mark of a finished import"),
        ("UPDATE meta SET value = '2' WHERE key = 'coordination_schema_version'", "problem", "'2'"),
    ],
    ids=["new", "imported", "empty", "not to be merged", "of a newer build"],
)
def test_the_file_of_mail_and_boards_is_judged_as_a_start_judges_it(
    home: Home, change: str, level: str, words: str
) -> None:
    with coordination_file(home.root) as connection:
        connection.execute(change)
    before = home.coordination_db.read_bytes()
    [finding] = findings(home, "mail and boards")
    assert (finding.level, words in finding.text) == (level, True), finding
    assert bool(finding.advice) is (level != "ok")
    assert home.coordination_db.read_bytes() == before


def test_a_restore_that_was_cut_off_is_a_problem(home: Home) -> None:
    assert findings(home, "restore") == []
    home.restoring.touch()
    [finding] = findings(home, "restore")
    assert (finding.level, finding.advice) == ("problem", "finish it: termal restore DIR")
