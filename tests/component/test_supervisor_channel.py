"""The supervisor's end of a control socket: lines in, orders out, and nothing that a worker sends can hurt it."""

import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.channel import Channel
from termal.wire.control import Beat, Need, Peers, Ready, Reload, ToSupervisor, encode_line


@pytest.fixture
def channel() -> Iterator[Channel]:
    made = Channel()
    yield made
    made.close()


@pytest.fixture
def worker(channel: Channel) -> Iterator[socket.socket]:
    with socket.socket(fileno=os.dup(channel.worker_fd)) as theirs:
        channel.handed_over()
        yield theirs


def lines(*records: ToSupervisor) -> bytes:
    return b"".join(encode_line(record) + b"\n" for record in records)


def test_lines_arrive_whole_however_they_are_cut(channel: Channel, worker: socket.socket) -> None:
    text = lines(Ready(), Need("runtime-acp"))
    found: list[ToSupervisor] = []
    for byte in text:
        worker.send(bytes([byte]))
        found += channel.receive(1.0)
    assert found == [Ready(), Need("runtime-acp")]


def test_nothing_to_read_is_nothing_and_the_end_is_the_end(channel: Channel, worker: socket.socket) -> None:
    assert channel.receive(1.0) == []
    assert not channel.closed
    worker.close()
    assert channel.receive(1.0) == []
    assert channel.closed


def test_a_few_wrong_lines_are_left_out(channel: Channel, worker: socket.socket) -> None:
    worker.sendall(
        b'{"t":"stop","deadline":1}\n{"t":"beat","queueDepth":null}\n\xff\n' + b"[" * 5000 + b"\n" + lines(Ready())
    )
    assert channel.receive(1.0) == [Ready()]
    assert channel.broken == ""


def test_a_line_without_an_end_breaks_the_channel_and_not_the_memory(channel: Channel, worker: socket.socket) -> None:
    worker.setblocking(False)
    for _ in range(10):
        worker.send(b"x" * 60_000)
        channel.receive(1.0)
    assert "more than 65536 bytes" in channel.broken


def test_a_flood_breaks_it_and_the_usual_rhythm_does_not(channel: Channel, worker: socket.socket) -> None:
    for second in range(100, 200):
        worker.sendall(lines(*[Beat()] * 50))
        assert len(channel.receive(float(second))) == 50
    worker.sendall(lines(*[Ready()] * 1500))
    assert channel.receive(300.0) == []
    assert "more than 1000 control lines" in channel.broken


def test_orders_to_a_worker_that_does_not_read_wait_within_bounds_and_never_block(
    channel: Channel, worker: socket.socket
) -> None:
    names = [f"worker-{number}" for number in range(200)]
    for _ in range(2000):
        channel.send(Peers(names))
    read = 0
    worker.settimeout(1.0)
    channel.send(Reload())
    while channel.flush() or read == 0:
        read += len(worker.recv(1 << 20))
    assert read < 2 << 20


def test_orders_to_a_dead_worker_go_nowhere(channel: Channel, worker: socket.socket) -> None:
    worker.close()
    channel.send(Reload())
    channel.send(Reload())
    assert channel.flush() is False


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=3000))
def test_no_bytes_at_all_make_it_raise(garbage: bytes) -> None:
    channel = Channel()
    try:
        os.write(channel.worker_fd, garbage)
        channel.receive(1.0)
    finally:
        channel.close()
