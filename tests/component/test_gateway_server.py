"""The gateway as real processes: its listen queue, its drain, its restarts, its limits."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from termal.wire.control import EXIT_INTERNAL, EXIT_OK, EXIT_USAGE, Beat, BootDone, Ready, Refused, Reload
from tests.support.fake_state import FakeCoordination, FakeState
from tests.support.http_gateway import GatewayProcess, Wire, dechunked, headers_of, json_of, status_of
from tests.support.waiting import wait_until

STREAMS = 200


@pytest.fixture
def state(run_dir: Path) -> Iterator[FakeState]:
    with FakeState(run_dir) as fake, FakeCoordination(run_dir):
        yield fake


@pytest.fixture
def gateway(run_dir: Path, state: FakeState) -> Iterator[GatewayProcess]:
    """A gateway that is ready and has found its workers."""
    with GatewayProcess(run_dir) as process:
        process.wait_for(Ready)
        wait_until(lambda: process.get("/api/health")[0] == 200, "a gateway with its workers")
        yield process


def open_streams(gateway: GatewayProcess, count: int, stack: ExitStack) -> list[Wire]:
    wires = [stack.enter_context(gateway.connect()) for _ in range(count)]
    for wire in wires:
        wire.request("GET", "/api/events")
    for wire in wires:
        wire.read_until(b"event: state")
    return wires


def test_it_says_ready_and_sends_heartbeats_with_its_figures(gateway: GatewayProcess) -> None:
    assert gateway.said(Ready)
    assert gateway.said(BootDone)
    with ExitStack() as stack:
        open_streams(gateway, 3, stack)
        wait_until(lambda: gateway.said(Beat)[-1].facts["eventStreams"] == 3, "a heartbeat with three streams")
        beat = gateway.said(Beat)[-1]
        assert beat.facts["connections"] == 3
        assert beat.queue_depth == 0
        assert beat.p99_ms > 0
    wait_until(lambda: gateway.said(Beat)[-1].facts["eventStreams"] == 0, "a heartbeat without streams")


def test_a_burst_of_connections_finds_room_in_the_listen_queue(gateway: GatewayProcess) -> None:
    worker = gateway.worker()
    worker.suspend()
    with ExitStack() as stack:
        wires = [stack.enter_context(gateway.connect()) for _ in range(STREAMS)]
        for wire in wires:
            wire.request("GET", "/api/state")
        worker.resume()
        for wire in wires:
            assert status_of(wire.read_until(b"serverInstanceId")) == 200


def test_headers_and_an_opening_comment_come_before_any_event(run_dir: Path) -> None:
    with GatewayProcess(run_dir) as gateway:
        gateway.wait_for(Ready)
        with gateway.connect() as wire:
            wire.request("GET", "/api/events")
            received = wire.read_until(b": open\nretry: 1000\n\n")
            assert status_of(received) == 200
            assert headers_of(received)["content-type"] == "text/event-stream"
            assert list(wire.events()) == []


@pytest.mark.case("H34")
@pytest.mark.parametrize("how", ["signal", "order"])
def test_a_stop_ends_two_hundred_streams_in_order_and_then_the_process(gateway: GatewayProcess, how: str) -> None:
    with ExitStack() as stack:
        wires = open_streams(gateway, STREAMS, stack)
        idle = stack.enter_context(gateway.connect())
        idle.request("GET", "/api/state")
        idle.read_until(b"serverInstanceId")
        silent = stack.enter_context(gateway.connect())
        if how == "signal":
            gateway.terminate()
        else:
            gateway.order_stop()
        for wire in wires:
            assert wire.read_to_end().endswith(b"\r\n0\r\n\r\n")
        assert gateway.wait() == EXIT_OK
        for wire in (idle, silent):
            wire.read_to_end()
    assert "gateway.stopped" in gateway.log()
    assert "gateway.cut_off" not in gateway.log()


@pytest.mark.case("H35")
def test_a_stream_that_races_the_end_is_answered_and_empty(gateway: GatewayProcess) -> None:
    worker = gateway.worker()
    worker.suspend()
    worker.terminate()
    with gateway.connect() as wire:
        wire.request("GET", "/api/events")
        worker.resume()
        received = wire.read_to_end()
        assert status_of(received) == 200
        assert received.endswith(b"\r\n\r\n")
        assert headers_of(received)["content-length"] == "0"


def test_a_client_that_does_not_read_holds_up_no_stop(gateway: GatewayProcess, state: FakeState) -> None:
    with Wire(gateway.port, receive_bytes=4096) as stalled:
        stalled.request("GET", "/api/events")
        stalled.read_until(b"event: state")
        for _ in range(20):
            state.publish(20, padding=100_000)
        with gateway.connect() as other:
            other.request("GET", "/api/events")
            other.read_until(b"event: state")
            gateway.terminate()
            assert gateway.wait() == EXIT_OK
            assert other.read_to_end().endswith(b"0\r\n\r\n")
    assert "gateway.cut_off" not in gateway.log()


@pytest.mark.case("H32")
def test_a_client_that_stalls_is_told_and_starts_again_while_others_get_everything(
    gateway: GatewayProcess, state: FakeState
) -> None:
    with Wire(gateway.port, receive_bytes=4096) as stalled, gateway.connect() as other:
        for wire in (stalled, other):
            wire.request("GET", "/api/events")
            wire.read_until(b"event: state")
        for _ in range(50):
            state.publish(20, padding=10_000)
            other.read_until(b'"revision":%d' % state.revision)
        names = [name for name, _ in other.events()]
        assert names == ["state"] + ["delta"] * 1000
        stalled.read_until(b"event: lagged")
        state.publish(1)
        stalled.read_until(b'"revision":%d' % state.revision)
        events = list(stalled.events())
        at = [name for name, _ in events].index("lagged")
        assert events[at] == ("lagged", "1")
        assert events[at + 1][0] == "state"
        assert all(name == "delta" for name, _ in events[at + 2 :])
        assert b'"revision":%d' % state.revision in dechunked(stalled.received)


def test_a_killed_worker_is_replaced_on_the_same_socket(gateway: GatewayProcess) -> None:
    before = gateway.worker().pid
    with gateway.connect() as stream:
        stream.request("GET", "/api/events")
        stream.read_until(b"event: state")
        os.kill(before, signal.SIGKILL)
        with gateway.connect() as wire:
            # It waits in the listen queue, which belongs to no worker.
            wire.request("GET", "/api/state")
            assert status_of(wire.read_until(b"serverInstanceId")) == 200
        stream.read_to_end()
    gateway.wait_for(Ready, 2)
    assert gateway.worker().pid != before


def test_a_worker_that_keeps_dying_ends_the_gateway_for_its_supervisor_to_judge(gateway: GatewayProcess) -> None:
    for count in range(1, 6):
        gateway.wait_for(Ready, count)
        os.kill(gateway.worker().pid, signal.SIGKILL)
    assert gateway.wait() == EXIT_INTERNAL


def test_a_worker_that_is_aborted_leaves_its_stacks_behind(gateway: GatewayProcess) -> None:
    os.kill(gateway.worker().pid, signal.SIGABRT)
    gateway.wait_for(Ready, 2)
    assert "Fatal Python error: Aborted" in gateway.stderr()
    assert "most recent call first" in gateway.stderr()


def test_nothing_survives_the_arbiter(gateway: GatewayProcess) -> None:
    worker = gateway.worker()
    gateway.process.kill()
    gateway.process.wait(5)
    wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "the worker to end")


def test_portably_both_processes_end_with_the_control_socket(run_dir: Path) -> None:
    with GatewayProcess(run_dir, portable=True) as gateway:
        gateway.wait_for(Ready)
        worker = gateway.worker()
        gateway.control.shutdown(socket.SHUT_RDWR)
        gateway.wait()
        wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "the worker to end")


@pytest.mark.case("H16")
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_of_seventeen_mebibytes_is_refused_and_the_connection_stays_good(
    gateway: GatewayProcess, framing: str
) -> None:
    body = b" " * (17 << 20)
    with gateway.connect() as wire:
        if framing == "length":
            header = f"Content-Length: {len(body)}"
        else:
            header = "Transfer-Encoding: chunked"
            piece = b"10000\r\n" + body[: 1 << 16] + b"\r\n"
            body = piece * (len(body) >> 16) + b"0\r\n\r\n"
        wire.request("POST", "/api/sessions", "Content-Type: application/json", header, body=body)
        received = wire.read_until(b"requestId")
        assert status_of(received) == 413
        wire.read_until(b'"}')
        assert json_of(received)["code"] == "invalid_request"
        wire.forget()
        wire.request("GET", "/api/state")
        assert status_of(wire.read_until(b"serverInstanceId")) == 200


def test_a_body_that_may_be_left_out_is_read_however_it_is_framed(gateway: GatewayProcess, state: FakeState) -> None:
    body, chunked = b'{"numTurns": 3}', ("Content-Type: application/json", "Transfer-Encoding: chunked")
    with gateway.connect() as wire:
        for headers, sent in (
            (chunked, b"f\r\n" + body + b"\r\n0\r\n\r\n"),
            (("Content-Type: application/json", f"Content-Length: {len(body)}"), body),
            (chunked, b"0\r\n\r\n"),
            (("Content-Length: 0",), b""),
            ((), b""),
        ):
            wire.forget()
            wire.request("POST", "/api/sessions/s/codex/thread/rollback", *headers, body=sent)
            assert status_of(wire.read_until(b'{"answer":true}')) == 200
    assert [record.turns for _, record, _ in state.requests] == [3, 3, 1, 1, 1]


def test_a_client_that_waits_for_leave_to_send_too_much_is_refused_at_once(gateway: GatewayProcess) -> None:
    with gateway.connect() as wire:
        wire.request(
            "POST",
            "/api/sessions",
            "Content-Type: application/json",
            f"Content-Length: {17 << 20}",
            "Expect: 100-continue",
        )
        received = wire.read_to_end()
        assert status_of(received) == 413
        assert b"100 Continue" not in received


@pytest.mark.skipif(sys.platform != "linux", reason="sets the limit of another process")
def test_connections_beyond_the_descriptors_are_told_so_and_the_rest_is_served(run_dir: Path, state: FakeState) -> None:
    with GatewayProcess(run_dir, descriptors=200) as gateway, ExitStack() as stack:
        gateway.wait_for(Ready)
        wires = [stack.enter_context(gateway.connect()) for _ in range(100)]
        for wire in wires:
            wire.request("GET", "/api/state")
        statuses = [status_of(wire.read_until(b"\r\n\r\n")) for wire in wires]
        assert set(statuses) == {200, 503}
        refused = wires[statuses.index(503)]
        refused.read_to_end()
        assert json_of(refused.received)["code"] == "no_write_committed"


def test_a_new_limit_of_streams_holds_after_a_reload(gateway: GatewayProcess) -> None:
    gateway.home.config.write_text("max_event_streams = 0\n", "utf-8")
    gateway.order(Reload())
    wait_until(lambda: gateway.get("/api/events")[0] == 429, "the new limit")
    gateway.home.config.write_text("max_event_streams = nonsense\n", "utf-8")
    gateway.order(Reload())
    wait_until(lambda: "config.refused" in gateway.log(), "the refusal in the log")
    assert gateway.get("/api/state")[0] == 200


@pytest.mark.parametrize("setting", ["port = 'x'", "auth = 'perhaps'"])
def test_a_configuration_that_cannot_be_served_is_refused_with_its_reason(run_dir: Path, setting: str) -> None:
    (run_dir / "home").mkdir(mode=0o700)
    (run_dir / "home" / "config.toml").write_text(setting, "utf-8")
    with GatewayProcess(run_dir) as gateway:
        assert gateway.wait() == EXIT_USAGE
        assert setting.split(maxsplit=1)[0] in gateway.wait_for(Refused).message


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 9000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    ],
    ids=["two lengths", "a long header", "a long path"],
)
def test_what_is_no_request_is_answered_in_the_form_of_every_error(
    gateway: GatewayProcess, sent: bytes, status: int
) -> None:
    with gateway.connect() as wire:
        wire.socket.sendall(sent)
        received = wire.read_to_end()
        assert status_of(received) == status
        assert json_of(received)["code"] == "invalid_request"
        assert json_of(received)["requestId"] == headers_of(received)["x-request-id"]


def test_a_terminal_signal_changes_nothing(gateway: GatewayProcess) -> None:
    before = gateway.worker().pid
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGTTIN, signal.SIGWINCH):
        gateway.process.send_signal(number)
    os.kill(before, signal.SIGINT)
    beats = len(gateway.said(Beat))
    gateway.wait_for(Beat, beats + 1)
    assert gateway.get("/api/state")[0] == 200
    assert [child.pid for child in psutil.Process(gateway.process.pid).children()] == [before]


def test_nothing_is_written_but_the_logs(gateway: GatewayProcess) -> None:
    gateway.get("/nothing")
    gateway.terminate()
    assert gateway.wait() == EXIT_OK
    assert gateway.stderr() == ""
    assert {file.name for file in gateway.home.logs.iterdir()} == {"gateway.log", "gateway-arbiter.log"}
    written = {file.name for file in gateway.home.root.rglob("*") if file.is_file()}
    assert written == {"gateway.log", "gateway-arbiter.log"}
