"""The report's rhythm: written when something changed, at most once in its interval, and now and then in any case."""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from supervisor.report import FRESH_S, Reports
from supervisor.setting import Setting
from termal.home import Home, prepare
from termal.log import Log
from termal.model.status import DaemonReport, DaemonState, ProcessReport

OK: tuple[DaemonState, str | None] = ("ok", None)
ROWS = [ProcessReport(name="state", pid=7, state="ready")]
OTHER_ROWS = [ProcessReport(name="state", pid=7, state="unresponsive")]


@pytest.fixture
def home(home_dir: Path) -> Home:
    prepare(Home(home_dir))
    return Home(home_dir)


@pytest.fixture
def reports(home: Home) -> Iterator[Reports]:
    with socket.socket() as bound:
        setting = Setting(home, home.run, bound, "http://127.0.0.1:1", False, {}, "2026-01-01T00:00:00.000Z", 1.0)
        yield Reports(setting, Log("test"), 1.0)


def written(home: Home) -> DaemonReport | None:
    """The report on disk; each call takes it away."""
    if not home.report.exists():
        return None
    report = msgspec.json.decode(home.report.read_bytes(), type=DaemonReport)
    home.report.unlink()
    return report


def test_who_lives_is_written_at_once_and_figures_at_most_once_in_the_interval(reports: Reports, home: Home) -> None:
    assert reports.write(OK, ROWS, 100.0, serving=True) == 100.0 + FRESH_S
    first = written(home)
    assert first is not None
    assert (first.state, first.processes, first.pid, first.serving) == ("ok", ROWS, os.getpid(), True)
    busy = [msgspec.structs.replace(row, queue_depth=7) for row in ROWS]
    assert reports.write(OK, busy, 100.5, serving=True) == 101.0
    assert written(home) is None
    reports.write(OK, busy, 101.0, serving=True)
    second = written(home)
    assert second is not None
    assert second.processes == busy
    reports.write(OK, OTHER_ROWS, 101.1, serving=True)
    third = written(home)
    assert third is not None
    assert third.processes == OTHER_ROWS


def test_a_report_without_news_is_written_again_after_a_while_so_that_its_age_tells_something(
    reports: Reports, home: Home
) -> None:
    reports.write(OK, ROWS, 100.0, serving=True)
    first = written(home)
    reports.write(OK, ROWS, 100.0 + FRESH_S - 0.1, serving=True)
    assert written(home) is None
    reports.write(OK, ROWS, 100.0 + FRESH_S, serving=True)
    second = written(home)
    assert first is not None
    assert second is not None
    assert second.written_at >= first.written_at


def test_the_last_report_waits_for_nothing(reports: Reports, home: Home) -> None:
    reports.write(OK, ROWS, 100.0, serving=True)
    reports.write(("down", "stopped"), ROWS, 100.1, serving=False, at_once=True)
    last = written(home)
    assert last is not None
    assert (last.state, last.reason, last.serving) == ("down", "stopped", False)


def test_a_report_is_never_half_written_and_belongs_to_its_owner_alone(reports: Reports, home: Home) -> None:
    home.report.write_text("old")
    reader = os.open(home.report, os.O_RDONLY)
    reports.write(OK, ROWS, 100.0, serving=True)
    # Who had it open goes on reading the old one.
    assert os.read(reader, 10) == b"old"
    os.close(reader)
    assert stat.S_IMODE(home.report.stat().st_mode) == 0o600
    assert [file.name for file in home.run.iterdir()] == ["status.json"]
