"""The worker's end of its control socket against a supervisor that does not read for a long time."""

import socket
from collections.abc import Iterator

import pytest

from termal.bus.loop import PollLoop
from termal.wire.control import LINE_BYTES, BootDone, Need, Stop, ToSupervisor, decode_to_supervisor, encode_line
from termal.worker.control import Control

_NAMES = [f"{number:05}" + "w" * 1000 for number in range(2000)]
"""Far more than the socket and the lines that wait behind it hold."""


def _raise(error: Exception) -> None:
    raise error


def _ignore(_: Stop) -> None:
    pass


class Pair:
    """A worker's `Control` and the supervisor's end of its socket, which is read only by `lines`."""

    def __init__(self) -> None:
        self.supervisor, self._worker = socket.socketpair()
        self.supervisor.setblocking(False)
        self._loop = PollLoop(_raise)
        self.control = Control(self._loop, self._worker.fileno(), on_stop=_ignore)

    def lines(self) -> list[ToSupervisor]:
        """What has come, with what still waits in the worker; raises for half a line and for two in one."""
        received = self._drained()
        while True:
            self.control.boot_done()
            data = self._drained()
            received += data
            if data == encode_line(BootDone()) + b"\n":
                break
        *lines, rest = received.split(b"\n")
        assert rest == b""
        return [decode_to_supervisor(line) for line in lines]

    def _drained(self) -> bytes:
        data = b""
        try:
            while True:
                data += self.supervisor.recv(1 << 20)
        except BlockingIOError:
            return data

    def close(self) -> None:
        self._loop.close()
        self.supervisor.close()
        # The control socket lives as long as its process; here both objects hold one descriptor.
        self._worker.detach()
        self.control._socket.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_what_does_not_fit_is_left_out_whole_and_nothing_before_it_is_lost(pair: Pair) -> None:
    for name in _NAMES:
        pair.control.need(name)
    wanted = [line.worker for line in pair.lines() if isinstance(line, Need)]
    assert wanted == _NAMES[: len(wanted)]
    assert len("".join(wanted)) > LINE_BYTES


def test_lines_go_on_after_a_supervisor_that_stood_still(pair: Pair) -> None:
    for _ in range(3):
        for name in _NAMES:
            pair.control.need(name)
        assert any(isinstance(line, Need) for line in pair.lines())
    pair.control.need("runtime-acp")
    assert [line for line in pair.lines() if not isinstance(line, BootDone)] == [Need("runtime-acp")]


def test_one_line_longer_than_all_that_may_wait_is_left_out(pair: Pair) -> None:
    pair.control.need("w" * 4 * LINE_BYTES)
    pair.control.boot_done()
    assert all(line == BootDone() for line in pair.lines())
