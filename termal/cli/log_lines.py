"""The daemon's log files as one stream: the newest lines of all processes in order, and those that come after them.

Reads only. Files come, grow and are rotated away under it; no line is given twice.
"""

import os
import re
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from termal.clock import millisecond_text
from termal.log import KEEP

_BLOCK_BYTES = 64 << 10
LAST_BYTES = 16 << 20
"""How far back in one file its newest lines are looked for: more than a log grows to before it is rotated."""
_ROTATED = re.compile(r"\.[0-9]+\.log$")
_PLAIN = ".stderr"
_IN_FRONT = ("ts", "level", "process", "pid", "event")


class LogLine(NamedTuple):
    """``fields`` of a line of JSON; of what a process wrote outside of its log ``text`` alone, with its file's time."""

    ts: str
    process: str
    fields: dict[str, object]
    text: str

    def worded(self) -> str:
        if not self.fields:
            return f"{self.ts} {'':<7} {self.process:<14} {self.text}"
        named = (self.ts, self.fields.get("level", ""), self.fields.get("event", ""))
        ts, level, event = (_worded(value) if value else "" for value in named)
        rest = " ".join(
            f"{_worded(key)}={_worded(value)}" for key, value in self.fields.items() if key not in _IN_FRONT
        )
        return f"{ts} {level:<7} {self.process:<14} {event} {rest}".rstrip()


class LogStream:
    """All logs of one data directory. Call `begin` once, then `more` as often as wanted, `close` in the end."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._files: dict[Path, _Growing] = {}

    def begin(self, count: int) -> list[LogLine]:
        """The ``count`` newest lines, oldest first."""
        found: list[LogLine] = []
        for file in self._current():
            if growing := self._open(file):
                found += _older(file, growing, count)
        found.sort(key=lambda line: line.ts)
        return found[-count:] if count else []

    def more(self) -> list[LogLine]:
        """What has come since the last call, oldest first."""
        found: list[LogLine] = []
        for file in self._current():
            growing = self._files.get(file) or self._open(file)
            if growing is None:
                continue
            found += growing.lines()
            if growing.is_replaced():
                # It was rotated away since the last call: its last lines first, then the new file from its beginning.
                found += growing.lines()
                growing.close()
                del self._files[file]
                if successor := self._open(file):
                    found += successor.lines()
        found.sort(key=lambda line: line.ts)
        return found

    def close(self) -> None:
        for growing in self._files.values():
            growing.close()
        self._files.clear()

    def _current(self) -> list[Path]:
        """The file that each process writes now."""
        return sorted(file for file in self._logs.glob("*.log") if not _ROTATED.search(file.name))

    def _open(self, file: Path) -> "_Growing | None":
        try:
            growing = _Growing(file)
        except OSError:
            return None
        self._files[file] = growing
        return growing


class _Growing:
    """One open file. Raises OSError when it cannot be opened."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._source: IO[bytes] = file.open("rb")
        opened = os.fstat(self._source.fileno())
        self.identity = (opened.st_dev, opened.st_ino)

    def close(self) -> None:
        self._source.close()

    def last(self, count: int) -> list[LogLine]:
        """The newest complete lines within `LAST_BYTES`; `lines` goes on behind them."""
        position = end = self._source.seek(0, os.SEEK_END)
        blocks: list[bytes] = []
        line_ends = 0
        while position and line_ends <= count and end - position < LAST_BYTES:
            size = min(_BLOCK_BYTES, position)
            position -= size
            self._source.seek(position)
            blocks.append(self._source.read(size))
            line_ends += blocks[-1].count(b"\n")
        *whole, begun = b"".join(reversed(blocks)).split(b"\n")
        self._source.seek(end - len(begun))
        if position:
            # The first one may have begun before what was read.
            del whole[:1]
        return [self._parse(line) for line in (whole[-count:] if count else [])]

    def lines(self) -> list[LogLine]:
        """All complete lines that have come."""
        start = self._source.tell()
        if os.fstat(self._source.fileno()).st_size < start:
            # Cut off by somebody: what is there now is new.
            start = self._source.seek(0)
        *whole, begun = self._source.read().split(b"\n")
        self._source.seek(-len(begun), os.SEEK_CUR)
        return [self._parse(line) for line in whole]

    def is_replaced(self) -> bool:
        try:
            there = self._file.stat()
        except OSError:
            return True
        return self.identity != (there.st_dev, there.st_ino)

    def _parse(self, line: bytes) -> LogLine:
        process = self._file.name.removesuffix(".log")
        text = line.decode("utf-8", "replace")
        if not process.endswith(_PLAIN):
            try:
                fields = msgspec.json.decode(line, type=dict[str, object])
            except msgspec.MsgspecError:
                fields = {}
            if isinstance(ts := fields.get("ts"), str):
                return LogLine(ts, process, fields, text)
        written = millisecond_text(os.fstat(self._source.fileno()).st_mtime_ns)
        return LogLine(written, process, {}, text)


def _older(file: Path, growing: _Growing, count: int) -> list[LogLine]:
    """The newest lines of ``growing``, with those before them that were rotated away while there are fewer."""
    found = growing.last(count)
    # Rotated away after it was opened, a file is met again under another name.
    seen = {growing.identity}
    for number in range(1, KEEP + 1):
        if len(found) >= count:
            break
        try:
            rotated = _Growing(file.with_suffix(f".{number}.log"))
        except OSError:
            break
        lines = [] if rotated.identity in seen else rotated.last(count - len(found))
        seen.add(rotated.identity)
        rotated.close()
        found = [*(line._replace(process=file.name.removesuffix(".log")) for line in lines), *found]
    return found


def _worded(value: object) -> str:
    """In one line, whatever it is: what stands in a log must not look like another line of it."""
    if isinstance(value, str) and value.isprintable() and value and " " not in value and '"' not in value:
        return value
    return msgspec.json.encode(value).decode()
