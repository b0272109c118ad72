"""The lock of a data directory: held by the kernel for as long as the daemon lives, so it is never stale."""

import contextlib
import fcntl
import os
import time
from pathlib import Path

import msgspec

from termal.home import Home

_CONTENT_BYTES = 1024
"""Written whole and padded, in one write: a reader never sees half of it."""
_ATTEMPTS = 20
_PAUSE_S = 0.01


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """Who holds the lock. ``start_time`` in seconds since the epoch; ``url`` is empty until the port is bound."""

    pid: int
    start_time: float | None = None
    url: str = ""


class Locked(Exception):
    """Another daemon owns the directory. ``owner`` is None when it has not said who it is."""

    def __init__(self, folder: Path, owner: Owner | None) -> None:
        self.owner = owner
        who = f"process {owner.pid}" if owner else "another process"
        where = f" at {owner.url}" if owner and owner.url else ""
        super().__init__(f"{folder} belongs to a running daemon: {who}{where}")

    @property
    def pid(self) -> int | None:
        return self.owner.pid if self.owner else None

    @property
    def url(self) -> str:
        return self.owner.url if self.owner else ""


class DirectoryLock:
    """Taken by the constructor, which raises `Locked`, or OSError where the file cannot be made."""

    def __init__(self, home: Home, owner: Owner) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(home.lock, flags, 0o600)
        if not _lock_soon(self._fd):
            os.close(self._fd)
            raise Locked(home.root, read_owner(home))
        self.tell(owner)

    def tell(self, owner: Owner) -> None:
        """Say who holds it, for those who come later."""
        os.pwrite(self._fd, msgspec.json.encode(owner).ljust(_CONTENT_BYTES), 0)

    def close(self) -> None:
        """The file stays: removing it would let two daemons lock two files of one name."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)


def read_owner(home: Home) -> Owner | None:
    """What the holder has written, None without any. It says nothing about whether the lock is held."""
    try:
        return msgspec.json.decode(home.lock.read_bytes(), type=Owner)
    except (OSError, msgspec.MsgspecError):
        return None


def is_held(home: Home) -> bool:
    """Whether a daemon holds the lock at this moment."""
    try:
        fd = os.open(home.lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not _try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _lock_soon(fd: int) -> bool:
    # Not at the first refusal: somebody may only be asking whether it is held, and a holder needs a moment to say who.
    for _ in range(_ATTEMPTS):
        if _try_lock(fd, fcntl.LOCK_EX):
            return True
        time.sleep(_PAUSE_S)
    return False


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
