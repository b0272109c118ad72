"""The way from a runtime worker to state: order, exactly once, a slow state, a restarted state, a state that forgot."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from termal.wire.turns import HeldTurn, TextDelta, TurnEnded
from tests.support.acp_peer import RuntimePeer
from tests.support.waiting import wait_until

MIB = 1 << 20
FLOOD_BYTES = 20_000_000
_LINE_BYTES = 16


@pytest.fixture
def runtime(home_dir: Path, run_dir: Path) -> Iterator[RuntimePeer]:
    with RuntimePeer(home_dir, run_dir) as peer:
        yield peer


def _assert_complete(text: str, size_bytes: int) -> None:
    """Each line of a flood says its own place."""
    assert len(text) == size_bytes
    places = text.split("\n")[:-1]
    assert [int(place) for place in places] == list(range(0, len(places) * _LINE_BYTES, _LINE_BYTES))


@pytest.mark.slow
def test_a_flood_into_a_slow_state_loses_nothing_and_costs_bounded_memory(runtime: RuntimePeer) -> None:
    runtime.start("turn-0", "say warm")
    runtime.ended("turn-0")
    before = psutil.Process(runtime.worker.pid).memory_info().rss
    runtime.state.delay_s = 0.2
    runtime.start("turn-1", f"flood {FLOOD_BYTES}")

    peaks = [0]

    def over() -> bool:
        peaks.append(psutil.Process(runtime.worker.pid).memory_info().rss - before)
        return bool(runtime.said("turn-1", TurnEnded))

    wait_until(over, "the end of the flood", limit_s=30.0)
    assert runtime.ended("turn-1") == TurnEnded("completed")
    _assert_complete(runtime.text("turn-1"), FLOOD_BYTES)
    assert runtime.state.gaps == 0
    # What is unconfirmed, a few times over; without a limit the whole flood would be there twice.
    assert max(peaks) < 15 * MIB


def test_an_agent_that_writes_more_than_is_confirmed_has_to_wait(runtime: RuntimePeer) -> None:
    runtime.start("turn-0", "say warm")
    runtime.ended("turn-0")
    runtime.state.held = True
    runtime.start("turn-1", f"flood {FLOOD_BYTES}")
    seen: list[int] = []

    def stands_still() -> bool:
        seen.extend(turn.last_event for turn in runtime.held().turns)
        return len(seen) > 20 and len(set(seen[-20:])) == 1 and seen[-1] > 10

    wait_until(stands_still, "the flood to come to a halt")
    runtime.stop("turn-1")
    runtime.state.stop()
    runtime.state.held = False
    runtime.state.start()

    assert runtime.ended("turn-1").outcome == "interrupted"
    assert 4 * MIB <= len(runtime.text("turn-1")) < 6 * MIB


def test_every_event_arrives_once_and_in_order_when_state_is_restarted_in_the_middle(runtime: RuntimePeer) -> None:
    runtime.state.delay_s = 0.02
    runtime.start("turn-1", f"flood {FLOOD_BYTES // 4}\nsay the end")
    for part in range(1, 4):
        runtime.wait_for("turn-1", TextDelta, count=part * 20)
        runtime.state.stop()
        runtime.state.start()

    assert runtime.ended("turn-1", limit_s=15.0) == TurnEnded("completed")
    text = runtime.text("turn-1")
    _assert_complete(text.removesuffix("\nthe end").ljust(FLOOD_BYTES // 4), FLOOD_BYTES // 4)
    assert text.endswith("\nthe end")
    assert runtime.state.gaps == 0


def test_what_an_agent_says_next_does_not_wait_for_the_commit_of_what_it_said_before(runtime: RuntimePeer) -> None:
    runtime.start("turn-0", "say warm")
    runtime.ended("turn-0")
    runtime.state.held = True
    runtime.start("turn-1", "say one\nwait 0.1\nsay two")

    def said() -> str:
        events = [event for report in runtime.state.received if report.turn_id == "turn-1" for event in report.events]
        return "".join(event.text for event in events if isinstance(event, TextDelta))

    wait_until(lambda: said().endswith("two"), "the second text to arrive")
    runtime.state.stop()
    runtime.state.held = False
    runtime.state.start()
    assert runtime.ended("turn-1") == TurnEnded("completed")
    assert runtime.text("turn-1") == "one\ntwo"
    assert runtime.state.gaps == 0


def test_a_turn_goes_on_and_is_held_while_there_is_no_state(runtime: RuntimePeer) -> None:
    runtime.start("turn-0", "say warm")
    runtime.ended("turn-0")
    wait_until(lambda: not runtime.held().turns, "the first turn to be confirmed")
    runtime.state.stop()
    runtime.start("turn-1", "say alone")
    (held,) = wait_until(
        lambda: [turn for turn in runtime.held().turns if turn.last_event >= 3], "the whole turn to be held"
    )

    runtime.state.start()
    assert runtime.ended("turn-1") == TurnEnded("completed")
    assert held == HeldTurn("session-1", "turn-1", len(runtime.events("turn-1")))
    wait_until(lambda: not runtime.held().turns, "the turn to be confirmed")


def test_a_successor_starts_before_the_end_of_the_turn_before_it_is_confirmed(runtime: RuntimePeer) -> None:
    runtime.start("turn-0", "say warm")
    runtime.ended("turn-0")
    runtime.state.held = True
    runtime.start("turn-1", "say first")
    wait_until(lambda: [t for t in runtime.held().turns if t.turn_id == "turn-1" and t.last_event >= 3], "turn-1's end")
    runtime.start("turn-2", "say second")
    wait_until(lambda: [t for t in runtime.held().turns if t.turn_id == "turn-2" and t.last_event >= 3], "turn-2's end")
    runtime.state.stop()
    runtime.state.held = False
    runtime.state.start()

    assert (runtime.ended("turn-1"), runtime.ended("turn-2")) == (TurnEnded("completed"), TurnEnded("completed"))
    assert (runtime.text("turn-1"), runtime.text("turn-2")) == ("first", "second")


def test_a_turn_that_nobody_waits_for_is_dropped_and_its_agent_closed(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say a\nrun true")
    runtime.asked("turn-1")
    shim = psutil.Process(runtime.agent_pid())
    runtime.state.unknown.add("turn-1")
    runtime.answer("turn-1", "approval-1", "allow")

    wait_until(lambda: not shim.is_running(), "the agent to be ended")
    assert runtime.held().turns == []
    runtime.start("turn-2", "say fresh")
    assert runtime.ended("turn-2") == TurnEnded("completed")
