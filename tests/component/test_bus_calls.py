"""Calls to a worker that lives: replies, refusals, deadlines, faults of callbacks, drain, many calls at once."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

from termal.bus.client import EARLY, Client
from termal.bus.server import Request, Server
from termal.wire.coordination_operations import COORDINATION_PING
from termal.wire.envelope import MAX_BODY_BYTES
from termal.wire.errors import (
    Busy,
    Conflict,
    Forbidden,
    Internal,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    TermalError,
)
from termal.wire.runtime_operations import TURN_HELD
from termal.wire.session_operations import (
    SESSION_CREATE,
    SESSION_KILL,
    SESSION_READ,
    CreateSession,
    OneSession,
    ReadSession,
)
from termal.wire.turns import Anything, JsonReply
from termal.worker.stats import Stats
from tests.support.bus import LOOPS, BusThread, Outcome, soon
from tests.support.waiting import wait_until

ROLE = "state"


def echo(request: Request, record: Any) -> None:
    request.reply(JsonReply(record.key.encode()))


def pong(request: Request, _: Any) -> None:
    request.reply(Anything())


class Held:
    """A handler that keeps what it gets until the test answers it."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def __call__(self, request: Request, _: Any) -> None:
        self.requests.append(request)

    def wait(self, count: int = 1) -> list[Request]:
        return wait_until(lambda: self.requests if len(self.requests) >= count else None, f"{count} requests to start")


def failing(error: Exception) -> Callable[[Request, Any], None]:
    def handle(_: Request, __: Any) -> None:
        raise error

    return handle


def test_a_call_ends_with_the_typed_reply(bus: BusThread) -> None:
    bus.server(ROLE, {"session.create": echo})
    client = bus.client(ROLE)

    assert bus.ask(client, SESSION_CREATE, CreateSession(key="k-1")) == JsonReply(b"k-1")
    assert client.pending == 0


def test_calls_made_before_the_worker_is_there_are_carried_out_once_it_comes(bus: BusThread, peer: BusThread) -> None:
    client = bus.client(ROLE)
    early = [bus.start(client, SESSION_CREATE, CreateSession(key=f"k-{n}")) for n in range(3)]
    peer.server(ROLE, {"session.create": echo})

    assert [outcome.reply().json for outcome in early] == [b"k-0", b"k-1", b"k-2"]


def test_the_handler_knows_who_asked_under_which_trace_and_until_when(bus: BusThread, peer: BusThread) -> None:
    held = Held()
    peer.server(ROLE, {"session.kill": held})
    client = bus.client(ROLE, caller="gateway")
    deadline_s = time.monotonic() + 60
    bus.start(client, SESSION_KILL, OneSession("session-1"), trace="req-7", deadline_s=deadline_s)

    (request,) = held.wait()
    assert (request.caller, request.trace, request.deadline_s) == ("gateway", "req-7", deadline_s)
    assert not request.expired()
    assert request.expired(deadline_s + 1)


@pytest.mark.parametrize(
    "error",
    [
        Conflict("the world moved", reason="revision", detail={"revision": 7}),
        NotFound("no such session"),
        Forbidden("not yours"),
        Busy("stored", code="original_append_durable"),
        OutcomeUnknown("who knows"),
        InvalidRequest("never"),
    ],
    ids=lambda error: error.code,
)
def test_an_error_that_a_handler_raises_arrives_whole(make_bus: Any, error: TermalError) -> None:
    bus = make_bus("poll")
    bus.server(ROLE, {"session.kill": failing(error)})
    client = bus.client(ROLE)

    got = bus.start(client, SESSION_KILL, OneSession("session-1")).error()
    assert (type(got), got.body()) == (type(error), error.body())


def test_a_fault_of_a_handler_is_logged_under_the_trace_and_answered_as_internal(bus: BusThread) -> None:
    bus.server(ROLE, {"session.kill": failing(ZeroDivisionError("secret")), "coordination.ping": pong})
    client = bus.client(ROLE)

    error = bus.start(client, SESSION_KILL, OneSession("session-1"), trace="req-9").error()
    assert isinstance(error, Internal)
    assert "secret" not in error.message
    [(event, keys)] = bus.log.errors
    assert event == "bus.handler_failed"
    assert keys == {"operation": "session.kill", "requestId": "req-9", "error": "ZeroDivisionError('secret')"}
    assert bus.ask(client, COORDINATION_PING, Anything()) == Anything()


