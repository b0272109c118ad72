"""inotify of Linux: one descriptor, a watch for each directory, what happened in them. Knows no trees."""

import errno
import os
import struct
from pathlib import Path
from typing import NamedTuple

CREATED = 0x100 | 0x80
"""A name appeared: made there or moved there."""
REMOVED = 0x200 | 0x40
CHANGED = 0x2
"""Written or cut. A file that was opened for writing and closed again did not change."""
FOLDER = 0x40000000
OVERFLOW = 0x4000
GONE = 0x8000
"""The watch is no more: its directory was deleted, or somebody removed the watch."""
_ONLY_FOLDERS, _NO_LINKS, _NO_ORPHANS = 0x01000000, 0x02000000, 0x04000000
_MASK = CREATED | REMOVED | CHANGED | _ONLY_FOLDERS | _NO_LINKS | _NO_ORPHANS
_READ_BYTES = 64 << 10
_HEAD = struct.Struct("iIII")
_LIMITS = Path("/proc/sys/fs/inotify/max_user_watches")


class Seen(NamedTuple):
    """One event: ``watch`` is what `Inotify.add` answered, ``name`` an entry of that directory."""

    watch: int
    mask: int
    name: str


class Inotify:
    """Raises `OSError` where there is no inotify, or no more of it for this user."""

    def __init__(self) -> None:
        import ctypes  # noqa: PLC0415 - costs 3 ms, needed by the workers that run agents alone

        library = ctypes.CDLL(None, use_errno=True)
        self._errno = ctypes.get_errno
        self._add = library.inotify_add_watch
        self._remove = library.inotify_rm_watch
        self.fd: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise self._error()

    def add(self, folder: str) -> int:
        """Watch ``folder``, no link to one. Raises `OSError`: it is gone or unreadable, or no watch is left."""
        watch: int = self._add(self.fd, os.fsencode(folder), _MASK)
        if watch < 0:
            raise self._error()
        return watch

    def remove(self, watch: int) -> None:
        self._remove(self.fd, watch)

    def read(self) -> list[Seen]:
        """What waits, a part of it when there is much; empty when nothing does."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return []
        found, at = [], 0
        while at < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            found.append(Seen(watch, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))))
            at += length
        return found

    def close(self) -> None:
        """All its watches end with it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _error(self) -> OSError:
        number = self._errno()
        return OSError(number, os.strerror(number))


def is_exhausted(error: OSError) -> bool:
    """Whether the user has no more watches or descriptors, and not this one directory a problem."""
    return error.errno in (errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def watches_allowed() -> int:
    """The watches that all programs of this user may have together."""
    try:
        return int(_LIMITS.read_text("ascii"))
    except (OSError, ValueError):
        return 0
