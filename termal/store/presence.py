"""Notices that a database's files were taken away or replaced under an open connection, and saves what it still sees.

SQLite goes on writing into files that have no name any more: without this everything acknowledged since would be gone
with the process.
"""

import os
from pathlib import Path

import apsw

from termal.store.files import SIDECARS, files_of

LOOK_S = 1.0
"""How often the owner of an idle database looks."""
Identity = tuple[int, int]


class FilesTaken(Exception):
    """The files are not those that were opened. What they held is saved as the text says; a new process opens it."""


class Presence:
    """What the three files of an open database are. One per thread that looks."""

    def __init__(self, path: Path) -> None:
        self._files = list(files_of(path))
        self._known: dict[Path, Identity] = {}
        self.lost()

    def lost(self) -> bool:
        """Whether a file that was there before is gone, or is another one."""
        for file in self._files:
            known, found = self._known.get(file), identity(file)
            if known is None and found is not None:
                self._known[file] = found
            elif known != found:
                return True
        return False

    @property
    def replaced(self) -> bool:
        """Whether another database stands in the place of ours: it is somebody's, and is not written over."""
        found = identity(self._files[0])
        return found is not None and found != self._known.get(self._files[0])


def identity(file: Path) -> Identity | None:
    try:
        status = file.stat(follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def put_back(connection: apsw.Connection, path: Path, *, replaced: bool) -> Path:
    """Write all that ``connection`` sees under ``path`` again, or beside a file that took its place; returns where.

    Raises `apsw.Error` or OSError with nothing changed.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    try:
        copy = apsw.Connection(str(fresh), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            with copy.backup("main", connection, "main") as backup:
                while not backup.done:
                    backup.step(-1)
        finally:
            copy.close()
        target = path.with_name(f"{path.name}.replaced") if replaced else path
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if not replaced:
        # What is left of these belongs to the file that is gone; all of it is in the copy.
        for suffix in SIDECARS:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return target
