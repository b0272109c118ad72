"""The outbox alone: order within a lane, patience between tries, and an end of it when the receiver comes back."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from termal.bus.client import Client
from termal.bus.loop import Loop
from termal.log import Log
from termal.wire.errors import Busy, InvalidRequest, TermalError
from workers.state.outbox import Ended, Outbox


class Timers:
    """A loop's clock that the test moves."""

    def __init__(self) -> None:
        self.waiting: list[Timer] = []

    def later(self, delay_s: float, callback: Callable[[], None]) -> "Timer":
        self.waiting.append(Timer(self, delay_s, callback))
        return self.waiting[-1]

    def delays(self) -> list[float]:
        return [timer.delay_s for timer in self.waiting]

    def fire(self) -> None:
        waiting, self.waiting = self.waiting, []
        for timer in waiting:
            timer.callback()


class Timer:
    def __init__(self, timers: Timers, delay_s: float, callback: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.callback = callback
        self._timers = timers

    def cancel(self) -> None:
        self._timers.waiting.remove(self)


class Link:
    def __init__(self) -> None:
        self.on_up: list[Callable[[], None]] = []


class Rig:
    """Entries are ``lane:number``. `sent` holds what was sent and not answered yet, with its end."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.link = Link()
        self.links = 0
        self.sent: list[tuple[str, Ended]] = []
        self.confirmed: list[str] = []
        self.unsendable: TermalError | None = None
        self.outbox: Outbox[str] = Outbox(
            cast("Loop", self.timers),
            self._connect,
            name="test",
            lane=lambda entry: entry.split(":")[0],
            send=self._send,
            confirmed=self.confirmed.append,
            log=Log("test"),
        )

    def _connect(self) -> Client:
        self.links += 1
        return cast("Client", self.link)

    def _send(self, client: Any, entry: str, ended: Ended) -> None:
        assert client is self.link
        if self.unsendable is not None:
            raise self.unsendable
        self.sent.append((entry, ended))

    def waiting(self) -> list[str]:
        return [entry for entry, _ in self.sent]

    def answer(self, entry: str, error: TermalError | None = None) -> None:
        at = self.waiting().index(entry)
        _, ended = self.sent.pop(at)
        ended(None, error)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_lane_is_sent_in_order_and_lanes_do_not_wait_for_each_other(rig: Rig) -> None:
    rig.outbox.put("a:1", "a:2", "b:1")
    assert rig.waiting() == ["a:1", "b:1"]
    rig.answer("b:1")
    rig.answer("a:1")
    assert rig.waiting() == ["a:2"]
    rig.outbox.put("a:3")
    assert rig.waiting() == ["a:2"]
    rig.answer("a:2")
    rig.answer("a:3")
    assert (rig.confirmed, rig.waiting(), rig.links) == (["b:1", "a:1", "a:2", "a:3"], [], 1)


def test_nothing_is_connected_before_there_is_something_to_send(rig: Rig) -> None:
    assert rig.links == 0
    rig.outbox.put()
    assert rig.links == 0


def test_a_failure_is_tried_again_ever_later_and_what_follows_waits(rig: Rig) -> None:
    rig.outbox.put("a:1", "a:2")
    delays = []
    for _ in range(9):
        rig.answer("a:1", Busy("not now"))
        assert rig.waiting() == []
        delays += rig.timers.delays()
        rig.timers.fire()
    assert delays == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    rig.answer("a:1")
    rig.answer("a:2", Busy("not now"))
    assert rig.timers.delays() == [0.25]
    assert rig.confirmed == ["a:1"]


def test_an_entry_that_comes_during_the_wait_does_not_end_it(rig: Rig) -> None:
    rig.outbox.put("a:1")
    rig.answer("a:1", Busy("not now"))
    rig.outbox.put("a:2")
    assert rig.waiting() == []
    rig.timers.fire()
    assert rig.waiting() == ["a:1"]


def test_a_receiver_that_came_back_ends_the_wait_and_gets_nothing_twice(rig: Rig) -> None:
    rig.outbox.put("a:1", "b:1")
    for _ in range(3):
        rig.answer("a:1", Busy("not now"))
        [back] = rig.link.on_up
        back()
        assert rig.waiting() == ["b:1", "a:1"]
        assert rig.timers.waiting == []
    rig.answer("a:1", Busy("not now"))
    assert rig.timers.delays() == [0.25]


def test_what_cannot_be_sent_at_all_does_not_stop_the_others(rig: Rig) -> None:
    rig.unsendable = InvalidRequest("too large")
    rig.outbox.put("a:1")
    rig.unsendable = None
    rig.outbox.put("b:1")
    assert (rig.waiting(), rig.timers.delays()) == (["b:1"], [0.25])
