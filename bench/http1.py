"""A raw HTTP/1.1 client on one kept-alive connection, so that the measuring costs little beside what is measured."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit


class Connection:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host = parts.netloc
        self._socket = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 80), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    @property
    def socket(self) -> socket.socket:
        """To wait on for many at once."""
        return self._socket

    def close(self) -> None:
        self._socket.close()

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        self.send(method, path, body)
        return self.read()

    def send(self, method: str, path: str, body: dict[str, Any] | None = None, headers: str = "") -> None:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(data)}\r\n{headers}"
        if data:
            head += "Content-Type: application/json\r\n"
        self._socket.sendall(head.encode() + b"\r\n" + data)

    def json(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        status, data = self.request(method, path, body)
        assert status < 300, (status, data[:500])
        return json.loads(data)

    def read(self) -> tuple[int, bytes]:
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, self._rest = self._rest.split(b"\r\n\r\n", 1)
        lines = head.split(b"\r\n")
        length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")), 0)
        while len(self._rest) < length:
            self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return int(lines[0].split()[1]), body

    def headers(self) -> bytes:
        """The head of a reply whose body never ends."""
        while b"\r\n\r\n" not in self._rest:
            self._more()
        return self._rest.split(b"\r\n\r\n", 1)[0]

    def _more(self) -> None:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._rest += data
