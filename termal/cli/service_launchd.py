"""A user's launchd, by its command: one agent in the session of whoever is logged in."""

import os
import re
import shutil
import time
from pathlib import Path

from termal.cli.service_file import LABEL, STOP_S, Job, launchd_job
from termal.cli.service_keeper import KeeperFailed, Kept, run

_PAUSE_S = 0.2


class Launchd:
    name = "launchd"

    @property
    def file(self) -> Path:
        return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"

    @property
    def _target(self) -> str:
        return f"{self._domain}/{LABEL}"

    def text(self, job: Job) -> str:
        return launchd_job(job)

    def why_absent(self) -> str:
        if shutil.which("launchctl") is not None and run("launchctl", "print", self._domain).returncode == 0:
            return ""
        return "no launchd of yours answers (nobody is logged in at the screen): run `termal serve` in a terminal"

    def start(self) -> None:
        self._unload()
        self._control("enable", self._target)
        self._control("bootstrap", self._domain, str(self.file))

    def enroll(self) -> None:
        # A file in that folder is started with the next login, unless it was switched off once.
        self._control("enable", self._target)

    def withdraw(self) -> None:
        self._unload()

    def forget(self) -> None:
        """Nothing is left once the file is gone."""

    def forget_unasked(self) -> None:
        """The same."""

    def kept(self) -> Kept:
        shown = run("launchctl", "print", self._target)
        if shown.returncode != 0:
            return Kept(state="inactive", pid=None, at_login=True, detail="")
        facts = dict(re.findall(r"^\t(state|pid|last exit code) = (.+)$", shown.stdout, re.MULTILINE))
        pid = facts.get("pid", "")
        state = "active" if facts.get("state") == "running" else facts.get("state", "unknown")
        ended = facts.get("last exit code", "")
        detail = f"last exit code {ended}" if ended.isdecimal() and ended != "0" else ""
        return Kept(state=state, pid=int(pid) if pid.isdecimal() else None, at_login=True, detail=detail)

    def hint(self) -> str:
        return ""

    def _unload(self) -> None:
        """Its answer says little: it fails for a job that is not loaded, and returns before one has ended."""
        ended = run("launchctl", "bootout", self._target)
        end_s = time.monotonic() + STOP_S + 1
        while run("launchctl", "print", self._target).returncode == 0:
            if time.monotonic() > end_s:
                raise KeeperFailed(f"launchctl bootout {self._target}", ended)
            time.sleep(_PAUSE_S)

    def _control(self, *arguments: str) -> None:
        ended = run("launchctl", *arguments)
        if ended.returncode != 0:
            raise KeeperFailed(f"launchctl {' '.join(arguments)}", ended)
