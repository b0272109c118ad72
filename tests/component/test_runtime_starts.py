"""A runtime worker and an agent that ends right after its start: counted, paused, parked, tried again."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from termal.wire.agent_operations import AgentTrouble
from termal.wire.control import Reload
from termal.wire.errors import Conflict
from tests.support.acp_peer import RuntimePeer
from tests.support.waiting import wait_until
from workers.runtime.starts import MOST_EXITS

pytestmark = [pytest.mark.slow]

AGENT_S = 20.0
"""For the start of an agent on a busy machine."""
Script = dict[str, object]
SCRIPTED_AGENT = str(Path(__file__).parents[1] / "support" / "acp_agent.py")
BROKEN: Script = {"behaviour": "exits"}
SOUND: Script = {"prompt": [{"result": {"stopReason": "end_turn"}}]}


def mend(folder: Path, script: Script) -> Path:
    file = folder / "script.json"
    file.write_text(json.dumps({**script, "log": str(folder / "received.jsonl")}))
    return file


@pytest.fixture
def runtime(home_dir: Path, run_dir: Path) -> Iterator[RuntimePeer]:
    command = json.dumps([sys.executable, SCRIPTED_AGENT, str(mend(run_dir, BROKEN))])
    with RuntimePeer(home_dir, run_dir, config=f"[agents.Mine]\ncommand = {command}\n") as peer:
        yield peer


def attempt(runtime: RuntimePeer, turn: str) -> bool:
    """Whether the worker took the turn, which is over then."""
    try:
        runtime.start(turn, "go", runtime.spec(agent="Mine"))
    except Conflict:
        return False
    runtime.ended(turn, AGENT_S)
    return True


def told(runtime: RuntimePeer) -> list[AgentTrouble]:
    return runtime.state.troubles[-1] if runtime.state.troubles else []


def park(runtime: RuntimePeer) -> None:
    for number in range(1, MOST_EXITS + 1):
        wait_until(partial(attempt, runtime, f"turn-{number}"), f"start {number}", AGENT_S)
    wait_until(lambda: told(runtime) and told(runtime)[0].parked, "the agent to be parked")


def test_a_start_that_ends_at_once_loses_its_turn_and_the_next_one_waits(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "go", runtime.spec(agent="Mine"))
    end = runtime.ended("turn-1", AGENT_S)
    assert (end.outcome, end.detail) == (
        "lost",
        "the Mine process ended right after its start: cannot read its settings",
    )
    (trouble,) = wait_until(lambda: told(runtime), "state to be told")
    assert (trouble.agent, trouble.exits, trouble.parked) == ("Mine", 1, False)


def test_after_several_it_is_parked_until_somebody_wants_another_try(runtime: RuntimePeer, run_dir: Path) -> None:
    mend(run_dir, SOUND)
    healthy = runtime.spec("session-2", agent="Mine")
    runtime.start("turn-a", "go", healthy)
    assert runtime.ended("turn-a", AGENT_S).outcome == "completed"

    mend(run_dir, BROKEN)
    park(runtime)
    end = runtime.ended(f"turn-{MOST_EXITS}")
    assert "`termal agents --retry Mine`" in end.detail
    with pytest.raises(Conflict, match="not started any more") as refused:
        runtime.start("turn-late", "go", runtime.spec(agent="Mine"))
    assert refused.value.reason == "agentExits"
    # Neither other agents nor a session in which it runs are concerned.
    assert told(runtime)[0].alive == ["session-2"]
    assert [tree.session_ids for tree in runtime.trees().agents] == [["session-2"]]
    runtime.start("turn-b", "go", healthy)
    assert runtime.ended("turn-b").outcome == "completed"
    runtime.start("turn-c", "say hello", runtime.spec("session-3"))
    assert runtime.ended("turn-c", AGENT_S).outcome == "completed"

    mend(run_dir, SOUND)
    runtime.forgive("Mine")
    wait_until(lambda: told(runtime) == [], "state to be told that it is over")
    runtime.start("turn-late", "go", runtime.spec(agent="Mine"))
    assert runtime.ended("turn-late", AGENT_S).outcome == "completed"


def test_a_configuration_that_is_read_again_starts_it_again(runtime: RuntimePeer, run_dir: Path) -> None:
    assert attempt(runtime, "turn-1")
    wait_until(lambda: told(runtime), "state to be told")
    mend(run_dir, SOUND)
    runtime.worker.order(Reload())
    wait_until(lambda: told(runtime) == [], "state to be told that it is over")
    assert attempt(runtime, "turn-late")
    assert runtime.ended("turn-late").outcome == "completed"


def test_a_new_state_is_told_what_the_old_one_knew(runtime: RuntimePeer) -> None:
    attempt(runtime, "turn-1")
    wait_until(lambda: told(runtime), "state to be told")
    runtime.state.stop()
    runtime.state.troubles.clear()
    runtime.state.start()
    wait_until(lambda: told(runtime), "the new state to be told")
