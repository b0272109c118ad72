"""A worker that is killed, absent, frozen or restarted: what its callers learn, and what is carried out how often."""

import math
import time
from pathlib import Path
from typing import Any

import pytest
import zmq

from termal.bus.client import Client
from termal.bus.sockets import HIGH_WATER_REQUESTS, endpoint
from termal.wire.codec import encode
from termal.wire.coordination_operations import COORDINATION_PING
from termal.wire.envelope import FAILED, MAX_MESSAGE_BYTES, Answer, pack_answers, unpack_requests
from termal.wire.errors import Busy, OutcomeUnknown, TermalError
from termal.wire.runtime_operations import TURN_HELD
from termal.wire.session_operations import (
    SESSION_CREATE,
    SESSION_KILL,
    SESSION_READ,
    CreateSession,
    OneSession,
    ReadSession,
)
from termal.wire.turns import Anything, Held, JsonReply
from tests.component.conftest import MakeBus, Spawn
from tests.support.bus import BusThread, Outcome, soon
from tests.support.bus_server import seen
from tests.support.waiting import wait_until

ROLE = "state"
FAR_S = 3600.0
"""A deadline that no test reaches: whatever ends, ends for another reason."""


def far() -> float:
    return time.monotonic() + FAR_S


def started(run_dir: Path, count: int) -> list[str]:
    return wait_until(
        lambda: seen(run_dir, ROLE) if len(seen(run_dir, ROLE)) >= count else None, f"{count} requests to start"
    )


def patience(outcome: Outcome[Any]) -> float | None:
    assert outcome.call is not None
    return outcome.call.patience_s


def was_sent(outcome: Outcome[Any]) -> bool:
    assert outcome.call is not None
    return outcome.call.sent


def test_a_killed_worker_ends_the_non_repeatable_calls_it_had_as_unknown_at_once(
    bus: BusThread, spawn: Spawn, run_dir: Path
) -> None:
    worker = spawn(ROLE, "hold")
    client = bus.client(ROLE)
    outcomes = [bus.start(client, SESSION_KILL, OneSession(f"session-{n}"), deadline_s=far()) for n in range(50)]
    started(run_dir, 50)
    worker.kill()

    assert all(isinstance(outcome.error(), OutcomeUnknown) for outcome in outcomes)
    assert client.pending == 0


def test_repeatable_calls_are_answered_by_the_next_life_of_the_worker(
    bus: BusThread, spawn: Spawn, run_dir: Path
) -> None:
    worker = spawn(ROLE, "hold")
    client = bus.client(ROLE)
    writes: list[Outcome[Any]] = [
        bus.start(client, SESSION_CREATE, CreateSession(key=f"k-{n}"), deadline_s=far()) for n in range(20)
    ]
    read: Outcome[Any] = bus.start(client, SESSION_READ, ReadSession("session-1"), deadline_s=far())
    unlimited: Outcome[Any] = bus.start(client, TURN_HELD, Anything())
    started(run_dir, 22)
    worker.kill()
    bus.wait_down(client)
    spawn(ROLE)

    assert [outcome.reply() for outcome in (*writes, read)] == [JsonReply(b"{}")] * 21
    assert isinstance(unlimited.reply(), Held)
    first, second = seen(run_dir, ROLE)[:22], seen(run_dir, ROLE)[22:]
    assert second == first, "the same requests, in the same order"
    assert [len(outcome.ends) for outcome in (*writes, read, unlimited)] == [1] * 22


def test_each_of_several_restarts_is_survived(make_bus: MakeBus, spawn: Spawn, run_dir: Path) -> None:
    bus = make_bus("poll")
    client = bus.client(ROLE)
    outcome = bus.start(client, SESSION_CREATE, CreateSession(key="k"), deadline_s=far())
    for life in range(1, 4):
        worker = spawn(ROLE, "hold")
        started(run_dir, life)
        worker.kill()
        bus.wait_down(client)
    spawn(ROLE)
    assert outcome.reply() == JsonReply(b"{}")
    assert seen(run_dir, ROLE) == ["session.create k"] * 4


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ((SESSION_CREATE, CreateSession(key="late")), "no_write_committed"),
        ((SESSION_KILL, OneSession("late")), "no_write_committed"),
        ((SESSION_READ, ReadSession("late")), "no_mutation_attempted"),
    ],
    ids=["repeatable_write", "write", "read"],
)
def test_what_is_sent_to_an_absent_worker_is_never_carried_out_after_its_deadline(
    make_bus: MakeBus, spawn: Spawn, run_dir: Path, asked: tuple[Any, Any], code: str
) -> None:
    bus = make_bus("poll")
    client = bus.client(ROLE)
    error = bus.start(client, *asked, deadline_s=soon()).error()
    assert (type(error), error.code) == (Busy, code)

    spawn(ROLE)
    bus.ask(client, COORDINATION_PING, Anything())
    assert seen(run_dir, ROLE) == ["coordination.ping "]


