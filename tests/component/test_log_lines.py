"""The logs of all processes as one stream: in order, across rotations, each line once."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal import log
from termal.cli import log_lines
from termal.cli.log_lines import LogLine, LogStream, _Growing
from termal.cli.main import main
from termal.log import Log


@pytest.fixture
def logs(run_dir: Path) -> Path:
    folder = run_dir / "logs"
    folder.mkdir()
    return folder


@pytest.fixture
def stream(logs: Path) -> Iterator[LogStream]:
    with contextlib.closing(LogStream(logs)) as stream:
        yield stream


def write(logs: Path, process: str, *lines: tuple[int, str]) -> None:
    """``second`` of the minute and event of each line."""
    with (logs / f"{process}.log").open("a", encoding="utf-8") as file:
        for second, event in lines:
            record = {"ts": f"2026-01-31T12:00:{second:02}.000Z", "level": "info", "process": process, "event": event}
            file.write(json.dumps(record) + "\n")


def events(stream: LogStream, count: int | None = None) -> list[object]:
    lines = stream.more() if count is None else stream.begin(count)
    return [line.fields.get("event", line.text) for line in lines]


def test_the_newest_lines_of_all_processes_are_in_the_order_of_their_time(logs: Path, stream: LogStream) -> None:
    write(logs, "state", (1, "a"), (4, "d"), (5, "e"))
    write(logs, "wake", (2, "b"), (3, "c"))
    assert events(stream, 4) == ["b", "c", "d", "e"]


@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_what_comes_later_is_given_once_however_much_was_shown_before(
    logs: Path, stream: LogStream, count: int
) -> None:
    write(logs, "state", (1, "a"), (2, "b"))
    assert events(stream, count) == ["a", "b"][2 - min(count, 2) :]
    write(logs, "state", (4, "d"))
    write(logs, "wake", (3, "c"))
    assert events(stream) == ["c", "d"]
    assert events(stream) == []


def test_a_line_that_is_half_written_is_given_when_it_is_whole(logs: Path, stream: LogStream) -> None:
    write(logs, "state", (1, "a"))
    with (logs / "state.log").open("a", encoding="utf-8") as file:
        file.write('{"ts": "2026-01-31T12:00:02.000Z", ')
        file.flush()
        assert events(stream, 10) == ["a"]
        assert events(stream) == []
        file.write('"event": "b"}\n')
    assert events(stream) == ["b"]


def test_nothing_is_lost_where_a_log_is_rotated_away(
    logs: Path, stream: LogStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "ROTATE_BYTES", 300)
    with contextlib.closing(Log("state", logs / "state.log")) as writer:
        for number in range(6):
            writer.info(f"first.{number}")
        assert (logs / "state.1.log").exists()
        assert events(stream, 3) == ["first.3", "first.4", "first.5"]
        seen: list[object] = []
        for number in range(12):
            writer.info(f"then.{number}")
            seen += events(stream)
        assert seen == [f"then.{number}" for number in range(12)]


def test_a_log_of_any_size_is_read_from_its_end(logs: Path, stream: LogStream) -> None:
    (logs / "state.log").write_text(("x" * 99 + "\n") * 5000, "utf-8")
    write(logs, "state", *((1, f"e{number}") for number in range(2000)))
    assert events(stream, 1500) == [f"e{number}" for number in range(500, 2000)]


def test_what_a_process_wrote_outside_of_its_log_stands_at_its_files_time(logs: Path, stream: LogStream) -> None:
    write(logs, "state", (1, "a"), (9, "z"))
    plain = logs / "service.stderr.log"
    plain.write_text("termal: the port is in use\n", "utf-8")
    os.utime(plain, (1769860805, 1769860805))
    assert events(stream, 10) == ["a", "termal: the port is in use", "z"]


def test_a_log_that_is_cut_off_is_read_from_its_beginning(logs: Path, stream: LogStream) -> None:
    write(logs, "state", (1, "a"), (2, "b"))
    assert events(stream, 10) == ["a", "b"]
    (logs / "state.log").write_text("", "utf-8")
    write(logs, "state", (3, "c"))
    assert events(stream) == ["c"]


def test_lines_of_a_log_that_is_rotated_away_while_it_is_read_are_given_once(
    logs: Path, stream: LogStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(logs, "state", (1, "a"), (2, "b"))
    shutil.copy(logs / "state.log", logs / "state.1.log")
    (logs / "state.log").write_text("", "utf-8")
    write(logs, "state", (3, "c"), (4, "d"))
    last = _Growing.last

    def rotating(growing: _Growing, count: int) -> list[LogLine]:
        """After each of the first two files was opened, and before the next one is."""
        found = last(growing, count)
        if count >= 98:
            for number in (2, 1):
                if (logs / f"state.{number}.log").exists():
                    (logs / f"state.{number}.log").replace(logs / f"state.{number + 1}.log")
            (logs / "state.log").replace(logs / "state.1.log")
            write(logs, "state", (5, "e"))
        return found

    monkeypatch.setattr(_Growing, "last", rotating)
    assert events(stream, 100) == ["a", "b", "c", "d"]
    assert events(stream) == ["e"]


def test_a_line_without_an_end_is_not_looked_for_through_a_whole_file(
    logs: Path, stream: LogStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_lines, "LAST_BYTES", 128 << 10)
    (logs / "state.stderr.log").write_text("x" * 500_000 + "\nlast\n", "utf-8")
    (logs / "wake.stderr.log").write_text("begun" * 100_000, "utf-8")
    assert events(stream, 10) == ["last"]


@pytest.mark.parametrize("name", ["level", "event", "ts"])
@pytest.mark.parametrize(
    "value", [None, {"a": 1}, ["x"], 5, "a\n2026-01-31T12:00:00.000Z info state forged", "\x1b[2J"]
)
def test_a_line_with_anything_in_it_is_one_line_and_no_other(
    logs: Path, capsys: pytest.CaptureFixture[str], name: str, value: object
) -> None:
    record = {"ts": "2026-01-31T12:00:01.000Z", "level": "info", "event": "e", "a\nkey": "v"}
    (logs / "state.log").write_text(json.dumps({**record, name: value}) + "\n", "utf-8")
    code, text = shown(capsys, "--home", str(logs.parent))
    assert (code, text.count("\n"), "\x1b" in text) == (0, 1, False)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["service", "logs", *arguments])
    return int(ended.value.code or 0), capsys.readouterr().out


def test_a_line_is_shown_for_people_and_for_scripts(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(Log("state", logs / "state.log")) as writer:
        writer.info("turn.ended", sessionId="session-1", why="two words", color="\x1b[31m")
    home = str(logs.parent)
    code, text = shown(capsys, "--home", home)
    assert code == 0
    assert text.rstrip().endswith(
        'info    state          turn.ended sessionId=session-1 why="two words" color="\\u001b[31m"'
    )
    code, text = shown(capsys, "--home", home, "--json")
    assert json.loads(text)["sessionId"] == "session-1"


def test_a_directory_in_which_nothing_ran_has_no_logs(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--home", str(run_dir / "nowhere"))[0] == 3
