"""The data directory: its paths, its modes (0700, 0600) and the short folder for sockets. Opens no database."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

SOCKET_PATH_BYTES = 107
"""AF_UNIX takes this many bytes; libzmq's ``ipc://`` as well."""
_LONGEST_SOCKET = "runtime-claude.events"
OVERRIDE = "TERMAL_ALLOW_INSECURE_STATE_PERMISSIONS"
_YES = frozenset({"1", "true", "TRUE", "yes", "YES"})
_OTHERS = 0o077


class HomeRefused(Exception):
    """The data directory cannot be used. The text is for the operator and names the way out."""


class Home(NamedTuple):
    """Where everything of one daemon lies. Nothing here exists until `prepare` made it."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def owner_token(self) -> Path:
        """What opens the whole API where tokens are asked for (`termal.tokens`)."""
        return self.root / "owner.token"

    @property
    def termal_db(self) -> Path:
        return self.root / "termal.sqlite"

    @property
    def coordination_db(self) -> Path:
        return self.root / "coordination.sqlite"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def worktrees(self) -> Path:
        return self.root / "worktrees"

    @property
    def backups(self) -> Path:
        return self.root / "backups"

    @property
    def restoring(self) -> Path:
        """Is there while the databases are being replaced by those of a backup: they may not belong together."""
        return self.root / "restore-unfinished"

    @property
    def lock(self) -> Path:
        return self.run / "daemon.lock"

    @property
    def daemon(self) -> Path:
        """JSON of the running daemon: pid, start time, address."""
        return self.run / "daemon.json"

    @property
    def report(self) -> Path:
        """The supervisor's report (`termal.model.status.DaemonReport`)."""
        return self.run / "status.json"

    def log(self, process: str) -> Path:
        return self.logs / f"{process}.log"

    @property
    def mark(self) -> str:
        """What the environment of every process of this daemon carries: the directory's identity, not its path."""
        import hashlib  # noqa: PLC0415 - loads OpenSSL; workers get the mark with their launch

        return hashlib.sha256(os.fsencode(self.root)).hexdigest()[:24]


def find_home(argument: str | None = None) -> Home:
    """The directory named by ``--home``, ``TERMAL_HOME``, else ``~/.termal``. Raises `HomeRefused` without any."""
    named = argument or os.environ.get("TERMAL_HOME")
    if named:
        return Home(Path(os.path.abspath(os.path.expanduser(named))))  # noqa: PTH100, PTH111 - must not resolve links
    base = os.environ.get("HOME") or os.environ.get("USERPROFILE")
    if not base:
        raise HomeRefused("no home directory: set TERMAL_HOME or give --home")
    return Home(Path(base) / ".termal")


def prepare(home: Home) -> None:
    """Make the directories with owner-only modes. Raises `HomeRefused` for a link or without the right to write."""
    for folder in (home.root, home.run, home.logs, home.worktrees, home.backups):
        own_directory(folder)
    probe = home.run / f".write-{os.getpid()}"
    try:
        probe.touch(0o600)
        probe.unlink()
    except OSError as error:
        raise HomeRefused(f"{home.root} cannot be written ({error.strerror}): give another --home") from error


def insecure_modes_allowed() -> bool:
    """The operator accepts modes that cannot be changed (a file system without them); links stay refused."""
    return os.environ.get(OVERRIDE) in _YES


def own_directory(folder: Path) -> None:
    """Make ``folder`` a directory of ours with mode 0700. Raises `HomeRefused`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.lstat()
    except OSError as error:
        raise HomeRefused(f"{folder} cannot be made ({error.strerror}): give another --home") from error
    if stat.S_ISLNK(facts.st_mode) or not stat.S_ISDIR(facts.st_mode):
        raise HomeRefused(f"{folder} is a link or no directory: refuse to store anything there")
    if facts.st_mode & _OTHERS:
        try:
            folder.chmod(0o700)
        except OSError as error:
            if not insecure_modes_allowed():
                raise HomeRefused(f"{folder} is open to others and its mode cannot be changed") from error


def socket_folder(home: Home) -> Path:
    """A folder whose socket paths fit into AF_UNIX: ``run/``, or a private short one when the home's path is long.

    The short one is derived from the home's identity, so that every process and the next start find the same.
    Raises `HomeRefused` when that folder belongs to somebody else.
    """
    if len(os.fsencode(home.run / _LONGEST_SOCKET)) <= SOCKET_PATH_BYTES:
        return home.run
    import tempfile  # noqa: PLC0415 - for long paths alone, and workers get the folder with their launch

    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    for parent in (base, "/tmp"):  # noqa: S108 - a private 0700 folder below it, owner checked
        folder = Path(parent) / f"termal-{os.getuid()}-{home.mark[:12]}"
        if len(os.fsencode(folder / _LONGEST_SOCKET)) <= SOCKET_PATH_BYTES:
            own_directory(folder)
            if folder.lstat().st_uid != os.getuid():
                raise HomeRefused(f"{folder} belongs to another user")
            return folder
    raise HomeRefused("no folder with a path short enough for sockets: set XDG_RUNTIME_DIR to a short one")
