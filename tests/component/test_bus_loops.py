"""The two loops themselves: passes, hooks, timers, hand-over between threads, faults, and their end."""

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import zmq

from termal.bus.aio import AioLoop
from termal.bus.client import Client
from termal.bus.loop import PollLoop, fault_logger, readable
from termal.bus.server import Server
from termal.bus.sockets import endpoint
from termal.wire.envelope import Envelope, messages, pack_request
from termal.wire.runtime_operations import TURN_HELD
from termal.wire.session_operations import SESSION_KILL, OneSession
from termal.wire.turns import Anything
from tests.component.conftest import MakeBus
from tests.support.bus import BusThread, Lines
from tests.support.waiting import wait_until


def test_hooks_run_after_the_callbacks_first_of_the_pass_and_then_of_the_flush(bus: BusThread) -> None:
    order: list[str] = []

    def begin() -> None:
        bus.loop.on_flush(lambda: order.append("flush"))
        bus.loop.on_pass(lambda: order.append("pass"))
        order.append("callback")

    bus.run(begin)
    wait_until(lambda: len(order) >= 3, "the hooks")
    assert order[:3] == ["callback", "pass", "flush"]


def test_what_a_hook_asks_for_gets_a_pass_of_its_own(bus: BusThread) -> None:
    passes: list[int] = []

    def hook() -> None:
        passes.append(len(passes))
        if len(passes) < 5:
            bus.loop.request_pass()

    bus.run(lambda: bus.loop.on_flush(hook))
    wait_until(lambda: len(passes) >= 5, "five passes without any event")


def test_a_removed_hook_and_a_removed_source_run_no_more(bus: BusThread) -> None:
    ran: list[str] = []
    read, write = os.pipe()

    def hook() -> None:
        ran.append("hook")

    def begin() -> None:
        bus.loop.on_pass(hook)
        bus.loop.on_flush(hook)
        bus.loop.add(read, lambda: ran.append("source"))

    def end() -> None:
        bus.loop.off(hook)
        bus.loop.remove(read)
        bus.loop.remove(read)
        ran.clear()

    bus.run(begin)
    bus.run(end)
    os.write(write, b"x")
    bus.settle()
    assert ran == []
    os.close(read)
    os.close(write)


def test_a_descriptor_is_watched_like_a_socket(bus: BusThread) -> None:
    read, write = os.pipe()
    got: list[bytes] = []
    bus.run(lambda: bus.loop.add(read, lambda: got.append(os.read(read, 100))))
    os.write(write, b"hello")
    wait_until(lambda: got == [b"hello"], "what was written")
    bus.run(lambda: bus.loop.remove(read))
    os.close(read)
    os.close(write)


def test_what_a_callback_leaves_in_a_socket_is_looked_at_again(bus: BusThread) -> None:
    got: list[bytes] = []
    sockets: list[zmq.Socket[bytes]] = []

    def begin() -> None:
        sockets.extend(bus.loop.context.socket(zmq.PAIR) for _ in range(2))
        sockets[0].bind("inproc://left")
        sockets[1].connect("inproc://left")
        for number in range(20):
            sockets[1].send(b"%d" % number)

        def take_one() -> None:
            got.append(sockets[0].recv(zmq.NOBLOCK))
            bus.loop.touched(sockets[0])

        bus.loop.add(sockets[0], take_one)

    def end() -> None:
        bus.loop.remove(sockets[0])
        for socket in sockets:
            socket.close()

    bus.run(begin)
    wait_until(lambda: len(got) >= 20, "all of them")
    bus.settle()
    bus.run(end)
    assert got == [b"%d" % number for number in range(20)]
    assert not bus.faults, "nobody is called for an empty socket"


