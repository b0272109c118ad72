"""The files by which others see the daemon: ``run/daemon.json`` and ``run/status.json``, never half written."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from supervisor.setting import VERSION, Setting
from supervisor.worker import now_rfc3339
from termal.home import Home
from termal.log import Log
from termal.model.message import Record
from termal.model.status import DaemonReport, DaemonState, ProcessReport

FRESH_S = 5.0
"""A report that says nothing new is written again after this time: its age tells a reader whether we still run."""


class DaemonFile(Record, frozen=True):
    """``daemon.json``: which process is the daemon, and where it answers."""

    pid: int
    start_time: float | None
    url: str
    version: str
    home: str


class Reports:
    """Who lives and in what state is written when it changes; figures at most once in ``interval_s``."""

    def __init__(self, setting: Setting, log: Log, interval_s: float) -> None:
        self._setting, self._log, self._interval_s = setting, log, interval_s
        self._last = b""
        self._last_lives: list[object] = []
        self._written_at = -FRESH_S

    def announce(self) -> None:
        """Say who the daemon is. Raises OSError: a directory where not even this can be written is of no use."""
        setting = self._setting
        record = DaemonFile(
            pid=os.getpid(),
            start_time=setting.start_time_s,
            url=setting.url,
            version=VERSION,
            home=str(setting.home.root),
        )
        _replace(setting.home.daemon, msgspec.json.encode(record))

    def write(
        self,
        state: tuple[DaemonState, str | None],
        processes: Sequence[ProcessReport],
        now: float,
        *,
        serving: bool,
        at_once: bool = False,
    ) -> float:
        """Write what changed, if it is time; when to call again, in monotonic seconds."""
        report = self._report(state, processes, serving=serving)
        body = msgspec.json.encode(report)
        changed = body != self._last
        due_at = self._written_at + (self._interval_s if changed else FRESH_S)
        lives: list[object] = [state, serving, *((row.name, row.pid, row.state) for row in processes)]
        if now < due_at and lives == self._last_lives and not at_once:
            return due_at
        self._last, self._last_lives, self._written_at = body, lives, now
        try:
            _replace(
                self._setting.home.report,
                msgspec.json.encode(msgspec.structs.replace(report, written_at=now_rfc3339())),
            )
        except OSError as error:
            # The disk is full or read-only: the workers go on, and readers see by the age that this is no news.
            self._log.repeating("report.not_written", error=str(error))
        return now + FRESH_S

    def _report(
        self, state: tuple[DaemonState, str | None], processes: Sequence[ProcessReport], *, serving: bool
    ) -> DaemonReport:
        setting = self._setting
        return DaemonReport(
            state=state[0],
            reason=state[1],
            version=VERSION,
            home=str(setting.home.root),
            url=setting.url,
            pid=os.getpid(),
            started_at=setting.started_at,
            written_at="",
            serving=serving,
            processes=list(processes),
        )


def remove_announcement(home: Home) -> None:
    home.daemon.unlink(missing_ok=True)


def _replace(path: Path, body: bytes) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(body)
    fresh.replace(path)
