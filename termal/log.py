"""One JSON line per event into ``logs/<process>.log``, rotated by size. Never message bodies, prompts or tokens.

Every line has ``ts``, ``level``, ``process``, ``pid`` and ``event`` (a dotted constant), plus the keys that are given
(``requestId``, ``sessionId``, ``operation``). See docs/decisions for why this is no logging library: the three
that were measured cost a restarted worker more time than everything else that it imports.
"""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from termal.clock import millisecond_text

ROTATE_BYTES = 10 << 20
KEEP = 3
REPEAT_S = 10.0
"""The same repeating failure is written once in this time, with the number of times that it was left out."""

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Log:
    """The log of one process. Safe from several threads; a failing disk never stops the caller."""

    def __init__(self, process: str, path: Path | None = None) -> None:
        self._process = process
        self._path = path
        self._lock = threading.Lock()
        self._repeats: dict[str, tuple[float, int]] = {}
        # Opened with the first line: a process that only waits must not hold a file that others rotate away.
        self._fd = -1
        self._size = 0

    def debug(self, event: str, **keys: Any) -> None:
        if os.environ.get("TERMAL_LOG") == "debug":
            self._write("debug", event, keys)

    def info(self, event: str, **keys: Any) -> None:
        self._write("info", event, keys)

    def warning(self, event: str, **keys: Any) -> None:
        self._write("warning", event, keys)

    def error(self, event: str, **keys: Any) -> None:
        self._write("error", event, keys)

    def repeating(self, event: str, **keys: Any) -> None:
        """A warning that may come in floods: at most one line per event and `REPEAT_S`."""
        now = time.monotonic()
        with self._lock:
            since, left_out = self._repeats.get(event, (-REPEAT_S, 0))
            if now - since < REPEAT_S:
                self._repeats[event] = (since, left_out + 1)
                return
            self._repeats[event] = (now, 0)
        self._write("warning", event, {**keys, "leftOut": left_out} if left_out else keys)

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _write(self, level: str, event: str, keys: dict[str, Any]) -> None:
        line = _encode(
            {
                "ts": millisecond_text(time.time_ns()),
                "level": level,
                "process": self._process,
                "pid": os.getpid(),
                "event": event,
                **{key: value for key, value in keys.items() if value is not None},
            }
        )
        with self._lock:
            if self._path is None:
                sys.stderr.write(line.decode() + "\n")
                return
            try:
                if self._fd < 0:
                    self._open()
                if self._size > ROTATE_BYTES:
                    self._rotate()
                self._size += os.write(self._fd, line + b"\n")
            except OSError:
                # The disk is full or gone: the work of the process goes on without its log.
                pass

    def _open(self) -> None:
        assert self._path is not None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _rotate(self) -> None:
        assert self._path is not None
        os.close(self._fd)
        for number in range(KEEP - 1, 0, -1):
            older = self._path.with_suffix(f".{number}.log")
            if older.exists():
                older.replace(self._path.with_suffix(f".{number + 1}.log"))
        self._path.replace(self._path.with_suffix(".1.log"))
        self._open()
