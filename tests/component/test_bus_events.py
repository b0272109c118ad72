"""Published events: order, gaps, lost tails, new owners, snapshots, and subscribers that are slow or fail."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from termal.bus.publisher import Publisher, Subscriber
from termal.bus.sockets import HIGH_WATER_EVENTS, events_endpoint
from termal.wire.envelope import MAX_BODY_BYTES, Event, pack_events
from tests.component.conftest import MakeBus
from tests.support.bus import BusThread
from tests.support.waiting import wait_until

ROLE = "state"
GAP = "gap"


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termal.bus.publisher.TICK_S", 0.02)


@pytest.fixture
def raw(run_dir: Path) -> Iterator["zmq.Socket[bytes]"]:
    """A plain XPUB in place of a publisher: it can lose what it likes, and hears of subscriptions."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.XPUB)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVTIMEO, 5000)
    socket.bind(events_endpoint(run_dir, ROLE))
    yield socket
    socket.close(linger=0)
    context.destroy(linger=0)


class Heard:
    """What a subscriber was told, in order: events and gaps."""

    def __init__(self, bus: BusThread) -> None:
        self.told: list[Event | str] = []
        self.subscriber: Subscriber = bus.subscriber(ROLE, self.told.append, lambda: self.told.append(GAP))

    def wait(self, count: int) -> list[Event | str]:
        return wait_until(lambda: self.told if len(self.told) >= count else None, f"{count} events or gaps")

    def wait_place(self, epoch: str, number: int) -> None:
        wait_until(lambda: (self.subscriber.epoch, self.subscriber.number) == (epoch, number), f"place {number}")


def publish(bus: BusThread, publisher: Publisher, *bodies: bytes) -> None:
    bus.run(lambda: [publisher.publish(body) for body in bodies])


def test_events_arrive_in_order_with_dense_numbers_and_without_a_gap(bus: BusThread, peer: BusThread) -> None:
    publisher = peer.publisher(ROLE, "epoch-1")
    heard = Heard(bus)
    heard.wait_place("epoch-1", 0)
    bodies = [b"%d" % number for number in range(1, 1001)]
    publish(peer, publisher, *bodies)
    assert heard.wait(1000) == [Event("epoch-1", number, bodies[number - 1]) for number in range(1, 1001)]


def test_an_event_of_a_number_that_was_passed_over_reveals_the_gap(bus: BusThread, raw: "zmq.Socket[bytes]") -> None:
    heard = Heard(bus)
    raw.recv()
    raw.send(pack_events([Event("e", 1, b"a"), Event("e", 2, b"b")]))
    raw.send(pack_events([Event("e", 5, b"c"), Event("e", 6, b"d")]))
    assert heard.wait(5) == [Event("e", 1, b"a"), Event("e", 2, b"b"), GAP, Event("e", 5, b"c"), Event("e", 6, b"d")]


def test_a_lost_tail_is_revealed_by_the_tick(bus: BusThread, raw: "zmq.Socket[bytes]") -> None:
    heard = Heard(bus)
    raw.recv()
    raw.send(pack_events([Event("e", 1, b"a"), Event("e", 1, b"")]))
    raw.send(pack_events([Event("e", 3, b"")]))
    raw.send(pack_events([Event("e", 3, b"")]))
    raw.send(pack_events([Event("e", 4, b"d")]))
    assert heard.wait(3) == [Event("e", 1, b"a"), GAP, Event("e", 4, b"d")]


def test_the_publisher_ticks_with_its_last_number(bus: BusThread, peer: BusThread) -> None:
    publisher = peer.publisher(ROLE, "epoch-1")
    publish(peer, publisher, b"before anyone listened", b"this too")
    heard = Heard(bus)
    heard.wait_place("epoch-1", 2)
    assert heard.told == []


def test_a_new_owner_is_told_as_a_gap(bus: BusThread, peer: BusThread) -> None:
    first = peer.publisher(ROLE, "epoch-1")
    heard = Heard(bus)
    heard.wait_place("epoch-1", 0)
    publish(peer, first, b"a")
    heard.wait(1)
    peer.run(first.close)
    peer.publisher(ROLE, "epoch-2")
    assert heard.wait(2) == [Event("epoch-1", 1, b"a"), GAP]
    heard.wait_place("epoch-2", 0)


