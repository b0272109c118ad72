"""A closed loop of many clients on kept-alive connections, with as little work for each request as there can be."""

import selectors
import socket
import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.figures import median, percentile

Next = Callable[[int], bytes]
"""The whole next request of a client."""


class Run(NamedTuple):
    rate: float
    p50_ms: float
    p99_ms: float

    def __str__(self) -> str:
        return f"{self.rate:,.0f}/s; {self.p50_ms:.2f} / {self.p99_ms:.1f} ms"


def of_rounds(runs: list[Run]) -> Run:
    return Run(*(median(figures) for figures in zip(*runs, strict=True)))


def request(url: str, method: str, path: str, body: bytes = b"") -> bytes:
    kind = "Content-Type: application/json\r\n" if body else ""
    host = urlsplit(url).netloc
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n{kind}\r\n".encode() + body


class Clients:
    """Each asks again as soon as it has its answer. Any refusal ends the measurement."""

    def __init__(self, url: str, count: int) -> None:
        self._url = urlsplit(url)
        self._count = count
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []

    def close(self) -> None:
        self._selector.close()
        for client in self._sockets:
            client.close()

    def _connect(self) -> None:
        """Anew for every run: a server closes what was silent while another one was measured."""
        for client in self._sockets:
            self._selector.unregister(client)
            client.close()
        address = (self._url.hostname or "127.0.0.1", self._url.port or 80)
        self._sockets = [socket.create_connection(address, timeout=30) for _ in range(self._count)]
        for number, client in enumerate(self._sockets):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(client, selectors.EVENT_READ, number)

    def run(self, following: Next, seconds: float) -> Run:
        self._connect()
        began = [0.0] * len(self._sockets)
        times: list[float] = []
        start = time.perf_counter()
        for number, client in enumerate(self._sockets):
            began[number] = time.perf_counter()
            client.sendall(following(number))
        waiting = len(self._sockets)
        while waiting:
            for key, _ in self._selector.select():
                number = key.data
                client = self._sockets[number]
                _read(client)
                now = time.perf_counter()
                times.append((now - began[number]) * 1e3)
                if now - start < seconds:
                    began[number] = now
                    client.sendall(following(number))
                else:
                    waiting -= 1
        return Run(len(times) / (time.perf_counter() - start), percentile(times, 0.5), percentile(times, 0.99))


def _read(client: socket.socket) -> None:
    """One whole answer."""
    data = client.recv(1 << 18)
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += _more(client)
    assert data[9:10] == b"2", data[:600]
    head = data[:end].lower()
    place = head.index(b"content-length:") + 15
    length = int(head[place : (head + b"\r\n").index(b"\r\n", place)])
    missing = end + 4 + length - len(data)
    while missing > 0:
        missing -= len(_more(client))


def _more(client: socket.socket) -> bytes:
    data = client.recv(1 << 18)
    assert data, "the server closed the connection"
    return data