def test_a_handler_answers_once_and_what_it_says_after_that_is_ignored(bus: BusThread) -> None:
    def twice(request: Request, _: Any) -> None:
        request.reply(JsonReply(b"first"))
        request.reply(JsonReply(b"second"))
        raise Conflict("third")

    server = bus.server(ROLE, {"session.kill": twice})
    client = bus.client(ROLE)

    assert bus.ask(client, SESSION_KILL, OneSession("session-1")).json == b"first"
    bus.settle()
    assert (server.handled, server.open_requests) == (1, 0)


@pytest.mark.parametrize("value", [object(), JsonReply(b"x" * (MAX_BODY_BYTES + 1))], ids=["foreign", "too_large"])
def test_a_reply_that_cannot_travel_is_logged_and_answered_as_internal(make_bus: Any, value: object) -> None:
    bus = make_bus("poll")
    stats = Stats()
    bus.server(ROLE, {"session.kill": lambda request, _: request.reply(value)}, stats)
    client = bus.client(ROLE)

    assert isinstance(bus.start(client, SESSION_KILL, OneSession("session-1")).error(), Internal)
    assert [event for event, _ in bus.log.errors] == ["bus.reply_unsendable"]
    assert stats.counts == {("session.kill", "internal"): 1}


def test_an_error_whose_detail_cannot_travel_is_answered_as_internal(make_bus: Any) -> None:
    bus = make_bus("poll")
    bus.server(ROLE, {"session.kill": failing(Conflict("moved", detail=object()))})
    client = bus.client(ROLE)

    assert isinstance(bus.start(client, SESSION_KILL, OneSession("session-1")).error(), Internal)


def test_a_reply_of_another_type_ends_the_call_as_internal(make_bus: Any) -> None:
    bus = make_bus("poll")
    bus.server(ROLE, {"session.kill": lambda request, _: request.reply(TURN_HELD.request())})
    client = bus.client(ROLE)

    assert isinstance(bus.start(client, SESSION_KILL, OneSession("session-1")).error(), Internal)


def test_a_request_that_is_too_large_is_refused_before_anything_is_sent(bus: BusThread) -> None:
    held = Held()
    bus.server(ROLE, {"session.create": held})
    client = bus.client(ROLE)

    with pytest.raises(InvalidRequest) as refused:
        bus.start(client, SESSION_CREATE, CreateSession(key="k" * MAX_BODY_BYTES))
    assert refused.value.reason == "wireLimit"
    assert (client.pending, held.requests) == (0, [])


def test_a_trace_that_no_header_can_hold_is_refused_before_anything_is_sent(make_bus: Any) -> None:
    bus = make_bus("poll")
    client = bus.client(ROLE)
    for trace in ("t" * 513, "ä" * 300, "\ud800"):
        with pytest.raises(InvalidRequest):
            bus.start(client, SESSION_KILL, OneSession("session-1"), trace=trace)


def test_an_operation_that_the_worker_does_not_have_is_an_invalid_request(bus: BusThread) -> None:
    stats = Stats()
    bus.server(ROLE, {"coordination.ping": pong}, stats)
    client = bus.client(ROLE)

    error = bus.start(client, SESSION_KILL, OneSession("session-1")).error()
    assert (type(error), error.reason) == (InvalidRequest, "unknownOperation")
    assert stats.counts == {("unknown", "invalid_request"): 1}


