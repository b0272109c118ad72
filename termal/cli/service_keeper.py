"""What this machine has for keeping a user's programs running, whatever it is called, and how its command is run."""

import subprocess
from pathlib import Path
from typing import NamedTuple, Protocol

from termal.cli.service_file import Job

ANSWER_S = 120
LATE = 124
"""The exit code of a command that took longer."""
"""A start waits for the daemon to serve, and that may wait for a migration; nothing here waits for ever."""


class Kept(NamedTuple):
    """What the keeper says of the daemon. ``state``: ``active``, ``inactive``, ``failed`` or another word of its own.

    ``detail`` is its reason, or what the daemon has told it; ``at_login``: it is started by itself.
    """

    state: str
    pid: int | None
    at_login: bool
    detail: str


class KeeperFailed(Exception):
    """The keeper's command has failed; the text has its own words."""

    def __init__(self, command: str, ended: subprocess.CompletedProcess[str]) -> None:
        said = " ".join((ended.stderr.strip() or ended.stdout.strip()).split())
        super().__init__(f"`{command}` failed with {ended.returncode}" + (f": {said}" if said else ""))


class StillStarting(Exception):
    """The daemon is being started and does not serve yet. It is waited for no longer; it goes on by itself."""


class Keeper(Protocol):
    """Each of these may raise `KeeperFailed`."""

    name: str

    @property
    def file(self) -> Path:
        """Where it looks for the daemon's file."""
        ...

    def text(self, job: Job) -> str:
        """What that file is to hold. Raises `CannotBeWritten`."""
        ...

    def why_absent(self) -> str:
        """Why it cannot be used here, empty when it can."""
        ...

    def enroll(self) -> None:
        """From the next login on the daemon is started by itself."""
        ...

    def start(self) -> None:
        """`enroll`, and start it now, anew if it runs. Raises `StillStarting` when that takes long."""
        ...

    def withdraw(self) -> None:
        """Stop it, and start it no more. The file is still there."""
        ...

    def forget(self) -> None:
        """The file is gone."""
        ...

    def forget_unasked(self) -> None:
        """What `withdraw` would have removed, where nobody can be asked."""
        ...

    def kept(self) -> Kept: ...

    def hint(self) -> str:
        """What a person may want to do now, empty for nothing."""
        ...


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    """The ended command, whatever became of it: 127 when it cannot be run, `LATE` when it takes too long."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, LATE, "", f"no answer in {ANSWER_S} seconds")
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: {error.strerror}")
