"""The processes of a runtime worker: killed agents, resumed conversations, and that nothing is ever left behind."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from termal.wire.turns import ExternalSession, Notice, TextDelta, TurnEnded
from tests.support.acp_peer import RuntimePeer
from tests.support.waiting import wait_until


@pytest.fixture(params=[False, True], ids=["linux", "portable"])
def runtime(request: pytest.FixtureRequest, home_dir: Path, run_dir: Path) -> Iterator[RuntimePeer]:
    with RuntimePeer(home_dir, run_dir, portable=request.param) as peer:
        yield peer


def _conversation(runtime: RuntimePeer, turn: str) -> str:
    return runtime.wait_for(turn, ExternalSession).external_session_id


def _agent(runtime: RuntimePeer) -> psutil.Process:
    """The demo agent itself, below its shim."""

    def find() -> list[psutil.Process]:
        children = psutil.Process(runtime.agent_pid()).children(recursive=True)
        return [child for child in children if "termal.demo_agent" in child.cmdline()]

    return wait_until(find, "the agent below its shim")[0]


def _leave_a_daemon_behind(runtime: RuntimePeer, turn: str) -> psutil.Process:
    """Have the agent start a process that detaches itself from everything; the turn is still running afterwards."""
    command = "setsid sh -c 'echo $$ > daemon.pid; exec sleep 3600' >/dev/null 2>&1 &"
    runtime.start(turn, f"run {command}\nsay started\nwait 600")
    asked = runtime.asked(turn)
    runtime.answer(turn, asked.request, "allow")
    runtime.wait_for(turn, TextDelta)
    file = runtime.workdir / "daemon.pid"
    number = wait_until(lambda: file.read_text().strip() if file.exists() else "", "the daemon to say its pid")
    return psutil.Process(int(number))


def test_a_killed_agent_loses_the_turn_and_the_next_prompt_resumes_its_conversation(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say working\nwait 600")
    runtime.wait_for("turn-1", TextDelta)
    conversation = _conversation(runtime, "turn-1")
    _agent(runtime).send_signal(signal.SIGKILL)

    end = runtime.ended("turn-1")
    assert (end.outcome, end.detail) == ("lost", "the Demo process ended before the turn did")
    runtime.start("turn-2", "say resumed", runtime.spec(external_session_id=conversation))
    assert runtime.ended("turn-2") == TurnEnded("completed")
    # The same conversation, so nothing new is told of it, and nothing of what the agent replayed is shown again.
    assert not runtime.said("turn-2", ExternalSession)
    assert not runtime.said("turn-2", Notice)
    assert runtime.text("turn-2") == "resumed"


def test_a_killed_shim_loses_the_turn_as_well(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say working\nwait 600")
    runtime.wait_for("turn-1", TextDelta)
    agent = _agent(runtime)
    psutil.Process(runtime.agent_pid()).send_signal(signal.SIGKILL)

    assert runtime.ended("turn-1").outcome == "lost"
    wait_until(lambda: not agent.is_running(), "the agent to follow its shim")


def test_an_unknown_conversation_is_replaced_by_a_fresh_one_and_the_transcript_says_so(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say fresh", runtime.spec(external_session_id="demo-" + "0" * 32))

    assert runtime.ended("turn-1") == TurnEnded("completed")
    assert "this is a fresh one" in runtime.said("turn-1", Notice)[0].text
    assert runtime.said("turn-1", ExternalSession)[0].external_session_id != "demo-" + "0" * 32


def test_closing_a_session_leaves_no_process_and_reports_nothing(runtime: RuntimePeer) -> None:
    daemon = _leave_a_daemon_behind(runtime, "turn-1")
    agent = _agent(runtime)
    runtime.close("session-1")

    assert not agent.is_running()
    wait_until(lambda: not daemon.is_running(), "the agent's own daemon to be ended")
    assert not runtime.trees().agents
    assert not runtime.held().turns
    assert runtime.said("turn-1", TurnEnded) == []
    runtime.close("session-1", "session-of-nobody")


def test_nothing_survives_a_killed_worker(runtime: RuntimePeer) -> None:
    daemon = _leave_a_daemon_behind(runtime, "turn-1")
    agent = _agent(runtime)
    psutil.Process(runtime.worker.pid).send_signal(signal.SIGKILL)

    wait_until(lambda: not agent.is_running() and not daemon.is_running(), "agent and daemon to follow the worker")


def test_nothing_survives_the_end_of_the_supervisor(runtime: RuntimePeer) -> None:
    daemon = _leave_a_daemon_behind(runtime, "turn-1")
    agent = _agent(runtime)
    runtime.worker.hang_up()

    wait_until(lambda: not agent.is_running() and not daemon.is_running(), "agent and daemon to follow the worker")


def test_a_stopping_worker_interrupts_its_turns_and_has_their_ends_confirmed(runtime: RuntimePeer) -> None:
    daemon = _leave_a_daemon_behind(runtime, "turn-1")
    assert runtime.worker.stop() == 0
    end = runtime.ended("turn-1")
    assert (end.outcome, end.detail) == ("lost", "the daemon was stopped while the turn ran")
    wait_until(lambda: not daemon.is_running(), "the agent's own daemon to be ended")


def test_a_stopping_worker_does_not_wait_for_a_state_that_is_gone(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say working\nhang")
    runtime.wait_for("turn-1", TextDelta)
    agent = _agent(runtime)
    runtime.state.stop()
    assert runtime.worker.stop(within_s=3.0) == 0
    wait_until(lambda: not agent.is_running(), "the agent to be ended")
