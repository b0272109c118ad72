"""A turn as its worker holds it: what becomes of its end when the daemon stops, or when its files cannot be told."""

from types import SimpleNamespace
from typing import Any

import pytest

from termal.wire.turns import TurnEnded
from workers.runtime import turn as module
from workers.runtime.turn import Turn

STOPPED = TurnEnded("lost", "the daemon was stopped while the turn ran")


class NoReporter:
    def __init__(self, *_: object, **__: object) -> None:
        """Reports to nobody."""

    def send(self) -> None: ...

    send_soon = close = send


@pytest.fixture(autouse=True)
def reports_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Reporter", NoReporter)


class Held(Turn):
    """A turn whose agent is ended before its own end is told."""

    def __init__(self) -> None:
        self.logged: list[str] = []
        link: Any = SimpleNamespace(log=SimpleNamespace(repeating=lambda event, **_: self.logged.append(event)))
        super().__init__(
            link,
            "session-1",
            "turn-1",
            hold_back=lambda _: None,
            on_over=lambda *_: None,
            before_end=lambda _: None,
        )

    def ends(self) -> list[TurnEnded]:
        return [event for entry in self._ledger._entries if isinstance(event := entry.whole(), TurnEnded)]


@pytest.mark.parametrize(
    "came",
    [
        TurnEnded("completed"),
        TurnEnded("failed", "no more credit"),
        TurnEnded("interrupted"),
        TurnEnded("lost", "the process ended"),
    ],
    ids=lambda end: str(end.outcome),
)
def test_a_daemon_that_stops_while_the_agent_is_ended_leaves_what_the_turn_came_to(came: TurnEnded) -> None:
    turn = Held()
    turn.emit(came)
    turn.stop(STOPPED)
    turn.told()
    assert turn.ends() == [came]


def test_a_turn_that_ends_after_the_daemon_began_to_stop_is_lost() -> None:
    turn = Held()
    turn.stop(STOPPED)
    turn.emit(TurnEnded("interrupted"))
    assert turn.ends() == [STOPPED]


class Blind:
    """Sees nothing, and fails at that. ``closed`` counts."""

    def __init__(self) -> None:
        self.closed = 0

    def complete(self, end: TurnEnded) -> TurnEnded:
        raise RuntimeError(end.outcome)

    def close(self) -> None:
        self.closed += 1


def test_files_that_cannot_be_told_do_not_keep_the_end_of_a_turn() -> None:
    turn = Held()
    watch = turn.watch = Blind()
    turn.stop(STOPPED)
    turn.emit(TurnEnded("interrupted"))
    assert turn.ends() == [STOPPED]
    assert turn.ended.is_set()
    assert (turn.logged, watch.closed) == (["turn.files_unknown"], 1)