def test_a_fault_in_the_callback_of_a_socket_leaves_what_waits_in_it_to_the_next_look(bus: BusThread) -> None:
    got: list[bytes] = []
    sockets: list[zmq.Socket[bytes]] = []

    def take_all() -> None:
        while readable(sockets[0]):
            message = sockets[0].recv(zmq.NOBLOCK)
            if message == b"bad":
                # As a callback does that looks before it goes on: the descriptor has told all that it tells.
                assert readable(sockets[0])
                raise ValueError("bad")
            got.append(message)

    def begin() -> None:
        sockets.extend(bus.loop.context.socket(zmq.PAIR) for _ in range(2))
        sockets[0].bind("inproc://left")
        sockets[1].connect("inproc://left")
        for message in (b"bad", b"1", b"bad", b"2"):
            sockets[1].send(message)
        bus.loop.add(sockets[0], take_all)

    def end() -> None:
        bus.loop.remove(sockets[0])
        for socket in sockets:
            socket.close()

    bus.run(begin)
    wait_until(lambda: got == [b"1", b"2"], "what came behind the faults")
    bus.run(lambda: sockets[1].send(b"3"))
    wait_until(lambda: got == [b"1", b"2", b"3"], "what came later")
    bus.run(end)
    assert [repr(fault) for fault in bus.faults] == ["ValueError('bad')"] * 2
    bus.faults.clear()


def test_a_fault_while_a_server_takes_one_message_leaves_the_others_answered(bus: BusThread, run_dir: Path) -> None:
    class Full(Lines):
        def repeating(self, event: str, **keys: Any) -> None:
            super().repeating(event, **keys)
            if len(self.repeated) == 1:
                raise OSError("no space left")

    servers: list[Server] = []
    bus.run(lambda: servers.append(Server(bus.loop, run_dir, "state", {}, log=Full())))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        caller = context.socket(zmq.DEALER)
        caller.connect(endpoint(run_dir, "state"))
        caller.send(b"no such frame")
        for number in range(1, 4):
            for _, frame in messages([pack_request(Envelope(number, "no.such", 0.0, "test", "", b""))]):
                caller.send(frame)
        wait_until(lambda: servers[0].handled == 3, "the requests behind the broken one")
    finally:
        context.destroy(linger=0)
        bus.run(servers[0].close)
    assert [repr(fault) for fault in bus.faults] == ["OSError('no space left')"]
    bus.faults.clear()


def test_a_pass_may_be_told_to_wait_for_ever() -> None:
    loop = PollLoop()
    loop.threadsafe(lambda: None)
    loop.one_pass(float("inf"))
    loop.threadsafe(lambda: None)
    loop.one_pass(2.0**40)
    loop.close()


def test_a_socket_that_was_touched_and_closed_is_forgotten(bus: BusThread) -> None:
    def begin() -> None:
        socket = bus.loop.context.socket(zmq.PAIR)
        bus.loop.add(socket, lambda: None)
        bus.loop.touched(socket)
        bus.loop.remove(socket)
        socket.close()
        assert not readable(socket)

    bus.run(begin)
    bus.settle()
    assert not bus.faults


def test_timers_ring_in_the_order_of_their_times_and_not_after_cancel(bus: BusThread) -> None:
    rang: list[str] = []

    def begin() -> None:
        bus.loop.later(0.03, lambda: rang.append("third"))
        bus.loop.later(0.0, lambda: rang.append("first"))
        cancelled = bus.loop.later(0.02, lambda: rang.append("cancelled"))
        bus.loop.later(0.01, lambda: rang.append("second"))
        cancelled.cancel()
        cancelled.cancel()

    bus.run(begin)
    wait_until(lambda: "third" in rang, "the last timer")
    assert rang == ["first", "second", "third"]


def test_a_repeating_timer_rings_until_it_is_cancelled_also_by_itself(bus: BusThread) -> None:
    rang: list[int] = []

    def begin() -> None:
        def ring() -> None:
            rang.append(1)
            if len(rang) == 3:
                timer.cancel()

        timer = bus.loop.every(0.001, ring)

    bus.run(begin)
    wait_until(lambda: len(rang) == 3, "three rings")
    later = threading.Event()
    bus.run(lambda: bus.loop.later(0.02, later.set))
    assert later.wait(5)
    assert len(rang) == 3


