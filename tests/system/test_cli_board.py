"""``termal board`` against a real daemon: what it prints, and the exit codes that scripts branch on."""

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from termal.cli.main import main
from tests.support.board_http import BoardHttp
from tests.support.daemon import Daemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

Run = Callable[..., str]
LONG_S = 30.0
"""A program starts within a second, unless many others do."""


@pytest.fixture
def board(shared_daemon: Daemon, tmp_path: Path) -> Iterator[BoardHttp]:
    with shared_daemon.client() as http:
        yield BoardHttp(http, tmp_path)


@pytest.fixture
def run(
    shared_daemon: Daemon, board: BoardHttp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """The output of ``termal board COMMAND SESSION ...``; on stderr where it fails."""
    monkeypatch.setenv("TERMAL_HOME", str(shared_daemon.home.root))
    monkeypatch.delenv("TERMAL_BASE_URL", raising=False)

    def act(command: str, *arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["board", command, board.session_id, *arguments])
        printed = capsys.readouterr()
        assert ended.value.code == code, printed
        return printed.out or printed.err

    return act


def test_a_board_is_written_and_read_from_a_shell(run: Run) -> None:
    assert run("list") == "the board is empty (generation 0)\n"
    assert run("set", "gates.build", '{"ok": true, "at": "é"}') == "gates.build set: revision 1, generation 1\n"
    assert run("get", "gates.build") == '{"at":"é","ok":true}\n'
    assert run("set", "gates.build", "null", "--stamp", "s1") == "gates.build set: revision 2, generation 2\n"
    assert run("get", "gates.build") == "null\n"
    run("set", "words", "plain words", "--text")
    assert run("get", "words") == '"plain words"\n'
    listed = run("list")
    assert [line.split()[:2] for line in listed.splitlines()[1:]] == [["gates.build", "2"], ["words", "1"]]
    assert run("delete", "words") == "words deleted: revision 2, generation 4\n"
    assert run("set", "words", "1") == "words set: revision 3, generation 5\n"
    entries = json.loads(run("list", "--json"))["entries"]
    assert [(entry["key"], entry["value"], entry["stateStamp"]) for entry in entries] == [
        ("gates.build", None, "s1"),
        ("words", 1, None),
    ]


def test_exit_codes_tell_what_happened(run: Run, board: BoardHttp) -> None:
    assert run("get", "a", code=3) == "termal: a never existed on this board\n"
    assert run("delete", "a", code=3) == "termal: a never existed on this board\n"
    run("set", "a", "1", "--expect", "0", "--key", "once")
    assert run("set", "a", "1", "--expect", "0", "--key", "once").endswith("generation 1, as before\n")
    assert run("set", "a", "2", "--expect", "0", code=4) == "termal: a is at revision 1, not 0\n"
    told = json.loads(run("set", "a", "2", "--expect", "7", "--json", code=4))
    assert (told["reason"], told["detail"]["current"]["value"]) == ("revisionConflict", 1)
    run("set", "WRONG", "1", "--expect", "0", code=1)
    assert "--text" in run("set", "a", "plain words", code=2)
    run("delete", "a", "--expect", "1", "--json")
    assert run("get", "a", code=3) == "termal: a is deleted\n"
    board.session_id = "session-99999"
    run("list", code=3)
    run("set", "a", "1", code=3)


def test_a_value_is_read_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("[1, 2]\n"))
    run("set", "a", "-")
    assert run("get", "a") == "[1,2]\n"


def test_a_watched_board_shows_what_changes(board: BoardHttp, shared_daemon: Daemon, run_dir: Path) -> None:
    board.set("a", 0, 1)
    board.set("b", 0, 1)
    output = run_dir / "watched"
    program = [sys.executable, "-c", "from termal.cli.main import main; main()", "board", "watch", board.session_id]
    with output.open("wb") as file:
        watching = subprocess.Popen(
            [*program, "--json", "--base-url", shared_daemon.url], stdin=subprocess.DEVNULL, stdout=file
        )
    try:

        def lines() -> list[dict[str, object]]:
            return [json.loads(line) for line in output.read_text("utf-8").splitlines()]

        wait_until(lambda: len(lines()) == 2, "both keys", LONG_S)
        board.set("a", 1)
        wait_until(lambda: len(lines()) == 3, "the deletion", LONG_S)
        board.set("b", 1, "new")
        wait_until(lambda: len(lines()) == 4, "the change", LONG_S)
        assert [(line["key"], line["deleted"]) for line in lines()] == [
            ("a", False),
            ("b", False),
            ("a", True),
            ("b", False),
        ]
        assert lines()[3]["value"] == "new"
    finally:
        watching.send_signal(signal.SIGINT)
        assert watching.wait(LONG_S) == 130


def test_long_boards_are_read_whole(run: Run, board: BoardHttp) -> None:
    for number in range(201):
        assert board.set(f"k{number:03}", 0, number).status_code == 201
    page = json.loads(run("list", "--json"))
    assert [entry["value"] for entry in page["entries"]] == list(range(201))
    assert page["generation"] == 201


def test_no_daemon_has_its_own_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERMAL_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("TERMAL_BASE_URL", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["board", "list", "session-1"])
    assert ended.value.code == 69