def test_a_body_that_is_none_of_the_operations_type_never_reaches_the_handler(bus: BusThread) -> None:
    held = Held()
    bus.server(ROLE, {"session.read": held})
    client = bus.client(ROLE)

    error = bus.start(client, SESSION_READ, ReadSession("session-1", tail="many")).error()  # type: ignore[arg-type]
    assert (type(error), error.reason) == (InvalidRequest, "wireSchema")
    assert held.requests == []


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ((SESSION_CREATE, CreateSession(key="k")), "no_write_committed"),
        ((SESSION_KILL, OneSession("session-1")), "no_write_committed"),
        ((SESSION_READ, ReadSession("session-1")), "no_mutation_attempted"),
    ],
    ids=["repeatable_write", "write", "read"],
)
def test_a_request_whose_deadline_passed_in_the_queue_is_refused_before_it_starts(
    make_bus: Any, peer: BusThread, asked: tuple[Any, Any], code: str
) -> None:
    bus: BusThread = make_bus("poll")
    held = Held()
    peer.server(ROLE, {asked[0].name: held, "coordination.ping": pong})
    client = bus.client(ROLE)
    bus.wait_up(client)
    deadline_s = soon()

    # The worker's loop is busy until the deadline has passed; the request waits in its socket.
    def block() -> None:
        wait_until(lambda: time.monotonic() > deadline_s, "the deadline to pass")

    peer.loop.threadsafe(block)
    error = bus.start(client, *asked, deadline_s=deadline_s).error()

    assert (type(error), error.code) == (Busy, code)
    assert bus.ask(client, COORDINATION_PING, Anything()) == Anything()
    assert held.requests == []


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ((SESSION_CREATE, CreateSession(key="k")), "outcome_unknown"),
        ((SESSION_KILL, OneSession("session-1")), "outcome_unknown"),
        ((SESSION_READ, ReadSession("session-1")), "no_mutation_attempted"),
    ],
    ids=["repeatable_write", "write", "read"],
)
def test_a_started_request_without_an_answer_ends_at_its_deadline_and_the_late_answer_is_ignored(
    bus: BusThread, peer: BusThread, asked: tuple[Any, Any], code: str
) -> None:
    held = Held()
    peer.server(ROLE, {asked[0].name: held, "coordination.ping": pong})
    client = bus.client(ROLE)
    bus.wait_up(client)
    outcome: Outcome[Any] = bus.start(client, *asked, deadline_s=soon())
    (request,) = held.wait()

    assert outcome.error().code == code
    peer.run(lambda: request.reply(JsonReply(b"late")))
    assert bus.ask(client, COORDINATION_PING, Anything()) == Anything()
    assert len(outcome.ends) == 1


def test_a_call_without_a_deadline_waits_for_its_answer(bus: BusThread, peer: BusThread) -> None:
    held = Held()
    peer.server(ROLE, {"session.kill": held, "turn.held": held})
    client = bus.client(ROLE)
    outcomes: list[Outcome[Any]] = [
        bus.start(client, SESSION_KILL, OneSession("session-1"), deadline_s=math.inf),
        bus.start(client, TURN_HELD, Anything()),
    ]
    requests = held.wait(2)
    assert [request.deadline_s for request in requests] == [None, None]
    assert [outcome.call.limit_s() for outcome in outcomes if outcome.call] == [None, None]
    for request in requests:
        peer.run(lambda request=request: request.refuse(NotFound("gone")))  # type: ignore[misc]
    assert all(isinstance(outcome.error(), NotFound) for outcome in outcomes)


def test_a_cancelled_call_never_calls_back(bus: BusThread, peer: BusThread) -> None:
    held = Held()
    peer.server(ROLE, {"session.kill": held, "coordination.ping": pong})
    client = bus.client(ROLE)
    outcome = bus.start(client, SESSION_KILL, OneSession("session-1"))
    (request,) = held.wait()
    assert outcome.call is not None
    bus.run(outcome.call.cancel)
    bus.run(outcome.call.cancel)

    peer.run(lambda: request.reply(JsonReply(b"{}")))
    assert bus.ask(client, COORDINATION_PING, Anything()) == Anything()
    assert (outcome.ends, client.pending) == ([], 0)


def test_a_call_that_is_cancelled_in_the_pass_that_made_it_is_never_sent(bus: BusThread, peer: BusThread) -> None:
    held = Held()
    peer.server(ROLE, {"session.kill": held, "coordination.ping": pong})
    client = bus.client(ROLE)
    bus.wait_up(client)

    def begin() -> None:
        client.call(SESSION_KILL, OneSession("session-1"), lambda reply, error: None).cancel()

    bus.run(begin)
    assert bus.ask(client, COORDINATION_PING, Anything()) == Anything()
    assert held.requests == []