def test_a_repeating_timer_that_raises_rings_again(make_bus: MakeBus) -> None:
    for kind in ("poll", "asyncio"):
        bus = make_bus(kind)
        rang: list[int] = []

        def ring(rang: list[int] = rang) -> None:
            rang.append(1)
            if len(rang) == 1:
                raise KeyError("a fault of the timer")

        timer = bus.run(lambda bus=bus, ring=ring: bus.loop.every(0.001, ring))  # type: ignore[misc]
        wait_until(lambda rang=rang: len(rang) >= 2, "a second ring")  # type: ignore[misc]
        bus.run(timer.cancel)
        assert [type(fault) for fault in bus.faults] == [KeyError]
        bus.faults.clear()


def test_hand_over_from_many_threads_loses_nothing_and_keeps_each_threads_order(bus: BusThread) -> None:
    got: list[tuple[int, int]] = []

    def hand(thread: int) -> None:
        for number in range(500):
            bus.loop.threadsafe(lambda number=number: got.append((thread, number)))  # type: ignore[misc]

    threads = [threading.Thread(target=hand, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: len(got) == 2000, "all that was handed over")
    for thread_number in range(4):
        assert [number for thread, number in got if thread == thread_number] == list(range(500))


def test_handed_over_work_is_followed_by_a_pass(bus: BusThread) -> None:
    batch: list[int] = []
    written: list[int] = []

    def write() -> None:
        written.extend(batch)
        batch.clear()

    bus.run(lambda: bus.loop.on_pass(write))
    bus.loop.threadsafe(lambda: batch.append(1))
    wait_until(lambda: written == [1], "the pass hook to see what was handed over")


def test_a_fault_of_any_callback_is_reported_and_the_loop_goes_on(bus: BusThread) -> None:
    read, write = os.pipe()

    def broken(name: str) -> Any:
        def act() -> None:
            if name in ("pass", "flush"):
                bus.loop.off(hooks[name])
            raise KeyError(name)

        return act

    hooks = {"pass": broken("pass"), "flush": broken("flush")}

    def source() -> None:
        os.read(read, 10)
        raise KeyError("source")

    def begin() -> None:
        bus.loop.on_pass(hooks["pass"])
        bus.loop.on_flush(hooks["flush"])
        bus.loop.add(read, source)
        bus.loop.later(0.0, broken("timer"))

    bus.run(begin)
    bus.loop.threadsafe(broken("handed"))
    os.write(write, b"x")
    wait_until(lambda: len(bus.faults) >= 5, "five faults")
    assert {fault.args[0] for fault in bus.faults} == {"pass", "flush", "source", "timer", "handed"}
    bus.faults.clear()
    bus.settle()
    bus.run(lambda: bus.loop.remove(read))
    os.close(read)
    os.close(write)


def test_faults_are_logged_with_the_place_that_raised_them() -> None:
    log = Lines()
    report = fault_logger(log)
    try:
        int("x")
    except ValueError as error:
        report(error)
    [(event, keys)] = log.errors
    assert event == "loop.callback_failed"
    assert keys["error"].startswith("ValueError(")
    assert keys["where"].startswith(f"{__name__}:")


def test_without_a_log_faults_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    loop = PollLoop()
    loop.later(0.0, lambda: 1 // 0)  # type: ignore[arg-type]
    loop.later(0.0, loop.stop)
    loop.run()
    loop.close()
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_on_asyncio_faults_go_to_its_own_handler_without_a_log() -> None:
    reported: list[object] = []

    async def main() -> None:
        done = asyncio.Event()

        def report(_: object, context: dict[str, object]) -> None:
            reported.append(context["exception"])
            done.set()

        asyncio.get_running_loop().set_exception_handler(report)
        loop = AioLoop()
        loop.later(0.0, lambda: 1 // 0)  # type: ignore[arg-type]
        await done.wait()
        loop.close()

    asyncio.run(main())
    assert isinstance(reported[0], ZeroDivisionError)


def test_no_timer_and_nothing_handed_over_runs_after_the_end_of_an_asyncio_loop() -> None:
    ran: list[str] = []

    async def main() -> None:
        loop = AioLoop()
        loop.every(0.001, lambda: ran.append("every"))
        loop.later(0.001, lambda: ran.append("later"))
        loop.threadsafe(lambda: ran.append("handed"))
        loop.on_pass(lambda: ran.append("pass"))
        loop.request_pass()
        loop.close()
        loop.request_pass()
        loop.threadsafe(lambda: ran.append("handed"))
        # A timer that is due after all of the loop's.
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, later.set)
        await later.wait()

    asyncio.run(main())
    assert ran == []


def test_a_signal_handler_stops_a_loop_that_waits() -> None:
    loop = PollLoop()
    before = signal.signal(signal.SIGUSR1, lambda *_: loop.stop())
    waker = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        waker.start()
        loop.run()
    finally:
        waker.join()
        signal.signal(signal.SIGUSR1, before)
        loop.close()


def test_a_loop_with_nothing_due_sleeps(run_dir: Path, make_bus: MakeBus) -> None:
    """No wake-up for calls that wait: only the earliest limit counts, and calls without one set no timer."""
    peer = make_bus("poll")
    peer.server("state", {"turn.held": lambda request, _: None, "session.kill": lambda request, _: None})
    bus = make_bus("poll")
    loop = bus.loop
    assert isinstance(loop, PollLoop)
    client = bus.client("state")
    bus.wait_up(client)
    bus.start(client, TURN_HELD, Anything())
    bus.settle()
    assert bus.run(loop._wait_s) == 3600.0
    bus.start(client, SESSION_KILL, OneSession("session-1"), deadline_s=time.monotonic() + 100)
    bus.start(client, SESSION_KILL, OneSession("session-1"), deadline_s=time.monotonic() + 200)
    bus.settle()
    assert 50 < bus.run(loop._wait_s) < 101


def test_a_closed_loop_takes_nothing_more_and_harms_nobody(run_dir: Path) -> None:
    loop = PollLoop()
    number = loop._wake_write
    loop.close()
    read, write = os.pipe()
    os.set_blocking(read, False)
    # Somebody else's pipe has the number that the loop's own had.
    os.dup2(write, number)
    loop.threadsafe(lambda: None)
    loop.stop()
    loop.close()
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    for fd in {read, write, number}:
        os.close(fd)


def test_closing_a_context_with_unsent_messages_does_not_hang(bus: BusThread, run_dir: Path) -> None:
    """The default of ZeroMQ waits for ever for a peer that never comes."""

    def begin() -> None:
        socket = bus.loop.context.socket(zmq.DEALER)
        socket.connect(f"ipc://{run_dir}/nobody.sock")
        socket.send(b"never delivered")
        bus.loop.add(socket, lambda: None)

    bus.run(begin)
    client = bus.client("nobody")
    for _ in range(10):
        bus.start(client, SESSION_KILL, OneSession("session-1"))
    bus.close()


def test_servers_and_clients_may_be_closed_twice_and_after_their_loop(make_bus: MakeBus) -> None:
    bus = make_bus("poll")
    server = bus.server("state", {})
    client = bus.client("state")
    publisher = bus.publisher("state", "e")
    subscriber = bus.subscriber("state", lambda event: None, lambda: None)
    bus.wait_up(client)
    for part in (subscriber, publisher, client, server):
        bus.run(part.close)
        bus.run(part.close)
    bus.close()
    for part in (subscriber, publisher, client, server):
        part.close()


def test_parts_that_outlive_their_loop_leave_nothing_behind(run_dir: Path) -> None:
    loop = PollLoop()
    server = Server(loop, run_dir, "state", {}, log=Lines())
    client = Client(loop, run_dir, "state", "test")
    loop.close()
    client.close()
    server.close()