def test_a_subscriber_that_is_too_slow_loses_events_and_learns_of_it(
    make_bus: MakeBus, peer: BusThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termal.bus.publisher.HIGH_WATER_EVENTS", 2)
    bus = make_bus("poll")
    publisher = peer.publisher(ROLE, "e")
    heard = Heard(bus)
    heard.wait_place("e", 0)
    free = threading.Event()
    bus.loop.threadsafe(free.wait)  # type: ignore[arg-type]
    body = b"x" * (64 << 10)
    for _ in range(100):
        publish(peer, publisher, body)
    free.set()

    # Whether the last events are lost or not, an event or a tick brings the subscriber to the last number.
    heard.wait_place("e", 100)
    assert GAP in heard.told
    events = [told for told in heard.told if isinstance(told, Event)]
    assert 0 < len(events) < 100
    publish(peer, publisher, b"next")
    wait_until(lambda: heard.told[-1] == Event("e", 101, b"next"), "the next event")


def test_events_up_to_the_snapshot_are_left_out_and_the_next_one_is_no_gap(
    bus: BusThread, raw: "zmq.Socket[bytes]"
) -> None:
    heard = Heard(bus)
    bus.run(lambda: heard.subscriber.resume_from("e", 3))
    raw.recv()
    raw.send(pack_events([Event("e", number, b"%d" % number) for number in range(2, 6)]))
    raw.send(pack_events([Event("e", 2, b"")]))
    raw.send(pack_events([Event("e", 6, b"6")]))
    assert heard.wait(3) == [Event("e", 4, b"4"), Event("e", 5, b"5"), Event("e", 6, b"6")]


@pytest.mark.parametrize(
    "first",
    [Event("e", 5, b"a"), Event("e", 5, b""), Event("f", 4, b"a"), Event("f", 0, b"")],
    ids=["event", "tick", "event_of_new_owner", "tick_of_new_owner"],
)
def test_what_was_missed_between_the_snapshot_and_the_first_event_is_a_gap(
    make_bus: MakeBus, raw: "zmq.Socket[bytes]", first: Event
) -> None:
    heard = Heard(bus := make_bus("poll"))
    bus.run(lambda: heard.subscriber.resume_from("e", 3))
    raw.recv()
    raw.send(pack_events([first]))
    assert heard.wait(1)[0] == GAP


def test_an_event_that_is_too_large_to_travel_is_a_gap_for_every_subscriber(make_bus: MakeBus, peer: BusThread) -> None:
    publisher = peer.publisher(ROLE, "e")
    heard = Heard(make_bus("poll"))
    heard.wait_place("e", 0)
    publish(peer, publisher, b"x" * (MAX_BODY_BYTES + 1))
    assert heard.wait(1) == [GAP]
    publish(peer, publisher, b"next")
    assert heard.wait(2) == [GAP, Event("e", 2, b"next")]


def test_an_event_without_a_body_is_refused(make_bus: MakeBus) -> None:
    bus = make_bus("poll")
    publisher = bus.publisher(ROLE, "e")
    with pytest.raises(ValueError, match="tick"):
        publish(bus, publisher, b"")
    assert publisher.number == 0


def test_a_malformed_event_is_reported_and_shows_as_a_gap(make_bus: MakeBus, raw: "zmq.Socket[bytes]") -> None:
    bus = make_bus("poll")
    heard = Heard(bus)
    raw.recv()
    raw.send(pack_events([Event("e", 1, b"a")]))
    raw.send(b"\xffgarbage")
    raw.send(pack_events([Event("e", 3, b"c")]))
    assert heard.wait(3) == [Event("e", 1, b"a"), GAP, Event("e", 3, b"c")]
    assert len(bus.faults) == 1
    bus.faults.clear()


@pytest.mark.parametrize("broken", ["event", "gap"])
def test_a_subscriber_that_raises_still_gets_the_events_behind(
    make_bus: MakeBus, raw: "zmq.Socket[bytes]", broken: str
) -> None:
    bus = make_bus("poll")
    told: list[Event] = []

    def on_event(event: Event) -> None:
        if event.number == 3 and broken == "event":
            raise KeyError("a fault of the subscriber")
        told.append(event)

    def on_gap() -> None:
        if broken == "gap":
            raise KeyError("a fault of the subscriber")

    bus.subscriber(ROLE, on_event, on_gap)
    raw.recv()
    raw.send(pack_events([Event("e", 1, b"a"), Event("e", 3, b"c"), Event("e", 4, b"d")]))
    wait_until(lambda: told[-1:] == [Event("e", 4, b"d")], "the event behind the fault")
    assert [type(fault) for fault in bus.faults] == [KeyError]
    bus.faults.clear()


def test_the_sockets_have_the_measured_settings(make_bus: MakeBus) -> None:
    bus = make_bus("poll")
    publisher = bus.publisher(ROLE, "e")
    subscriber = bus.subscriber(ROLE, lambda event: None, lambda: None)

    def read(option: int) -> list[object]:
        return [part._socket.getsockopt(option) for part in (publisher, subscriber)]

    assert bus.run(lambda: read(zmq.SNDHWM)) == [HIGH_WATER_EVENTS] * 2
    assert bus.run(lambda: read(zmq.RCVHWM)) == [HIGH_WATER_EVENTS] * 2
    assert bus.run(lambda: read(zmq.LINGER)) == [0, 0]
    assert bus.run(lambda: read(zmq.RECONNECT_IVL))[1] == 10