def test_a_write_lost_with_one_life_and_expired_before_the_next_is_of_unknown_outcome(
    bus: BusThread, spawn: Spawn, run_dir: Path
) -> None:
    worker = spawn(ROLE, "hold")
    client = bus.client(ROLE)
    bus.wait_up(client)
    deadline_s = time.monotonic() + 0.5
    write = bus.start(client, SESSION_CREATE, CreateSession(key="k"), deadline_s=deadline_s)
    read = bus.start(client, SESSION_READ, ReadSession("session-1"), deadline_s=deadline_s)
    started(run_dir, 2)
    worker.kill()

    assert isinstance(write.error(), OutcomeUnknown)
    error = read.error()
    assert (type(error), error.code) == (Busy, "no_mutation_attempted")


@pytest.mark.parametrize("code", ["no_write_committed", "original_append_durable"])
def test_a_refusal_of_the_second_attempt_speaks_for_itself_alone(make_bus: MakeBus, run_dir: Path, code: Any) -> None:
    """The word 'nothing was written' of the second attempt does not cover the first one, which died with its worker."""
    bus = make_bus("poll")
    client = bus.client(ROLE)
    context = zmq.Context()
    try:
        outcome: Outcome[Any] = bus.start(client, SESSION_CREATE, CreateSession(key="k"), deadline_s=far())
        for life in range(2):
            router = context.socket(zmq.ROUTER)
            router.setsockopt(zmq.LINGER, 0)
            router.setsockopt(zmq.RCVTIMEO, 5000)
            router.bind(endpoint(run_dir, ROLE))
            peer, frame = router.recv_multipart()
            (envelope,) = unpack_requests(frame)
            if life == 1:
                refusal = Answer(envelope.id, FAILED, encode(Busy("in the queue", code=code).body()))
                router.send_multipart((peer, pack_answers([refusal])))
                error = outcome.error()
            router.close(linger=0)
            bus.wait_down(client)
    finally:
        context.destroy(linger=0)
    assert error.code == ("outcome_unknown" if code == "no_write_committed" else code)


def test_an_absent_worker_is_waited_for_only_as_long_as_the_caller_has_patience(bus: BusThread, spawn: Spawn) -> None:
    client = bus.client(ROLE)
    error = bus.start(client, SESSION_KILL, OneSession("session-1"), deadline_s=far(), absent_s=0.05).error()
    assert (type(error), error.code) == (Busy, "no_write_committed")
    unlimited = bus.start(client, TURN_HELD, Anything(), absent_s=0.05).error()
    assert isinstance(unlimited, Busy)


def test_patience_ends_when_the_worker_comes_and_starts_again_when_it_goes(
    bus: BusThread, spawn: Spawn, run_dir: Path
) -> None:
    client = bus.client(ROLE)
    early = bus.start(client, TURN_HELD, Anything(), absent_s=FAR_S)
    assert patience(early) is not None
    worker = spawn(ROLE, "hold")
    started(run_dir, 1)
    assert patience(early) is None
    late = bus.start(client, TURN_HELD, Anything(), absent_s=0.05)
    started(run_dir, 2)
    assert late.ends == []
    worker.kill()
    # The life that is gone may have carried the write out.
    assert isinstance(late.error(), OutcomeUnknown)
    assert early.ends == []


def test_a_frozen_worker_costs_its_callers_their_deadline_and_nothing_after_it(
    bus: BusThread, spawn: Spawn, run_dir: Path
) -> None:
    worker = spawn(ROLE)
    client = bus.client(ROLE)
    bus.ask(client, COORDINATION_PING, Anything())
    worker.freeze()
    calls: list[tuple[Any, Any]] = [
        (SESSION_CREATE, CreateSession(key="k")),
        (SESSION_KILL, OneSession("session-1")),
        (SESSION_READ, ReadSession("session-1")),
    ]
    outcomes = bus.start_all(client, calls, deadline_s=soon())
    errors: list[TermalError] = [outcome.error() for outcome in outcomes]
    assert [error.code for error in errors] == ["outcome_unknown", "outcome_unknown", "no_mutation_attempted"]

    worker.thaw()
    assert bus.ask(client, COORDINATION_PING, Anything(), deadline_s=far()) == Anything()
    assert [len(outcome.ends) for outcome in outcomes] == [1, 1, 1]
    # The worker found them past their deadline and started none of them.
    assert seen(run_dir, ROLE) == ["coordination.ping ", "coordination.ping "]


