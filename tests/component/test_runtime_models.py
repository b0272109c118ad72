"""What an agent is asked and told beside its prompts, by a real runtime worker: its models, its settings."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from termal.wire.errors import Internal
from termal.wire.runtime_operations import (
    MODELS_LIST,
    SETTINGS_APPLY,
    ApplySettings,
    ListModels,
    ModelList,
    SettingsApplied,
)
from termal.wire.turns import ExternalSession, ModelsKnown, SessionSpec, TurnEnded
from tests.support.acp_peer import RuntimePeer
from tests.support.bus_peer import call

SCRIPTED_AGENT = str(Path(__file__).parents[1] / "support" / "acp_agent.py")
OFFERED = {"availableModels": [{"modelId": "big", "name": "Big"}, {"modelId": "small", "name": "Small"}]}
BEGINNING = {"result": {"sessionId": "conversation-1", "models": {**OFFERED, "currentModelId": "big"}}}
LIST = ModelList([("big", "Big", None), ("small", "Small", None)])


@pytest.fixture
def runtime(home_dir: Path, run_dir: Path) -> Iterator[RuntimePeer]:
    script = run_dir / "script.json"
    script.write_text(json.dumps({"log": str(run_dir / "log"), "answers": {"session/new": BEGINNING}}))
    command = json.dumps([sys.executable, SCRIPTED_AGENT, str(script)])
    missing = json.dumps([str(run_dir / "none")])
    config = f"[agents.Mine]\ncommand = {command}\n[agents.Gone]\ncommand = {missing}\n"
    with RuntimePeer(home_dir, run_dir, config=config) as peer:
        yield peer


def models(runtime: RuntimePeer, spec: SessionSpec) -> ModelList:
    return call(runtime.run_dir, "runtime-acp", MODELS_LIST, ListModels(spec))


def begun(runtime: RuntimePeer) -> int:
    """How many conversations the scripted agents were asked to begin."""
    return (runtime.run_dir / "log").read_text().count("session/new")


def test_an_agent_is_started_for_the_list_and_serves_the_first_turn(runtime: RuntimePeer) -> None:
    spec = runtime.spec(agent="Mine")
    assert models(runtime, spec) == LIST
    assert models(runtime, spec) == LIST
    runtime.start("turn-1", "go", spec)
    assert runtime.wait_for("turn-1", ExternalSession) == ExternalSession("conversation-1")
    assert runtime.wait_for("turn-1", ModelsKnown).current == "big"
    assert begun(runtime) == 1
    runtime.stop("turn-1")
    assert runtime.ended("turn-1") == TurnEnded("interrupted", "")


def test_the_agent_of_a_running_turn_is_the_one_that_is_asked(runtime: RuntimePeer) -> None:
    spec = runtime.spec(agent="Mine")
    runtime.start("turn-1", "go", spec)
    assert models(runtime, spec) == LIST
    assert begun(runtime) == 1
    assert runtime.said("turn-1", TurnEnded) == []
    runtime.stop("turn-1")
    runtime.ended("turn-1")
    assert models(runtime, spec) == LIST


def test_an_agent_without_a_list_says_so(runtime: RuntimePeer) -> None:
    assert models(runtime, runtime.spec()) == ModelList([])


def test_an_agent_that_cannot_be_started_is_an_error_with_its_sentence(runtime: RuntimePeer) -> None:
    with pytest.raises(Internal) as caught:
        models(runtime, runtime.spec(agent="Gone"))
    assert "config.toml names" in caught.value.message
    runtime.start("turn-1", "say hello")
    assert runtime.ended("turn-1") == TurnEnded("completed")


def test_a_closed_session_ends_the_agent_that_was_started_for_its_list(runtime: RuntimePeer) -> None:
    assert models(runtime, runtime.spec(agent="Mine")) == LIST
    assert len(runtime.trees().agents) == 1
    runtime.close("session-1")
    assert runtime.trees().agents == []


def test_changed_settings_reach_the_agent_of_a_running_turn(runtime: RuntimePeer) -> None:
    spec = replace(runtime.spec(agent="Mine"), model="big")
    assert not apply(runtime, spec).live, "nothing runs that could be told"
    runtime.start("turn-1", "go", spec)
    runtime.wait_for("turn-1", ModelsKnown)
    assert apply(runtime, replace(spec, model="small")).live
    assert '"modelId":"small"' in (runtime.run_dir / "log").read_text().replace(" ", "")
    assert not apply(runtime, replace(spec, workdir="/")).live, "this needs a process of its own"
    assert runtime.said("turn-1", TurnEnded) == []
    runtime.stop("turn-1")
    assert runtime.ended("turn-1").outcome == "interrupted"


def apply(runtime: RuntimePeer, spec: SessionSpec) -> SettingsApplied:
    return call(runtime.run_dir, "runtime-acp", SETTINGS_APPLY, ApplySettings(spec))
