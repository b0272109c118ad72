"""A worker's end of its control socket: READY, heartbeats from the main loop, its requests, the supervisor's orders."""

import contextlib
import os
import socket
from collections.abc import Callable, Sequence

import msgspec

from termal.bus.loop import Loop
from termal.wire.control import (
    LINE_BYTES,
    Beat,
    BootDone,
    Extend,
    Go,
    Need,
    Peers,
    Ready,
    Refused,
    Reload,
    Serving,
    Stop,
    ToSupervisor,
    decode_to_worker,
    encode_line,
)
from termal.worker.stats import Stats

BEAT_S = 1.0
Facts = Callable[[], dict[str, int | float | str | None]]


def no_facts() -> dict[str, int | float | str | None]:
    return {}


class Control:
    """Made on the loop's thread. The end of file means that the supervisor is gone: the process ends at once."""

    def __init__(
        self,
        loop: Loop,
        control_fd: int,
        *,
        on_stop: Callable[[Stop], None],
        on_go: Callable[[Go], None] | None = None,
        on_peers: Callable[[Sequence[str]], None] | None = None,
        on_reload: Callable[[], None] | None = None,
        on_serving: Callable[[], None] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._loop = loop
        self._socket = socket.socket(fileno=control_fd)
        self._socket.setblocking(False)
        os.set_inheritable(control_fd, False)
        self._received = b""
        self._waiting = b""
        self._on_stop = on_stop
        self._on_go = on_go
        self._on_peers = on_peers
        self._on_reload = on_reload
        self._on_serving = on_serving
        self._on_end = on_end or _end_process
        self._stats: Stats | None = None
        self._depth: Callable[[], int] = int
        self._facts: Facts = no_facts
        self._loop.add(control_fd, self._read)

    def ready(self) -> None:
        self._send(Ready())

    def beat_with(self, stats: Stats, depth: Callable[[], int], facts: Facts = no_facts) -> None:
        """Send a heartbeat now and each second from the loop, with these figures."""
        self._stats, self._depth, self._facts = stats, depth, facts
        self._beat()
        self._loop.every(BEAT_S, self._beat)

    def boot_done(self) -> None:
        self._send(BootDone())

    def need(self, worker: str) -> None:
        self._send(Need(worker))

    def extend(self, seconds: float, why: str = "") -> None:
        """No heartbeat is due for this long: call it before a step that blocks the loop, and again during it."""
        self._send(Extend(seconds, why))

    def refused(self, message: str) -> None:
        self._send(Refused(message))

    def _beat(self) -> None:
        p50, p99 = self._stats.percentiles_ms() if self._stats else (0.0, 0.0)
        self._send(Beat(self._depth(), p50, p99, self._facts()))

    def _send(self, line: ToSupervisor) -> None:
        """Never waits. To a supervisor that has not read for so long that nothing more fits the line is not sent."""
        data = encode_line(line) + b"\n"
        if len(self._waiting) + len(data) <= LINE_BYTES:
            self._waiting += data
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            sent = self._socket.send(self._waiting)
            self._waiting = self._waiting[sent:]

    def _read(self) -> None:
        try:
            data = self._socket.recv(LINE_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._loop.remove(self._socket.fileno())
            self._on_end()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._obey(line)

    def _obey(self, line: bytes) -> None:
        try:
            order = decode_to_worker(line)
        except msgspec.MsgspecError:
            return
        if isinstance(order, Stop):
            self._on_stop(order)
        elif isinstance(order, Go) and self._on_go is not None:
            self._on_go(order)
        elif isinstance(order, Peers) and self._on_peers is not None:
            self._on_peers(order.running)
        elif isinstance(order, Reload) and self._on_reload is not None:
            self._on_reload()
        elif isinstance(order, Serving) and self._on_serving is not None:
            self._on_serving()


def _end_process() -> None:
    os._exit(1)
