"""The supervisor's end of one worker's control socket. Whatever a worker writes there, the supervisor stays well."""

import socket

import msgspec

from termal.wire.control import (
    LINE_BYTES,
    ToSupervisor,
    ToWorker,
    decode_to_supervisor,
    encode_line,
)

_MOST_LINES_PER_S = 1000
"""A worker sends a few lines a second. More than this is no worker any more."""
_MOST_GARBAGE = 100


class Channel:
    """``closed``: the other side is gone. ``broken``: why this worker must be ended, empty while all is well."""

    def __init__(self) -> None:
        """Raises OSError when there are no descriptors left."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._ours, self._theirs = ours, theirs
        self._received = b""
        self._waiting = b""
        self._second, self._lines = 0, 0
        self._garbage = 0
        self.closed = False
        self.broken = ""

    @property
    def fd(self) -> int:
        return self._ours.fileno()

    @property
    def worker_fd(self) -> int:
        return self._theirs.fileno()

    def handed_over(self) -> None:
        """The worker has its end: without this the end of file would never come."""
        self._theirs.close()

    def receive(self, now: float) -> list[ToSupervisor]:
        """The lines that came, at most one read of them; what is no line is left out and counted."""
        try:
            data = self._ours.recv(LINE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return []
        *lines, self._received = (self._received + data).split(b"\n")
        if len(self._received) > LINE_BYTES:
            self.broken = f"sent a control line of more than {LINE_BYTES} bytes"
            self._received = b""
        self._count(len(lines), now)
        return [] if self.broken else self._decode(lines)

    def send(self, line: ToWorker) -> None:
        """Never waits. A worker that has not read for so long that nothing more fits misses the line."""
        data = encode_line(line) + b"\n"
        if len(self._waiting) + len(data) <= LINE_BYTES:
            self._waiting += data
        self.flush()

    def flush(self) -> bool:
        """Send what waits; whether anything still does."""
        while self._waiting:
            try:
                sent = self._ours.send(self._waiting)
            except BlockingIOError:
                break
            except OSError:
                # Nobody is there to read it; the end of the process is noticed elsewhere.
                self._waiting = b""
                break
            self._waiting = self._waiting[sent:]
        return bool(self._waiting)

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()

    def _count(self, lines: int, now: float) -> None:
        if int(now) != self._second:
            self._second, self._lines = int(now), 0
        self._lines += lines
        if self._lines > _MOST_LINES_PER_S:
            self.broken = f"sent more than {_MOST_LINES_PER_S} control lines in a second"

    def _decode(self, lines: list[bytes]) -> list[ToSupervisor]:
        found: list[ToSupervisor] = []
        for line in lines:
            try:
                found.append(decode_to_supervisor(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self._garbage += 1
        if self._garbage > _MOST_GARBAGE:
            self.broken = "sent lines that are none of ours"
        return found
