"""Sends that wait for the outcome of a stored message: each ends at its release or its deadline, and none is polled."""

import time
from collections.abc import Callable, Iterator

import pytest

from termal.bus.loop import PollLoop, Timer
from termal.wire.errors import TermalError
from workers.coordination.mail_pending import Ended, Pending

FAR_S = 60.0


class CountingLoop(PollLoop):
    """A loop that knows how many timers it was asked for."""

    timers = 0

    def later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self.timers += 1
        return super().later(delay_s, callback)


@pytest.fixture
def loop() -> Iterator[CountingLoop]:
    loop = CountingLoop()
    yield loop
    loop.close()


Answers = dict[str, tuple[str | None, str]]


def ending(answers: Answers, name: str) -> Ended:
    def ended(outcome: str | None, error: TermalError | None) -> None:
        answers[name] = (outcome, "" if error is None else str(error.code))

    return ended


def run_until(loop: PollLoop, done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 5
    while not done():
        assert time.monotonic() < end_s
        loop.one_pass(0.01)


def test_many_that_wait_cost_one_timer(loop: CountingLoop) -> None:
    pending, answers = Pending(loop), Answers()
    now = time.monotonic()
    for number in range(100):
        pending.begin(f"m{number}")
        assert pending.wait(f"m{number}", now + FAR_S + number, ending(answers, f"m{number}"))
    for _ in range(10):
        loop.one_pass(0.01)
    assert loop.timers == 1
    for number in range(100):
        pending.release(f"m{number}", "queuedBehindActiveTurn")
    assert set(answers.values()) == {("queuedBehindActiveTurn", "")}
    assert len(pending) == 0


def test_who_is_late_is_told_so_and_the_others_wait_on(loop: CountingLoop) -> None:
    pending, answers = Pending(loop), Answers()
    now = time.monotonic()
    for message in ("one", "two"):
        pending.begin(message)
    waits = {"far": ("one", FAR_S), "soon": ("one", 0.02), "at once": ("two", 0.0), "repeat": ("two", FAR_S)}
    for name, (message, after_s) in waits.items():
        assert pending.wait(message, now + after_s, ending(answers, name))
    run_until(loop, lambda: len(answers) == 2)
    late = (None, "original_append_durable")
    assert answers == {"at once": late, "soon": late}
    assert "one" in pending, "its own send goes on"
    pending.release("one", "deliveredToIdleSession")
    pending.release("two", None)
    assert answers == {"at once": late, "soon": late, "far": ("deliveredToIdleSession", ""), "repeat": (None, "")}
    assert not pending.wait("one", now + FAR_S, ending(answers, "nobody"))
