"""What a worker writes to its stdout and stderr: a bounded file, and its last words when it died."""

import os
import re
from pathlib import Path

_FILE_BYTES = 5 << 20
"""Checked at each start of the worker: what it writes in one run is the worker's business."""
_TAIL_BYTES = 4096
_TAIL_CHARACTERS = 300
_SECRET = re.compile(r"(?i)(bearer\s+|key[=:]\s*|token[=:]\s*|password[=:]\s*)\S+|[A-Za-z0-9_-]{32,}")


class Output:
    """The file ``path``, appended to over all runs of one worker."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin = 0

    def open(self) -> int:
        """A descriptor for the next run, which the caller closes. /dev/null where the file cannot be written."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self._path, flags, 0o600)
            self._begin = os.fstat(fd).st_size
            if self._begin > _FILE_BYTES:
                os.ftruncate(fd, 0)
                self._begin = 0
        except OSError:
            # A full or broken disk must not keep a worker from starting.
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        return fd

    def last_words(self) -> str:
        """The last three lines of the run, bounded, and without what looks like a secret."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._begin, size - _TAIL_BYTES))
                text = file.read(_TAIL_BYTES).decode(errors="replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return mask(" | ".join(lines[-3:]))[-_TAIL_CHARACTERS:]


def mask(text: str) -> str:
    """One printable line, without anything that may be a credential."""
    return _SECRET.sub("[...]", one_line(text))


def one_line(text: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
