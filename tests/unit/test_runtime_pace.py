"""Streamed pieces go out at once after a pause, and together when many come."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from workers.runtime.pace import PACE_S, Pace


class Street:
    """A pace with a clock and a loop of the test's own."""

    def __init__(self) -> None:
        self.at_s = 50.0
        self.sent: list[str] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        loop: Any = SimpleNamespace(later=lambda delay_s, callback: self.timers.append((delay_s, callback)))
        self.pace = Pace(loop, lambda: self.at_s)

    def send(self, who: str) -> None:
        self.pace.send(who, lambda: self.sent.append(who))

    def due(self) -> None:
        ((delay_s, callback),) = self.timers
        self.timers.clear()
        assert 0.0 < delay_s <= PACE_S
        self.at_s += delay_s
        callback()


def test_the_first_piece_after_a_pause_goes_at_once() -> None:
    street = Street()
    street.send("a")
    street.at_s += PACE_S
    street.send("b")
    assert (street.sent, street.timers) == (["a", "b"], [])


def test_what_comes_soon_after_it_goes_together_and_once() -> None:
    street = Street()
    street.send("a")
    street.at_s += PACE_S / 4
    for who in ("b", "a", "b", "c"):
        street.send(who)
    assert street.sent == ["a"]
    street.due()
    assert street.sent == ["a", "b", "a", "c"]


def test_the_pace_holds_after_a_batch_too() -> None:
    street = Street()
    street.send("a")
    street.send("a")
    street.due()
    street.send("b")
    assert street.sent == ["a", "a"]
    street.due()
    assert street.sent == ["a", "a", "b"]


def test_who_is_asked_again_while_it_sends_waits_for_the_next_time() -> None:
    street = Street()
    street.send("a")

    def again() -> None:
        street.sent.append("b")
        street.send("b")

    street.pace.send("b", again)
    street.due()
    assert street.sent == ["a", "b"]
    street.due()
    assert street.sent == ["a", "b", "b"]
