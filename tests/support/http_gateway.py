"""A real gateway: arbiter and worker as processes, with the test as their supervisor, and raw HTTP to talk to them."""

import contextlib
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from termal.home import Home, find_home, prepare
from termal.wire.control import Stop, ToSupervisor, ToWorker, decode_to_supervisor, encode_line
from termal.wire.launch import Launch
from tests.support.waiting import wait_until

LineT = TypeVar("LineT")
BACKLOG = 16
"""What this test's supervisor listens with: too little, so that the gateway's own shows."""


class GatewayProcess:
    """Starts ``python -m termal.gateway``; use as a context manager, which leaves no process behind."""

    def __init__(self, run_dir: Path, *, portable: bool = False, descriptors: int | None = None) -> None:
        self.home: Home = find_home(str(run_dir / "home"))
        self.lines: list[ToSupervisor] = []
        self._run_dir = run_dir
        self._received = b""
        prepare(self.home)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.port: int = self.listener.getsockname()[1]
        self.control, theirs = socket.socketpair()
        self.launch = Launch(
            name="gateway",
            home=str(self.home.root),
            run_dir=str(run_dir),
            control_fd=theirs.fileno(),
            start="boot",
            mark=self.home.mark,
            port=self.port,
            portable=portable,
            listen_fd=self.listener.fileno(),
        )
        self._errors = run_dir / "gateway.stderr"
        with theirs, self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "termal.gateway"],
                env={**os.environ, **self.launch.to_environment()},
                pass_fds=[theirs.fileno(), self.listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        self.control.setblocking(False)
        if descriptors is not None:
            # Long before it looks at its limits: the interpreter has hardly started.
            resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))

    def __enter__(self) -> "GatewayProcess":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(5)
        self.control.close()
        self.listener.close()

    # -------------------------------------------------------------------- control

    def said(self, kind: type[LineT]) -> list[LineT]:
        self._read()
        return [line for line in self.lines if isinstance(line, kind)]

    def wait_for(self, kind: type[LineT], count: int = 1) -> LineT:
        """The ``count``-th line of ``kind``."""
        try:
            return wait_until(lambda: self.said(kind)[count - 1 : count], f"{kind.__name__} of the gateway")[0]
        except AssertionError as error:
            raise AssertionError(f"{error}; stderr: {self.stderr()}; log: {self.log()}") from None

    def order(self, line: ToWorker) -> None:
        self.control.send(encode_line(line) + b"\n")

    def worker(self) -> psutil.Process:
        return wait_until(lambda: psutil.Process(self.process.pid).children(), "the gateway's worker")[0]

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def order_stop(self) -> None:
        self.order(Stop(time.monotonic() + 10))

    def wait(self, limit_s: float = 5.0) -> int:
        """The exit code."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the gateway did not end; stderr: {self.stderr()}; log: {self.log()}") from None

    def stderr(self) -> str:
        return self._errors.read_text("utf-8", "replace")

    def log(self) -> str:
        return "".join(file.read_text("utf-8") for file in sorted(self.home.logs.iterdir()))

    # ----------------------------------------------------------------------- http

    def connect(self) -> "Wire":
        return Wire(self.port)

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read()

    def _read(self) -> None:
        while True:
            try:
                data = self.control.recv(1 << 16)
            except (BlockingIOError, ConnectionResetError):
                return
            if not data:
                return
            *lines, self._received = (self._received + data).split(b"\n")
            self.lines += [decode_to_supervisor(line) for line in lines]


class Wire:
    """One connection, byte by byte. `received` is everything that came so far."""

    def __init__(self, port: int, *, receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(5)
        self.socket.connect(("127.0.0.1", port))
        self.received = bytearray()
        self.ended = False

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def request(self, method: str, path: str, *headers: str, body: bytes = b"") -> None:
        head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers])
        self.socket.sendall(head.encode() + b"\r\n\r\n" + body)

    def read_until(self, mark: bytes) -> bytearray:
        """Everything received so far, as soon as ``mark`` is in it. Fails at the end of the connection."""
        searched = 0
        while self.received.find(mark, searched) < 0:
            searched = max(0, len(self.received) - len(mark))
            assert self.read_some(), f"the connection ended without {mark!r}: {self.received[-400:]!r}"
        return self.received

    def read_to_end(self) -> bytearray:
        while self.read_some():
            pass
        return self.received

    def forget(self) -> None:
        """What came so far is not looked at any more."""
        self.received.clear()

    def read_some(self) -> bytes:
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        self.received += data
        self.ended = not data
        return data

    def events(self) -> Iterator[tuple[str, str]]:
        """Name and data of every complete event in what was received."""
        for block in dechunked(self.received).split(b"\n\n"):
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if line and not line.startswith(b":"))
            if b"event" in fields:
                yield fields[b"event"].decode(), fields[b"data"].decode()


def dechunked(received: bytes | bytearray) -> bytes:
    """The body so far of a chunked reply."""
    _, _, rest = received.partition(b"\r\n\r\n")
    chunks, at = [], 0
    while (end := rest.find(b"\r\n", at)) > at:
        length = int(rest[at:end], 16)
        at = end + 2 + length + 2
        if length == 0 or at > len(rest):
            break
        chunks.append(rest[end + 2 : at - 2])
    return b"".join(chunks)


def status_of(received: bytes | bytearray) -> int:
    return int(received.split(b" ", 2)[1])


def headers_of(received: bytes | bytearray) -> dict[str, str]:
    head = received.partition(b"\r\n\r\n")[0].decode()
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])}


def json_of(received: bytes | bytearray) -> Any:
    return msgspec.json.decode(received.partition(b"\r\n\r\n")[2])
