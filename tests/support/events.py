"""Reads an event stream of a daemon in a thread: the parsed events in order, and how the stream ended."""

import contextlib
import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit


class EventStream(threading.Thread):
    """``events`` are (name, data) pairs; ``ended`` is ``clean`` after a final chunk, ``cut`` otherwise, "" before."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        parts = urlsplit(url)
        self.events: list[tuple[str, Any]] = []
        self.ended = ""
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=60)
        self._socket.sendall(f"GET /api/events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        self.start()

    def run(self) -> None:
        with self._socket, self._socket.makefile("rb") as lines:
            while lines.readline() not in (b"\r\n", b""):
                pass
            try:
                self._read(lines)
            except (OSError, ValueError):
                self.ended = "cut"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.join(5)

    def deltas(self, kind: str) -> list[dict[str, Any]]:
        return [data for name, data in list(self.events) if name == "delta" and data["type"] == kind]

    def _read(self, lines: Any) -> None:
        text = b""
        while True:
            size = int(lines.readline().strip() or b"x", 16)
            if size == 0:
                self.ended = "clean"
                return
            text += lines.read(size)
            lines.readline()
            *blocks, text = text.split(b"\n\n")
            for block in blocks:
                self._take(block.decode())

    def _take(self, block: str) -> None:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "event" in fields:
            self.events.append((fields["event"], json.loads(fields["data"])))
