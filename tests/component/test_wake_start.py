"""The wake worker as a real process: ready with both of its peers, never before; its figures, its end."""

import contextlib
from pathlib import Path

import pytest

from termal.wire.control import EXIT_OK, Beat, BootDone, Ready
from termal.wire.coordination_operations import WAKE_FACTS, WAKE_PING
from termal.wire.errors import InvalidRequest
from termal.wire.launch import StartKind
from termal.wire.session_operations import STATE_FACTS
from termal.wire.turns import Anything
from tests.support.bus_peer import call
from tests.support.control_peer import ControlPeer
from tests.support.wake_peers import WakePeers, wake_peers

MODULE = "workers.wake"


@pytest.mark.parametrize("start", ["boot", "replacement"])
def test_it_is_ready_once_both_peers_are_there_and_beats_meanwhile(
    home_dir: Path, run_dir: Path, start: StartKind
) -> None:
    peers = WakePeers(run_dir)
    with contextlib.closing(peers), ControlPeer(MODULE, home_dir, run_dir, start=start) as worker:
        peers.state()
        worker.wait_for(Beat, count=2)
        assert worker.said(Ready) == []
        peers.coordination()
        worker.wait_for(Ready)
        if start == "boot":
            worker.wait_for(BootDone)
        worker.forget_beats()
        worker.wait_for(Beat)
        assert len(worker.said(BootDone)) == (1 if start == "boot" else 0)


def test_it_serves_its_operations_and_counts_them(home_dir: Path, run_dir: Path) -> None:
    with wake_peers(run_dir), ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        assert call(run_dir, "wake", WAKE_PING, Anything()) == Anything()
        assert call(run_dir, "wake", WAKE_PING, Anything()) == Anything()
        facts = call(run_dir, "wake", WAKE_FACTS, Anything())
        assert [(op.operation, op.outcome, op.count) for op in facts.operations] == [("wake.ping", "ok", 2)]
        with pytest.raises(InvalidRequest):
            call(run_dir, "wake", STATE_FACTS, Anything())


def test_a_peer_that_comes_back_is_no_second_start(home_dir: Path, run_dir: Path) -> None:
    with wake_peers(run_dir) as peers, ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(BootDone)
        peers.state_ends()
        peers.state()
        worker.forget_beats()
        worker.wait_for(Beat, count=2)
        assert (len(worker.said(Ready)), len(worker.said(BootDone))) == (1, 1)


@pytest.mark.parametrize("peers", [True, False], ids=["with its peers", "before they came"])
def test_a_stop_ends_it_with_exit_0(home_dir: Path, run_dir: Path, peers: bool) -> None:
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        if peers:
            with wake_peers(run_dir):
                worker.wait_for(Ready)
                assert worker.stop() == EXIT_OK
        else:
            worker.wait_for(Beat)
            assert worker.stop() == EXIT_OK
        assert worker.stderr() == ""


def test_it_owns_no_file_but_its_log(home_dir: Path, run_dir: Path) -> None:
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(Beat)
        assert worker.stop() == EXIT_OK
    files = [entry.name for entry in home_dir.rglob("*") if entry.is_file()]
    assert files == ["wake.log"]