def test_calls_beyond_the_high_water_mark_of_a_frozen_worker_wait_here_and_stay_in_order(
    make_bus: MakeBus, spawn: Spawn, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termal.bus.client.HIGH_WATER_REQUESTS", 2)
    monkeypatch.setattr("termal.bus.client.RETRY_S", 0.3)
    bus = make_bus("poll")
    worker = spawn(ROLE)
    client = bus.client(ROLE)
    bus.wait_up(client)
    worker.freeze()
    # 64 KiB each: the kernel's buffers and the mark of two messages are full long before all were taken.
    padding = "x" * (64 << 10)
    outcomes = [
        bus.start(client, SESSION_CREATE, CreateSession(key=f"k-{n}", name=padding), deadline_s=far())
        for n in range(40)
    ]
    bus.settle()
    assert was_sent(outcomes[0])
    assert not was_sent(outcomes[-1])
    worker.thaw()
    wait_until(lambda: outcomes[0].ends, "room for more")
    outcomes += [
        bus.start(client, SESSION_CREATE, CreateSession(key=f"k-{n}"), deadline_s=far()) for n in range(40, 80)
    ]
    for outcome in outcomes:
        outcome.reply()
    assert seen(run_dir, ROLE) == [f"session.create k-{n}" for n in range(80)]


def test_a_call_that_the_killed_worker_never_took_is_for_the_next_life_whatever_its_kind(
    make_bus: MakeBus, spawn: Spawn, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termal.bus.client.HIGH_WATER_REQUESTS", 2)
    bus = make_bus("poll")
    worker = spawn(ROLE)
    client = bus.client(ROLE)
    bus.wait_up(client)
    worker.freeze()
    padding = "x" * (64 << 10)
    outcomes = [bus.start(client, SESSION_KILL, OneSession(f"{n}-{padding}"), deadline_s=far()) for n in range(40)]
    bus.settle()
    taken = [was_sent(outcome) for outcome in outcomes]
    worker.kill()
    bus.wait_down(client)
    spawn(ROLE)
    ends = [outcome.wait() for outcome in outcomes]
    assert [isinstance(error, OutcomeUnknown) for _, error in ends] == taken
    assert [reply is None for reply, _ in ends] == taken
    assert not all(taken)


def test_a_call_that_a_frozen_worker_never_took_ends_as_surely_not_started(
    make_bus: MakeBus, spawn: Spawn, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termal.bus.client.HIGH_WATER_REQUESTS", 2)
    bus = make_bus("poll")
    worker = spawn(ROLE)
    client = bus.client(ROLE)
    bus.wait_up(client)
    worker.freeze()
    padding = "x" * (64 << 10)
    for n in range(40):
        bus.start(client, SESSION_CREATE, CreateSession(key=f"k-{n}", name=padding), deadline_s=far())
    last = bus.start(client, SESSION_CREATE, CreateSession(key="last"), deadline_s=soon())
    error = last.error()
    assert (type(error), error.code) == (Busy, "no_write_committed")
    worker.thaw()
    bus.ask(client, COORDINATION_PING, Anything(), deadline_s=far())
    assert "session.create last" not in seen(run_dir, ROLE)


def test_what_waited_is_sent_the_moment_the_worker_is_there(bus: BusThread, peer: BusThread) -> None:
    """Not a retry later, although the monitor may tell of a connection before the socket has noticed it."""
    peer.server(ROLE, {"coordination.ping": lambda request, _: request.reply(Anything())})
    retries: list[bool] = []

    def listen(client: Client) -> None:
        client.on_up.append(lambda: retries.append(client._retry is not None))

    for _ in range(30):
        client = bus.client(ROLE)
        bus.run(lambda client=client: listen(client))  # type: ignore[misc]
        bus.ask(client, COORDINATION_PING, Anything())
        bus.run(client.close)
    assert not any(retries)


def test_ended_calls_do_not_pile_up_on_the_clock(make_bus: MakeBus, peer: BusThread) -> None:
    bus = make_bus("poll")
    peer.server(ROLE, {"coordination.ping": lambda request, _: request.reply(Anything())})
    client = bus.client(ROLE)
    bus.wait_up(client)
    for _ in range(10):
        outcomes = bus.start_all(client, [(COORDINATION_PING, Anything())] * 1000, deadline_s=far())
        wait_until(lambda: client.pending == 0, "a thousand replies")
        assert all(outcome.ends for outcome in outcomes)
    assert bus.run(lambda: len(client._deadlines._heap)) <= 4000


def test_every_caller_has_the_measured_socket_settings(make_bus: MakeBus, run_dir: Path) -> None:
    bus = make_bus("poll")
    client: Client = bus.client(ROLE)

    def read(*options: int) -> list[Any]:
        return [client._socket.getsockopt(option) for option in options]

    settings = bus.run(
        lambda: read(zmq.RECONNECT_IVL, zmq.IMMEDIATE, zmq.LINGER, zmq.SNDHWM, zmq.RCVHWM, zmq.MAXMSGSIZE)
    )
    assert settings == [10, 1, 0, HIGH_WATER_REQUESTS, HIGH_WATER_REQUESTS, MAX_MESSAGE_BYTES]


def test_the_name_of_no_deadline_is_infinity(make_bus: MakeBus, spawn: Spawn, run_dir: Path) -> None:
    bus = make_bus("poll")
    worker = spawn(ROLE, "hold")
    client = bus.client(ROLE)
    outcome = bus.start(client, SESSION_CREATE, CreateSession(key="k"), deadline_s=math.inf)
    started(run_dir, 1)
    assert outcome.call is not None
    assert outcome.call.limit_s() is None
    worker.kill()
    bus.wait_down(client)
    spawn(ROLE)
    assert outcome.reply() == JsonReply(b"{}")
