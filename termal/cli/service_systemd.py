"""A user's systemd, by its command: one unit, asked and told about. Never the system's own manager."""

import os
import shutil
from pathlib import Path
from subprocess import CompletedProcess

from termal.cli.service_file import UNIT, Job, systemd_unit
from termal.cli.service_keeper import LATE, KeeperFailed, Kept, StillStarting, run

_ABSENT = (
    "no systemd of yours answers (a container, or no login session): have `termal serve` run by whatever starts "
    "programs here, for instance as the container's command"
)


class Systemd:
    name = "systemd"

    @property
    def file(self) -> Path:
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Path(base) / "systemd" / "user" / UNIT

    def text(self, job: Job) -> str:
        return systemd_unit(job)

    def why_absent(self) -> str:
        if shutil.which("systemctl") is None:
            return _ABSENT
        return "" if run("systemctl", "--user", "show-environment").returncode == 0 else _ABSENT

    def start(self) -> None:
        self._control("daemon-reload")
        self._control("enable", UNIT)
        # Three starts in ten minutes are a loop to systemd, whoever asks for the fourth. Fails for a new unit.
        run("systemctl", "--user", "reset-failed", UNIT)
        # Starts what is not running, too; returns when the daemon serves.
        ended = run("systemctl", "--user", "restart", UNIT)
        if ended.returncode == LATE:
            raise StillStarting
        _check(ended, "restart", UNIT)

    def enroll(self) -> None:
        self._control("daemon-reload")
        self._control("enable", UNIT)

    def withdraw(self) -> None:
        self._control("disable", "--now", UNIT)

    def forget(self) -> None:
        self._control("daemon-reload")

    def forget_unasked(self) -> None:
        """The link by which it would be started, for when nobody can be asked to remove it."""
        link = self.file.parent / "default.target.wants" / UNIT
        if link.is_symlink():
            link.unlink()

    def kept(self) -> Kept:
        names = "ActiveState,SubState,MainPID,UnitFileState,Result,ExecMainStatus,StatusText"
        shown = run("systemctl", "--user", "show", UNIT, f"--property={names}").stdout
        facts = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        pid = facts.get("MainPID", "")
        return Kept(
            state=facts.get("ActiveState") or "unknown",
            pid=int(pid) if pid.isdecimal() and pid != "0" else None,
            at_login=facts.get("UnitFileState") == "enabled",
            detail=facts.get("StatusText") or _end(facts),
        )

    def hint(self) -> str:
        found = run("loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value")
        return "" if found.stdout.strip() == "yes" else "to keep it running after you log out: loginctl enable-linger"

    def _control(self, *arguments: str) -> None:
        _check(run("systemctl", "--user", *arguments), *arguments)


def _check(ended: CompletedProcess[str], *arguments: str) -> None:
    if ended.returncode != 0:
        raise KeeperFailed(f"systemctl --user {' '.join(arguments)}", ended)


def _end(facts: dict[str, str]) -> str:
    if facts.get("Result", "success") == "success":
        return ""
    return f"{facts['Result']}, exit code {facts.get('ExecMainStatus', '?')}"
