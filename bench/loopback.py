"""A closed loop of many clients on kept-alive connections, with as little work for each request as there can be.

What is measured runs on the same cores: every microsecond that is spent here is missing there.
"""

import select
import socket
import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.figures import median, percentile

Next = Callable[[int], bytes]
"""The whole next request of a client."""
_READ = 1 << 18
_LENGTH = b"ength: "
"""The end of the name of the header, in whichever case its beginning comes."""


class Run(NamedTuple):
    rate: float
    p50_ms: float
    p99_ms: float
    requests: float

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
        self._poll = select.poll()
        self._sockets: list[socket.socket] = []

    def close(self) -> None:
        for client in self._sockets:
            self._poll.unregister(client)
            client.close()
        self._sockets = []

    def _connect(self) -> None:
        """Anew for every run: a server closes what was silent while another one was measured."""
        self.close()
        address = (self._url.hostname or "127.0.0.1", self._url.port or 80)
        self._sockets = [socket.create_connection(address, timeout=30) for _ in range(self._count)]
        for client in self._sockets:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._poll.register(client, select.POLLIN)

    def run(self, following: Next, seconds: float) -> Run:
        self._connect()
        clients = {client.fileno(): (number, client) for number, client in enumerate(self._sockets)}
        began = [0.0] * len(clients)
        times: list[float] = []
        clock, poll = time.perf_counter, self._poll.poll
        start = clock()
        for number, client in clients.values():
            began[number] = clock()
            client.sendall(following(number))
        waiting = len(clients)
        while waiting:
            for descriptor, _ in poll():
                number, client = clients[descriptor]
                _read(client)
                now = clock()
                times.append((now - began[number]) * 1e3)
                if now - start < seconds:
                    began[number] = now
                    client.sendall(following(number))
                else:
                    waiting -= 1
        return Run(len(times) / (clock() - start), percentile(times, 0.5), percentile(times, 0.99), len(times))


def _read(client: socket.socket) -> None:
    """One whole answer."""
    data = client.recv(_READ)
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += _more(client)
    assert data.startswith(b"HTTP/1.1 2"), data[:600]
    place = data.index(_LENGTH) + len(_LENGTH)
    missing = end + 4 + int(data[place : data.index(b"\r", place)]) - len(data)
    while missing > 0:
        missing -= len(_more(client))


def _more(client: socket.socket) -> bytes:
    data = client.recv(_READ)
    assert data, "the server closed the connection"
    return data
