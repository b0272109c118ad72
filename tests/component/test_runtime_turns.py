"""Turns of the demo agent through a real runtime worker process: what state is told, in order, exactly once."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.wire.control import EXIT_USAGE, Reload
from termal.wire.errors import Conflict
from termal.wire.turns import (
    ApprovalWithdrawn,
    ExternalSession,
    FileChanged,
    McpServer,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from tests.support.acp_peer import RuntimePeer
from tests.support.control_peer import ControlPeer
from tests.support.waiting import wait_until

MCP_SERVER = str(Path(__file__).parents[1] / "support" / "acp_mcp_server.py")
SCRIPTED_AGENT = str(Path(__file__).parents[1] / "support" / "acp_agent.py")


@pytest.fixture
def runtime(home_dir: Path, run_dir: Path) -> Iterator[RuntimePeer]:
    with RuntimePeer(home_dir, run_dir) as peer:
        yield peer


def test_a_turn_streams_text_and_ends_completed(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "hello there")

    assert runtime.ended("turn-1") == TurnEnded("completed")
    assert runtime.text("turn-1") == runtime.final_text("turn-1") == "You said: hello there"
    assert runtime.said("turn-1", ExternalSession)[0].external_session_id.startswith("demo-")


def test_each_change_of_kind_opens_a_new_item(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say one\nsay two\nthink hm\nsay three")

    runtime.ended("turn-1")
    assert [event.text for event in runtime.said("turn-1", TextDone)] == ["one\ntwo", "three"]
    assert [event.text for event in runtime.said("turn-1", ThinkingDelta)] == ["hm"]
    assert len({event.item for event in runtime.said("turn-1", TextDelta)}) == 2


def test_an_accepted_command_runs_and_reports_output_and_status(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "run echo out; exit 3")
    asked = runtime.asked("turn-1")
    assert (asked.command, [option.decision for option in asked.options]) == (
        "echo out; exit 3",
        ["accepted", "acceptedForSession", "rejected"],
    )
    runtime.answer("turn-1", asked.request, asked.options[0].id)

    assert runtime.ended("turn-1") == TurnEnded("completed")
    started = runtime.said("turn-1", ToolStarted)[0]
    assert (started.kind, started.command) == ("execute", "echo out; exit 3")
    assert runtime.said("turn-1", ToolEnded) == [ToolEnded(started.item, "error", "out\nexit status 3")]


def test_a_rejected_command_does_not_run_and_the_turn_goes_on(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "run touch made\nsay after")
    asked = runtime.asked("turn-1")
    runtime.answer("turn-1", asked.request, asked.options[2].id)

    assert runtime.ended("turn-1") == TurnEnded("completed")
    assert runtime.said("turn-1", ToolEnded)[0].status == "error"
    assert runtime.text("turn-1") == "after"
    assert not (runtime.workdir / "made").exists()


def test_an_answer_to_a_request_that_is_not_open_is_a_conflict(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "run true")
    asked = runtime.asked("turn-1")
    with pytest.raises(Conflict, match="does not offer"):
        runtime.answer("turn-1", asked.request, "no such option")
    with pytest.raises(Conflict, match="not open"):
        runtime.answer("turn-1", "approval-99", asked.options[0].id)
    runtime.answer("turn-1", asked.request, asked.options[0].id)
    runtime.ended("turn-1")
    with pytest.raises(Conflict, match="over"):
        runtime.answer("turn-1", asked.request, asked.options[0].id)


def test_an_edit_shows_its_diff_before_and_after_it_is_accepted(runtime: RuntimePeer) -> None:
    (runtime.workdir / "a.txt").write_text("old")
    runtime.start("turn-1", "edit a.txt new words")
    asked = runtime.asked("turn-1")
    assert "-old" in asked.detail
    assert "+new words" in asked.detail
    runtime.answer("turn-1", asked.request, asked.options[0].id)

    runtime.ended("turn-1")
    (change,) = runtime.said("turn-1", FileChanged)
    assert (change.path, change.change, change.diff) == ("a.txt", "edit", asked.detail)
    assert (runtime.workdir / "a.txt").read_text() == "new words"


def test_an_agent_that_reports_an_error_fails_the_turn_and_serves_the_next(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say before\nfail the model is away")
    assert runtime.ended("turn-1") == TurnEnded("failed", "the model is away")
    runtime.start("turn-2", "say still here")
    assert runtime.ended("turn-2") == TurnEnded("completed")


def test_an_agent_that_exits_loses_the_turn_and_says_its_last_words(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say before\nstderr \x1b[31mout of memory\x1b[0m\nexit 7")

    assert runtime.ended("turn-1") == TurnEnded("lost", "the Demo process ended before the turn did: out of memory")
    assert runtime.text("turn-1") == "before"


def test_garbage_between_the_lines_is_ignored(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say a\ngarbage\ngarbage\nsay b")
    assert runtime.ended("turn-1") == TurnEnded("completed")
    assert runtime.text("turn-1") == "ab"


def test_a_stopped_turn_ends_interrupted_and_the_next_prompt_works(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say working\nwait 600\nsay never")
    runtime.wait_for("turn-1", TextDelta)
    pid = runtime.agent_pid()
    runtime.stop("turn-1")

    assert runtime.ended("turn-1").outcome == "interrupted"
    runtime.start("turn-2", "say next")
    assert runtime.ended("turn-2") == TurnEnded("completed")
    assert runtime.agent_pid() == pid


def test_stopping_withdraws_what_was_asked(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "run true")
    asked = runtime.asked("turn-1")
    runtime.stop("turn-1")

    assert runtime.ended("turn-1").outcome == "interrupted"
    assert runtime.said("turn-1", ApprovalWithdrawn) == [ApprovalWithdrawn(asked.request)]


@pytest.mark.slow
def test_an_agent_that_hangs_and_ignores_sigterm_is_ended(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say going\nhang")
    runtime.wait_for("turn-1", TextDelta)
    runtime.stop("turn-1")

    assert runtime.ended("turn-1").outcome == "interrupted"
    runtime.start("turn-2", "say back")
    assert runtime.ended("turn-2") == TurnEnded("completed")


def test_stop_of_an_unknown_turn_is_answered(runtime: RuntimePeer) -> None:
    runtime.stop("turn-of-nobody")
    runtime.stop("turn-of-nobody", session="session-of-nobody")


def test_a_turn_that_is_stopped_while_its_agent_starts_ends_interrupted(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say never")
    runtime.stop("turn-1")
    assert runtime.ended("turn-1").outcome == "interrupted"
    wait_until(lambda: not runtime.trees().agents, "the agent that was starting to be gone")


def test_starting_the_same_turn_twice_is_answered_the_same_and_runs_once(runtime: RuntimePeer) -> None:
    first = runtime.start("turn-1", "say once")
    assert runtime.start("turn-1", "say once") == first
    runtime.ended("turn-1")
    wait_until(lambda: not runtime.held().turns, "everything to be confirmed")

    assert runtime.start("turn-1", "say once") == first
    assert runtime.text("turn-1") == "once"
    assert runtime.held().turns == []


def test_a_second_turn_of_a_busy_session_is_refused(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "wait 600")
    with pytest.raises(Conflict) as refused:
        runtime.start("turn-2", "say no")
    assert refused.value.reason == "turnRunning"


@pytest.mark.slow
def test_an_agent_gets_the_mcp_servers_of_its_session(runtime: RuntimePeer) -> None:
    server = McpServer("termal-delegation", sys.executable, [MCP_SERVER], {"TOKEN": "for the agent"})
    runtime.start("turn-1", "tool token", runtime.spec(mcp_servers=[server]))

    # The server is a second interpreter with the whole SDK.
    assert runtime.ended("turn-1", limit_s=20.0) == TurnEnded("completed")
    assert runtime.text("turn-1") == "for the agent"
    assert "for the agent" not in runtime.worker.home.log("runtime-acp").read_text()


def test_two_sessions_run_at_once_in_agents_of_their_own(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "run true", runtime.spec("session-1"))
    runtime.asked("turn-1")
    runtime.start("turn-2", "say meanwhile", runtime.spec("session-2"))
    assert runtime.ended("turn-2") == TurnEnded("completed")

    agents = runtime.trees().agents
    assert sorted(agent.session_ids for agent in agents) == [["session-1"], ["session-2"]]
    assert len({agent.pid for agent in agents}) == 2
    runtime.answer("turn-1", "approval-1", "allow")
    assert runtime.ended("turn-1") == TurnEnded("completed")


def test_an_agent_that_breaks_the_rules_harms_nobody_else(home_dir: Path, run_dir: Path) -> None:
    script = run_dir / "script.json"
    script.write_text(json.dumps({"log": str(run_dir / "log"), "prompt": [{"long_line": 100 << 20}]}))
    command = json.dumps([sys.executable, SCRIPTED_AGENT, str(script)])
    with RuntimePeer(home_dir, run_dir, config=f"[agents.Odd]\ncommand = {command}\n") as runtime:
        runtime.start("turn-1", "say before\nwait 1\nsay after")
        runtime.start("turn-2", "go", runtime.spec("session-2", "Odd"))

        assert runtime.ended("turn-2") == TurnEnded("failed", "Odd sent a line of more than 64 MiB")
        assert runtime.ended("turn-1") == TurnEnded("completed")
        wait_until(lambda: len(runtime.trees().agents) == 1, "the odd agent to be gone")


def test_an_agent_that_is_not_there_fails_the_turn_with_a_sentence(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "go", runtime.spec(agent="Nobody"))
    end = runtime.ended("turn-1")
    assert end.outcome == "failed"
    assert end.detail.startswith("Nobody has no command: ")


def test_a_changed_configuration_is_used_for_the_next_agent(runtime: RuntimePeer) -> None:
    command = json.dumps([sys.executable, "-P", "-m", "termal.demo_agent"])
    runtime.worker.home.config.write_text(f"[agents.Own]\ncommand = {command}\n")
    runtime.worker.order(Reload())
    log = runtime.worker.home.log("runtime-acp")
    wait_until(lambda: "config.reloaded" in log.read_text(), "the configuration to be read again")
    runtime.start("turn-1", "say mine", runtime.spec(agent="Own"))
    assert runtime.ended("turn-1") == TurnEnded("completed")


def test_a_wrong_configuration_ends_the_worker_at_its_start(home_dir: Path, run_dir: Path) -> None:
    home_dir.mkdir(mode=0o700)
    (home_dir / "config.toml").write_text("port = 'x'\n")
    with ControlPeer("workers.runtime", home_dir, run_dir, name="runtime-acp", arguments=["acp"]) as worker:
        assert worker.wait() == EXIT_USAGE
        assert "port" in worker.stderr()
