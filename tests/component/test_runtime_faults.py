"""A runtime worker beside a state that fails, and over what a killed worker left behind."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from termal.bus.server import Request
from termal.wire.control import Ready
from termal.wire.errors import Internal
from termal.wire.turns import Notice, TextDelta, TurnEnded, TurnReport
from tests.support.acp_peer import RecordingState, RuntimePeer
from tests.support.control_peer import ControlPeer
from tests.support.waiting import wait_until


class FailingState(RecordingState):
    """Fails on every report that has one of these words in a text, as a fault of ours would."""

    def __init__(self, run_dir: Path, word: str) -> None:
        super().__init__(run_dir)
        self.failed: list[int] = []
        self._word = word

    def _commit(self, request: Request, report: TurnReport) -> None:
        if any(isinstance(event, TextDelta) and self._word in event.text for event in report.events):
            self.failed.append(len(report.events))
            request.refuse(Internal("a fault"))
        else:
            super()._commit(request, report)


@pytest.fixture
def runtime(home_dir: Path, run_dir: Path) -> Iterator[RuntimePeer]:
    peer = RuntimePeer(home_dir, run_dir)
    peer.state = FailingState(run_dir, "poison")
    with peer:
        yield peer


def test_an_event_that_state_fails_on_is_left_out_and_the_turn_goes_on(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say before\nthink a while\nsay poison\nthink more\nsay after")
    assert runtime.ended("turn-1") == TurnEnded("completed")
    assert runtime.said("turn-1", Notice)
    text = runtime.text("turn-1")
    assert "before" in text
    assert text.endswith("after")
    assert "poison" not in text
    assert isinstance(runtime.state, FailingState)
    assert len(runtime.state.failed) <= 2, "not one state worker after the other"
    wait_until(lambda: not runtime.held().turns, "the turn to be confirmed")


def test_a_stop_in_the_middle_of_ending_the_old_agent_leaves_no_process(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say one\nhang")
    runtime.wait_for("turn-1", TextDelta)
    shim = psutil.Process(runtime.agent_pid())
    runtime.stop("turn-1")
    assert runtime.ended("turn-1").outcome == "interrupted"
    wait_until(lambda: not shim.is_running(), "the hanging agent to be ended")
    runtime.start("turn-2", "say two")
    runtime.ended("turn-2")
    second = psutil.Process(runtime.agent_pid())
    elsewhere = runtime.spec(read_only=True)
    # Other settings want another process: the old one is being ended when the turn is stopped.
    runtime.start("turn-3", "say three", elsewhere)
    runtime.stop("turn-3")
    wait_until(lambda: not second.is_running(), "the old agent to be ended all the same")
    assert runtime.ended("turn-3").outcome in ("interrupted", "completed")


def test_the_private_files_of_a_killed_claude_worker_are_removed_at_the_next_start(
    home_dir: Path, run_dir: Path
) -> None:
    left = [run_dir / f"claude-{'0' * 32}", run_dir / f"claude-{'a' * 32}.json", run_dir / f".claude-{'b' * 32}.77"]
    kept = [run_dir / "claude-notes", run_dir / "state.sock.txt"]
    for file in (*left, *kept):
        file.write_text("token")
    with ControlPeer("workers.runtime", home_dir, run_dir, name="runtime-claude", arguments=["claude"]) as worker:
        worker.wait_for(Ready)
        assert not [file for file in left if file.exists()]
        assert all(file.exists() for file in kept)
        assert worker.stop() == 0