def test_the_worker_begins_with_the_first_of_many_calls_while_the_rest_is_made(bus: BusThread, peer: BusThread) -> None:
    held = Held()
    peer.server(ROLE, {"session.kill": held})
    client = bus.client(ROLE)
    bus.wait_up(client)

    def begin() -> int:
        for number in range(EARLY + 3):
            client.call(SESSION_KILL, OneSession(f"session-{number}"), lambda reply, error: None)
        return len(held.wait(EARLY))

    assert bus.run(begin) == EARLY
    assert len(held.wait(EARLY + 3)) == EARLY + 3


def test_a_draining_worker_refuses_what_is_new_and_finishes_what_is_under_way(bus: BusThread, peer: BusThread) -> None:
    held = Held()
    server = peer.server(ROLE, {"session.kill": held, "coordination.ping": pong})
    client = bus.client(ROLE)
    under_way = bus.start(client, SESSION_KILL, OneSession("session-1"))
    (request,) = held.wait()
    peer.run(lambda: server.drain(Busy("the daemon stops")))

    write = bus.start(client, SESSION_KILL, OneSession("session-2")).error()
    read = bus.start(client, COORDINATION_PING, Anything()).error()
    assert [(type(error), error.code) for error in (write, read)] == [
        (Busy, "no_write_committed"),
        (Busy, "no_mutation_attempted"),
    ]
    assert server.open_requests == 1
    peer.run(lambda: request.reply(JsonReply(b"done")))
    assert under_way.reply().json == b"done"
    assert server.open_requests == 0


def test_a_closing_server_sends_the_replies_that_wait(bus: BusThread, peer: BusThread) -> None:
    held = Held()
    server = peer.server(ROLE, {"session.kill": held})
    client = bus.client(ROLE)
    outcome = bus.start(client, SESSION_KILL, OneSession("session-1"), deadline_s=math.inf)
    (request,) = held.wait()

    # The caller is not told of the end of the connection before it has read: it reads nothing until then.
    peer.run(lambda: request.reply(JsonReply(b"last words")))
    wait_until(lambda: outcome.ends, "the last reply to arrive")
    peer.run(server.close)
    bus.wait_down(client)
    assert outcome.reply().json == b"last words"


def test_callbacks_that_raise_cost_neither_the_other_answers_nor_the_loop(make_bus: Any) -> None:
    bus: BusThread = make_bus("poll")
    bus.server(ROLE, {"coordination.ping": pong})
    client = bus.client(ROLE)
    bus.wait_up(client)
    ends: list[object] = []

    def broken(_: object, __: object) -> None:
        raise KeyError("a fault of the caller")

    def refused(_: object, __: object) -> None:
        raise Conflict("a taxonomy error is no reply either")

    def begin() -> None:
        client.call(COORDINATION_PING, Anything(), broken)
        client.call(COORDINATION_PING, Anything(), refused)
        client.call(COORDINATION_PING, Anything(), lambda reply, error: ends.append(reply))

    bus.run(begin)
    wait_until(lambda: ends, "the third answer")
    assert bus.ask(client, COORDINATION_PING, Anything()) == Anything()
    assert [type(fault) for fault in bus.faults] == [KeyError, Conflict]
    bus.faults.clear()


def test_ten_thousand_calls_under_way_each_end_once(bus: BusThread, peer: BusThread) -> None:
    held = Held()
    server = peer.server(ROLE, {"session.create": held})
    client = bus.client(ROLE)
    bus.wait_up(client)
    calls = [(SESSION_CREATE, CreateSession(key=f"k-{n}")) for n in range(10_000)]
    outcomes = bus.start_all(client, list(calls), deadline_s=time.monotonic() + 60)
    requests = held.wait(10_000)
    assert (server.open_requests, client.pending) == (10_000, 10_000)

    def answer() -> None:
        for request in requests:
            request.reply(JsonReply(str(request.id).encode()))

    peer.run(answer)
    wait_until(lambda: client.pending == 0, "all calls to end")
    assert [outcome.ends for outcome in outcomes] == [
        [(JsonReply(str(outcome.call.id).encode()), None)] for outcome in outcomes if outcome.call
    ]
    assert (server.open_requests, server.handled) == (0, 10_000)


