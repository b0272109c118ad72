"""What really travels: how many messages, of which size, and what a strange or slow peer does to a worker."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from termal.bus.server import Request
from termal.bus.sockets import endpoint
from termal.wire.codec import encode
from termal.wire.coordination_operations import COORDINATION_PING
from termal.wire.envelope import (
    MAX_MESSAGE_BYTES,
    OK,
    PACK,
    PACK_BYTES,
    Answer,
    Envelope,
    pack_answers,
    pack_requests,
    unpack_answers,
    unpack_requests,
)
from termal.wire.session_operations import PROMPT_SEND, SESSION_CREATE, CreateSession, SendPrompt
from termal.wire.turns import Anything, JsonReply
from tests.component.conftest import MakeBus
from tests.support.bus import BusThread, soon
from tests.support.waiting import wait_until

ROLE = "state"
PATIENCE_MS = 5000


class Raw:
    """Plain ZeroMQ sockets, as a peer that knows nothing of the bus has them."""

    def __init__(self, run_dir: Path) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._run_dir = run_dir
        self._sockets: list[zmq.Socket[bytes]] = []

    def worker(self) -> "zmq.Socket[bytes]":
        router = self._socket(zmq.ROUTER)
        router.bind(endpoint(self._run_dir, ROLE))
        return router

    def caller(self, kind: int = zmq.DEALER, **options: int) -> "zmq.Socket[bytes]":
        socket = self._socket(kind)
        for name, value in options.items():
            socket.setsockopt(getattr(zmq, name), value)
        socket.connect(endpoint(self._run_dir, ROLE))
        return socket

    def close(self) -> None:
        for socket in self._sockets:
            socket.close(linger=0)
        self._context.destroy(linger=0)

    def _socket(self, kind: int) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        socket.setsockopt(zmq.SNDTIMEO, PATIENCE_MS)
        return socket


@pytest.fixture
def raw(run_dir: Path) -> Iterator[Raw]:
    sockets = Raw(run_dir)
    yield sockets
    sockets.close()


def pong(request: Request, _: Any) -> None:
    request.reply(Anything())


def ping(number: int) -> Envelope:
    return Envelope(number, COORDINATION_PING.name, 0.0, "raw", "", encode(Anything()))


def create(number: int) -> Envelope:
    return Envelope(number, SESSION_CREATE.name, 0.0, "raw", "", encode(CreateSession(key="k")))


def waiting(socket: "zmq.Socket[bytes]") -> bool:
    return bool(socket.poll(0))


def test_calls_of_one_pass_are_one_message_and_many_are_one_for_each_32(bus: BusThread, raw: Raw) -> None:
    worker = raw.worker()
    client = bus.client(ROLE)
    bus.wait_up(client)
    bus.start_all(client, [(COORDINATION_PING, Anything())] * 50)
    bus.start_all(client, [(COORDINATION_PING, Anything())] * 3)

    packs = [unpack_requests(worker.recv_multipart()[1]) for _ in range(3)]
    assert [[envelope.id for envelope in pack] for pack in packs] == [
        list(range(1, 33)),
        list(range(33, 51)),
        [51, 52, 53],
    ]
    bus.settle()
    assert not waiting(worker)


def test_calls_that_waited_for_the_worker_are_one_message(bus: BusThread, raw: Raw) -> None:
    client = bus.client(ROLE)
    for _ in range(5):
        bus.start(client, COORDINATION_PING, Anything())
    worker = raw.worker()
    assert len(unpack_requests(worker.recv_multipart()[1])) == 5


def test_replies_of_one_pass_are_one_message_for_each_caller(bus: BusThread, raw: Raw) -> None:
    bus.server(ROLE, {"coordination.ping": pong})
    first, second = raw.caller(), raw.caller()
    first.send(pack_requests([ping(number) for number in range(50)]))
    second.send(pack_requests([ping(7)]))

    assert [answer.id for answer in unpack_answers(first.recv())] == list(range(50))
    assert [answer.id for answer in unpack_answers(second.recv())] == [7]
    bus.settle()
    assert not waiting(first)


def test_replies_that_come_later_in_one_pass_are_one_message(bus: BusThread, raw: Raw) -> None:
    held: list[Request] = []
    bus.server(ROLE, {"coordination.ping": lambda request, _: held.append(request)})
    caller = raw.caller()
    for number in range(20):
        caller.send(pack_requests([ping(number)]))
    wait_until(lambda: len(held) == 20, "twenty requests")

    def answer() -> None:
        for request in held:
            request.reply(Anything())

    bus.run(answer)
    assert len(unpack_answers(caller.recv())) == 20


def test_many_calls_that_waited_are_cut_into_messages_of_a_bounded_number(make_bus: MakeBus, raw: Raw) -> None:
    bus = make_bus("poll")
    client = bus.client(ROLE)
    bus.start_all(client, [(COORDINATION_PING, Anything())] * (2 * PACK + 1))
    worker = raw.worker()
    assert [len(unpack_requests(worker.recv_multipart()[1])) for _ in range(3)] == [PACK, PACK, 1]


def test_large_bodies_are_not_packed_beyond_the_size_of_a_message(make_bus: MakeBus, raw: Raw) -> None:
    bus = make_bus("poll")
    worker = raw.worker()
    client = bus.client(ROLE)
    bus.wait_up(client)
    half = SendPrompt(key="k", session_id="session-1", text="x" * (PACK_BYTES // 2 - 200))
    whole = SendPrompt(key="k", session_id="session-1", text="x" * PACK_BYTES)
    bus.start_all(client, [(PROMPT_SEND, half)] * 3 + [(PROMPT_SEND, whole)] * 2)
    frames = [worker.recv_multipart()[1] for _ in range(4)]
    assert [len(unpack_requests(frame)) for frame in frames] == [2, 1, 1, 1]


def test_more_than_one_message_can_hold_arrives_whole(bus: BusThread, peer: BusThread) -> None:
    """Packed together the replies would be longer than ZeroMQ's limit, which cuts the connection."""
    body = b"x" * (MAX_MESSAGE_BYTES // 5)
    peer.server(ROLE, {"session.create": lambda request, _: request.reply(JsonReply(body))})
    client = bus.client(ROLE)
    bus.wait_up(client)
    outcomes = bus.start_all(client, [(SESSION_CREATE, CreateSession(key="k"))] * 6)
    assert [len(outcome.reply().json) for outcome in outcomes] == [len(body)] * 6


MALFORMED = {
    "empty": [b""],
    "garbage": [b"\xff\x00garbage"],
    "truncated": [pack_requests([ping(1)])[:-1]],
    "trailing": [pack_requests([ping(1)]) + b"\x00"],
    "an_answer": [pack_answers([Answer(1, OK, b"")])],
    "other_version": [pack_requests([ping(1)]).replace(b"\x96\x01", b"\x96\x02", 1)],
    "three_frames": [b"", pack_requests([ping(1)])],
}


@pytest.mark.parametrize("frames", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_message_is_logged_and_dropped_without_harm(
    make_bus: MakeBus, raw: Raw, frames: list[bytes]
) -> None:
    bus = make_bus("poll")
    server = bus.server(ROLE, {"coordination.ping": pong})
    caller = raw.caller()
    caller.send_multipart(frames)
    caller.send(pack_requests([ping(2)]))

    assert [answer.id for answer in unpack_answers(caller.recv())] == [2]
    assert [event for event, _ in bus.log.repeated] == ["bus.malformed"]
    assert (server.handled, server.open_requests) == (1, 0)


def test_a_request_socket_of_zeromq_is_no_caller(make_bus: MakeBus, raw: Raw) -> None:
    bus = make_bus("poll")
    bus.server(ROLE, {"coordination.ping": pong})
    raw.caller(zmq.REQ).send(pack_requests([ping(1)]))
    wait_until(lambda: bus.log.repeated, "the message to be dropped")


def test_a_message_beyond_the_limit_costs_its_sender_the_connection_and_nobody_else(
    make_bus: MakeBus, raw: Raw
) -> None:
    bus = make_bus("poll")
    bus.server(ROLE, {"coordination.ping": pong})
    client = bus.client(ROLE)
    bus.wait_up(client)
    raw.caller().send(bytes(MAX_MESSAGE_BYTES + 1))

    assert bus.ask(client, COORDINATION_PING, Anything()) == Anything()
    assert client.up
    other = raw.caller()
    other.send(pack_requests([ping(1)]))
    assert len(unpack_answers(other.recv())) == 1


def test_a_malformed_answer_is_reported_and_the_client_goes_on(make_bus: MakeBus, raw: Raw) -> None:
    bus = make_bus("poll")
    worker = raw.worker()
    client = bus.client(ROLE)
    outcome = bus.start(client, COORDINATION_PING, Anything())
    name, frame = worker.recv_multipart()
    (envelope,) = unpack_requests(frame)
    worker.send_multipart((name, b"\xffgarbage"))
    worker.send_multipart((name, pack_answers([Answer(envelope.id + 1, OK, encode(Anything()))])))
    worker.send_multipart((name, pack_answers([Answer(envelope.id, OK, encode(Anything()))])))
    assert outcome.reply() == Anything()
    assert [str(fault) for fault in bus.faults] == ["not a msgpack array within the limits"]
    bus.faults.clear()


def test_a_caller_that_does_not_read_gets_its_replies_later_and_holds_up_nobody(
    bus: BusThread, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termal.bus.server.HIGH_WATER_REQUESTS", 2)
    body = b"x" * (64 << 10)
    server = bus.server(
        ROLE, {"session.create": lambda request, _: request.reply(JsonReply(body)), "coordination.ping": pong}
    )
    slow = raw.caller(RCVHWM=1)
    for number in range(100):
        slow.send(pack_requests([create(number)]))
    wait_until(lambda: server.handled == 100, "all requests to be answered")
    client = bus.client(ROLE)
    assert bus.ask(client, COORDINATION_PING, Anything()) == Anything()

    answers: list[Answer] = []
    while len(answers) < 100:
        answers += unpack_answers(slow.recv())
    assert [answer.id for answer in answers] == list(range(100))
    assert bus.log.repeated == []


def test_replies_for_a_caller_that_never_reads_are_dropped_at_a_bound(
    make_bus: MakeBus, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termal.bus.server.HIGH_WATER_REQUESTS", 2)
    monkeypatch.setattr("termal.bus.server.HELD_BYTES", 1 << 20)
    bus = make_bus("poll")
    body = b"x" * (256 << 10)
    server = bus.server(
        ROLE, {"session.create": lambda request, _: request.reply(JsonReply(body)), "coordination.ping": pong}
    )
    silent = raw.caller(RCVHWM=1)
    for number in range(40):
        silent.send(pack_requests([create(number)]))
    wait_until(lambda: server.handled == 40, "all requests to be answered")
    wait_until(lambda: bus.log.repeated, "replies to be dropped")
    assert {event for event, _ in bus.log.repeated} == {"bus.reply_dropped"}
    assert bus.ask(bus.client(ROLE), COORDINATION_PING, Anything()) == Anything()


def test_a_reply_to_a_caller_that_is_gone_is_dropped_and_logged(bus: BusThread, raw: Raw) -> None:
    held: list[Request] = []
    bus.server(ROLE, {"session.create": lambda request, _: held.append(request), "coordination.ping": pong})
    raw.caller().send(pack_requests([create(number) for number in range(200)]))
    wait_until(lambda: len(held) == 200, "the requests to start")
    raw.close()

    def answer_one() -> bool:
        # The worker learns of the end of a connection a moment later; until then a reply goes into the void.
        bus.run(lambda: held.pop().reply(JsonReply(b"{}")))
        return bool(bus.log.repeated)

    wait_until(answer_one, "a reply to be dropped")
    assert {event for event, _ in bus.log.repeated} == {"bus.reply_dropped"}
    assert bus.ask(bus.client(ROLE), COORDINATION_PING, Anything()) == Anything()


def test_the_last_reply_leaves_though_the_server_closes_in_the_same_pass(bus: BusThread, raw: Raw) -> None:
    held: list[Request] = []
    server = bus.server(ROLE, {"session.create": lambda request, _: held.append(request)})
    caller = raw.caller()
    caller.send(pack_requests([create(1)]))
    wait_until(lambda: held, "the request to start")
    body = b"x" * (4 << 20)

    def say_and_go() -> None:
        held[0].reply(JsonReply(body))
        server.close()

    bus.run(say_and_go)
    (answer,) = unpack_answers(caller.recv())
    assert len(answer.body) > len(body)


def test_a_client_that_reads_nothing_does_not_hold_up_the_end_of_the_server(make_bus: MakeBus, raw: Raw) -> None:
    bus = make_bus("poll")
    body = b"x" * (8 << 20)
    server = bus.server(ROLE, {"session.create": lambda request, _: request.reply(JsonReply(body))})
    raw.caller(RCVHWM=1).send(pack_requests([create(number) for number in range(8)]))
    wait_until(lambda: server.handled == 8, "the replies")
    bus.close()


def test_a_deadline_in_the_past_is_refused_by_the_worker_itself(make_bus: MakeBus, raw: Raw) -> None:
    bus = make_bus("poll")
    bus.server(ROLE, {"coordination.ping": pong})
    caller = raw.caller()
    late = ping(1)._replace(deadline=time.monotonic() - 1)
    caller.send(pack_requests([late, ping(2), ping(3)._replace(deadline=soon(60))]))
    assert [answer.status for answer in unpack_answers(caller.recv())] == [1, OK, OK]
