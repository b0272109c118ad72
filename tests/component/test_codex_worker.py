"""``python -m workers.runtime codex`` as a process: one app-server for its sessions, its end, and what it costs."""

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec import UNSET

from termal.model.codex import CodexNotice, CodexWindow
from termal.wire.runtime_operations import MODELS_LIST, TURN_STOP, ListModels, StopTurn
from termal.wire.thread_operations import CODEX_THREAD, ThreadCommand
from termal.wire.turns import ExternalSession, Notice, SessionSpec, TextDone, ToolOutput, TurnEnded
from tests.support.acp_peer import RuntimePeer
from tests.support.bus_peer import call
from tests.support.codex_kit import SERVER
from tests.support.waiting import wait_until

SESSIONS = 10
WORKER_MIB = 80


@pytest.fixture
def runtime(home_dir: Path, run_dir: Path) -> Iterator[RuntimePeer]:
    config = f'[agents.Codex]\ncommand = ["{sys.executable}", "{SERVER}"]\n'
    with RuntimePeer(home_dir, run_dir, config=config, kind="codex") as peer:
        yield peer


def spec(runtime: RuntimePeer, number: int, thread: str | None = None) -> SessionSpec:
    return runtime.spec(f"session-{number}", "Codex", external_session_id=thread)


def test_ten_sessions_share_an_app_server_that_ends_with_the_last_of_them(runtime: RuntimePeer) -> None:
    for number in range(SESSIONS):
        runtime.start(f"turn-{number}", f"say from {number}", spec(runtime, number))
    for number in range(SESSIONS):
        assert runtime.ended(f"turn-{number}") == TurnEnded("completed")
        assert [event.text for event in runtime.said(f"turn-{number}", TextDone)] == [f"from {number}"]
    (tree,) = runtime.trees().agents
    assert (tree.agent, sorted(tree.session_ids)) == ("Codex", sorted(f"session-{n}" for n in range(SESSIONS)))
    worker = psutil.Process(runtime.worker.pid)
    assert worker.memory_info().rss < WORKER_MIB << 20
    processes = [psutil.Process(tree.pid), *psutil.Process(tree.pid).children(recursive=True)]
    runtime.close(*(f"session-{number}" for number in range(SESSIONS)))
    wait_until(lambda: not any(process.is_running() for process in processes), "the app-server to be gone")
    assert runtime.trees().agents == []


def test_what_codex_tells_of_the_account_and_of_itself_goes_to_state_and_into_no_turn(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "news 42\nsay done", spec(runtime, 1))
    runtime.ended("turn-1")

    def told() -> list[CodexNotice]:
        return [notice for news in list(runtime.state.news) for notice in news.notices]

    wait_until(lambda: len(told()) == 2, "the news")
    (window,) = [news.limits.primary for news in runtime.state.news if news.limits.primary is not UNSET]
    assert window == CodexWindow(used_percent=42, window_duration_mins=300, resets_at=1800000000)
    assert told() == [
        CodexNotice(kind="configWarning", level="warning", title="old key", detail="use the new one"),
        CodexNotice(kind="runtimeNotice", level="warning", title="low on disk", detail=""),
    ]
    assert runtime.said("turn-1", Notice) == []


def test_a_stop_ends_the_turn_and_keeps_the_conversation(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "hold", spec(runtime, 1))
    runtime.wait_for("turn-1", ToolOutput)
    stopped = call(runtime.run_dir, runtime.name, TURN_STOP, StopTurn("session-1", "turn-1"))
    assert not stopped.conversation_lost
    assert runtime.ended("turn-1").outcome == "interrupted"


def test_models_and_thread_commands_start_the_app_server_and_are_answered(runtime: RuntimePeer) -> None:
    models = call(runtime.run_dir, runtime.name, MODELS_LIST, ListModels(spec(runtime, 1)))
    assert models.details["gpt-5.4"].efforts == ["low", "medium"]
    runtime.start("turn-1", "say one", spec(runtime, 1))
    thread = runtime.wait_for("turn-1", ExternalSession).external_session_id
    assert runtime.ended("turn-1").outcome == "completed"
    known = spec(runtime, 1, thread)
    done = call(runtime.run_dir, runtime.name, CODEX_THREAD, ThreadCommand(known, "rollback", 1))
    assert done.items == []
    call(runtime.run_dir, runtime.name, CODEX_THREAD, ThreadCommand(known, "archive"))
    wait_until(lambda: not runtime.trees().agents, "the app-server to end with its last thread")
    runtime.start("turn-2", "say two", known)
    assert "is archived" in runtime.ended("turn-2").detail


def test_a_killed_worker_takes_the_app_server_along(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say one\nhold", spec(runtime, 1))
    runtime.wait_for("turn-1", ToolOutput)
    shim = psutil.Process(runtime.agent_pid())
    processes = [shim, *shim.children(recursive=True)]
    runtime.worker.kill()
    wait_until(lambda: not any(process.is_running() for process in processes), "all of them to be gone")