@pytest.mark.parametrize("kind", LOOPS)
def test_a_long_exchange_never_stalls(make_bus: Any, kind: str) -> None:
    """The descriptor of a socket is edge-triggered: what arrives during a send must not be left lying."""
    bus, other = make_bus(kind), make_bus(kind)
    other.server(ROLE, {"coordination.ping": pong})
    clients = [bus.client(ROLE) for _ in range(3)]
    left = dict.fromkeys(clients, 1000)

    def next_one(client: Client) -> None:
        left[client] -= 1
        if left[client]:
            client.call(COORDINATION_PING, Anything(), lambda reply, error: next_one(client))

    for client in clients:
        bus.run(lambda client=client: next_one(client))
    while (before := sum(left.values())) > 0:
        wait_until(lambda: sum(left.values()) < before, "another reply")


def test_the_figures_of_each_operation_reach_the_recorder(bus: BusThread) -> None:
    stats = Stats()
    server = bus.server(ROLE, {"session.create": echo, "session.kill": failing(Conflict("no"))}, stats)
    client = bus.client(ROLE)
    for _ in range(3):
        bus.ask(client, SESSION_CREATE, CreateSession(key="k"))
    bus.start(client, SESSION_KILL, OneSession("session-1")).error()

    assert stats.counts == {("session.create", "ok"): 3, ("session.kill", "conflict"): 1}
    assert set(stats.seconds) == {"session.create", "session.kill"}
    p50, p99 = stats.percentiles_ms()
    assert 0 < p50 <= p99
    assert (server.handled, server.open_requests) == (4, 0)


def test_a_client_that_closes_with_calls_under_way_does_no_harm_to_the_worker(bus: BusThread, peer: BusThread) -> None:
    held = Held()
    peer.server(ROLE, {"session.kill": held, "coordination.ping": pong})
    leaving, staying = bus.client(ROLE), bus.client(ROLE)
    bus.start(leaving, SESSION_KILL, OneSession("session-1"))
    (request,) = held.wait()
    bus.run(leaving.close)
    bus.run(leaving.close)

    peer.run(lambda: request.reply(JsonReply(b"for nobody")))
    assert bus.ask(staying, COORDINATION_PING, Anything()) == Anything()


def test_listeners_hear_each_coming_and_going_of_the_worker(bus: BusThread, peer: BusThread) -> None:
    heard: list[str] = []
    client = bus.client(ROLE)

    def listen() -> None:
        client.on_up.append(lambda: heard.append("up"))
        client.on_down.append(lambda: heard.append("down"))

    bus.run(listen)
    for _ in range(2):
        server = peer.server(ROLE, {})
        bus.wait_up(client)
        peer.run(server.close)
        bus.wait_down(client)
    assert heard == ["up", "down", "up", "down"]


def test_a_listener_that_raises_does_not_keep_the_news_from_the_next(make_bus: Any, peer: BusThread) -> None:
    bus: BusThread = make_bus("poll")
    client: Client = bus.client(ROLE)
    heard: list[str] = []
    bus.run(lambda: client.on_up.extend([failing_listener, lambda: heard.append("up")]))
    peer.server(ROLE, {})
    wait_until(lambda: heard, "the second listener")
    assert [type(fault) for fault in bus.faults] == [RuntimeError]
    bus.faults.clear()


def failing_listener() -> None:
    raise RuntimeError("a fault of a listener")


def test_a_server_that_cannot_bind_gives_the_role_free(make_bus: Any, run_dir: Path) -> None:
    bus: BusThread = make_bus("poll")
    (run_dir / "state.sock").mkdir()
    with pytest.raises(zmq.ZMQError):
        bus.server(ROLE, {})
    (run_dir / "state.sock").rmdir()
    server: Server = bus.server(ROLE, {})
    assert server.open_requests == 0
