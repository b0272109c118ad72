"""The files of one database: made owner-only, never behind a link. Opens no database and keeps no descriptor.

No descriptor: closing any of them drops every POSIX lock that SQLite holds on that file in this process.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from termal.home import HomeRefused, insecure_modes_allowed, own_directory

SIDECARS = ("-wal", "-shm")
_OTHERS = 0o077
_FILE_MODE = 0o600


class StoreRefused(Exception):
    """The database cannot be used as it is. The text is for the operator and names the file; nothing was changed."""


def create(path: Path) -> None:
    """Make the directory (0700) and the empty database file (0600) where they are missing. Raises `StoreRefused`."""
    try:
        own_directory(path.parent)
    except HomeRefused as error:
        raise StoreRefused(str(error)) from error
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE))
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreRefused(f"{path} cannot be made ({error.strerror})") from error


def secure(path: Path) -> None:
    """Refuse links and foreign kinds of files at the database and its sidecars; take away what others may do there.

    Raises `StoreRefused`: for a link always, for a mode that cannot be changed unless the operator allowed it.
    """
    for file in files_of(path):
        try:
            mode = file.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreRefused(f"{file} cannot be looked at ({error.strerror})") from error
        if not stat.S_ISREG(mode):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
            raise StoreRefused(f"{file} is {kind}: refuse to store anything there")
        if mode & _OTHERS:
            _close_to_others(file)


def _close_to_others(file: Path) -> None:
    try:
        file.chmod(_FILE_MODE)
    except FileNotFoundError:
        # A sidecar that SQLite removed between the look and now.
        return
    except OSError as error:
        if not insecure_modes_allowed():
            raise StoreRefused(f"{file} is open to others and its mode cannot be changed ({error.strerror})") from error


def size_bytes(path: Path) -> int:
    """Zero for a file that is not there."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def sync(place: Path) -> None:
    """Have what was written to a file, or renamed in a folder, on the disk. Of no file that SQLite has open."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def files_of(path: Path) -> Iterator[Path]:
    """The database and its sidecars, whether they are there or not."""
    yield path
    for suffix in SIDECARS:
        yield path.with_name(path.name + suffix)
