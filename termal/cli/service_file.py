"""What keeps the daemon running, as text: a systemd user unit and a launchd job. Writes nothing and starts nothing.

A file that is ours says so and names its data directory; everything else in its place is somebody else's.
"""

import json
import plistlib
import re
from pathlib import Path
from typing import NamedTuple
from xml.parsers.expat import ExpatError

from termal.wire.control import EXIT_HOME, EXIT_LOCKED, EXIT_PORT, EXIT_REFUSED, EXIT_USAGE

UNIT = "termal.service"
LABEL = "local.termal"
STOP_S = 30
"""Longer than a daemon takes to end in order. What is left then is killed, agents included."""
WATCHDOG_S = 15
OPEN_FILES = 8192
HOPELESS = (EXIT_USAGE, EXIT_REFUSED, EXIT_HOME, EXIT_PORT, EXIT_LOCKED)
"""Configuration, refused database, data directory, port, second daemon: another attempt changes nothing."""

_SECTION = "X-TermAl"
_HOME_KEY = "TermalHome"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNIT_TEXT = """\
# Made by `termal service install`, removed by `termal service uninstall`. Changes here are lost with the next install;
# `systemctl --user edit termal` keeps them.
[Unit]
Description=TermAl, a daemon for work with coding agents
StartLimitIntervalSec=600
StartLimitBurst=3

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
# Where its programs and its agents are looked for: what the shell knew that installed it.
Environment={path}
StandardOutput=append:{output}
StandardError=append:{output}
WatchdogSec={watchdog_s}
# A migration takes as long as it takes; the supervisor ends a start that does not get on by limits of its own.
TimeoutStartSec=infinity
# SIGTERM to the supervisor, which stops the others in order; SIGKILL to all that is left.
KillMode=mixed
TimeoutStopSec={stop_s}
Restart=on-failure
RestartSec=1
# Configuration, refused database, data directory, port, second daemon: another attempt changes nothing.
RestartPreventExitStatus={hopeless}
LimitNOFILE={open_files}
UMask=0077

[Install]
WantedBy=default.target

[{section}]
Home={home}
"""


class Job(NamedTuple):
    """``program`` is `termal` with an absolute path, ``path`` the list of folders in which programs are looked for."""

    program: list[str]
    home: Path
    path: str

    @property
    def command(self) -> list[str]:
        return [*self.program, "serve", "--home", str(self.home)]

    @property
    def output(self) -> Path:
        """What the daemon prints: where a start that failed has said why."""
        return self.home / "logs" / "service.stderr.log"


class CannotBeWritten(Exception):
    """A path has characters that no such file can hold."""


def systemd_unit(job: Job) -> str:
    """Raises `CannotBeWritten`."""
    _check(job)
    first, *rest = job.command
    return _UNIT_TEXT.format(
        # Of the first word systemd replaces no variable.
        command=" ".join([_quoted(first), *(_quoted(word).replace("$", "$$") for word in rest)]),
        path=_quoted(f"PATH={job.path}"),
        output=str(job.output).replace("%", "%%"),
        watchdog_s=WATCHDOG_S,
        stop_s=STOP_S,
        hopeless=" ".join(map(str, HOPELESS)),
        open_files=OPEN_FILES,
        section=_SECTION,
        home=json.dumps(str(job.home)),
    )


def launchd_job(job: Job) -> str:
    """Raises `CannotBeWritten`."""
    _check(job)
    fields = {
        "Label": LABEL,
        "ProgramArguments": job.command,
        "EnvironmentVariables": {"PATH": job.path},
        "RunAtLoad": True,
        # launchd knows no exit codes: what cannot work is tried again, as seldom as the interval says.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": STOP_S,
        "ProcessType": "Interactive",
        "Umask": 0o077,
        "SoftResourceLimits": {"NumberOfFiles": OPEN_FILES},
        "StandardOutPath": str(job.output),
        "StandardErrorPath": str(job.output),
        _HOME_KEY: str(job.home),
    }
    return plistlib.dumps(fields, sort_keys=False).decode()


def home_of(text: str) -> Path | None:
    """The data directory of a file that one of the functions above has made; None for anybody else's."""
    home = _home_of_job(text) if text.lstrip().startswith("<?xml") else _home_of_unit(text)
    return Path(home) if isinstance(home, str) else None


def _home_of_unit(text: str) -> object:
    _, found, section = text.partition(f"\n[{_SECTION}]\n")
    line = section.partition("\n")[0]
    if not found or not line.startswith("Home="):
        return None
    try:
        return json.loads(line.removeprefix("Home="))
    except ValueError:
        return None


def _home_of_job(text: str) -> object:
    try:
        return plistlib.loads(text.encode()).get(_HOME_KEY)
    except (ExpatError, ValueError, AttributeError):
        return None


def is_text(path: str) -> bool:
    """Whether ``path`` can be written as UTF-8. The name of a file may be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check(job: Job) -> None:
    for text in (*job.command, job.path):
        if _CONTROL.search(text):
            raise CannotBeWritten(f"{text!r} has a control character in it: no service can be made of that")
        if not is_text(text):
            raise CannotBeWritten(f"{text!r} is not UTF-8: no service can be made of that")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
