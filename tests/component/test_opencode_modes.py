"""What OpenCode says of its modes and efforts: from its process to the fields of its session."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from termal.wire.runtime_operations import ModelList
from termal.wire.turns import ModesKnown
from tests.component.test_runtime_acp import MODES, run
from tests.component.test_state_settings import OPENCODE, change, refresh, stored
from tests.support.acp_script import DONE, ScriptedAgent
from tests.support.state_worker import StateWorker

Json = dict[str, Any]


def config(number: str, category: str, current: str, *values: str) -> Json:
    options = [{"value": value, "name": value.title()} for value in values]
    return {"id": number, "category": category, "type": "select", "currentValue": current, "options": options}


def triples(*values: str) -> list[tuple[str, str, str | None]]:
    return [(value, value.title(), None) for value in values]


MODE = config("mode", "mode", "build", "build", "plan")
EFFORT = config("effort", "thought_level", "low", "low", "high")
MODEL = config("model", "model", "a/x", "a/x", "a/y")


def test_an_agent_says_its_modes_and_efforts_and_what_changes_of_them(run_dir: Path) -> None:
    new = {"result": {"sessionId": "conversation-1", "configOptions": [MODEL, MODE, EFFORT]}}
    left = {
        "update": {"sessionUpdate": "config_option_update", "configOptions": [MODEL, {**MODE, "currentValue": "plan"}]}
    }
    agent = ScriptedAgent(run_dir, name="OpenCode", answers={"session/new": new}, prompt=[left, DONE])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        assert agent.adapter.modes == ModesKnown(triples("build", "plan"), "build", triples("low", "high"), "low")
        (known,) = [event for event in await agent.turn() if isinstance(event, ModesKnown)]
        # The efforts went with the model that had them.
        assert known == agent.adapter.modes == ModesKnown(triples("build", "plan"), "plan")

    run(agent, work())


def test_the_modes_of_an_older_protocol_are_told_as_well(run_dir: Path) -> None:
    new = {"result": {"sessionId": "conversation-1", "modes": MODES}}
    left = {"update": {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}}
    agent = ScriptedAgent(run_dir, answers={"session/new": new}, prompt=[left, DONE])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        (known,) = [event for event in await agent.turn() if isinstance(event, ModesKnown)]
        assert (known.current_mode, [value for value, _, _ in known.modes]) == ("plan", ["default", "autoEdit", "plan"])

    run(agent, work())


def installed(state: StateWorker) -> str:
    """A session of OpenCode, which is on this machine as far as state can see."""
    session_id = stored(state, "OpenCode", **OPENCODE)
    state.stop()
    state.home.config.write_text(f"[agents.OpenCode]\ncommand = [{json.dumps(sys.executable)}]\n")
    state.start()
    return session_id


KNOWN = ModesKnown([("build", "Build", "works"), ("plan", "Plan", None)], "build", triples("low"), "low")


def test_a_session_shows_what_its_agent_offers_and_works_by(state: StateWorker) -> None:
    session_id = stored(state, "OpenCode", **OPENCODE)
    runtime = state.runtime()
    state.send(session_id, "x")
    turn = runtime.turn(0)
    runtime.report(turn, KNOWN)
    shown = state.read(session_id)
    assert (shown["opencodeCurrentMode"], shown["opencodeCurrentEffort"]) == ("build", "low")
    assert shown["opencodeModeOptions"] == [
        {"label": "Build", "value": "build", "description": "works"},
        {"label": "Plan", "value": "plan"},
    ]
    assert shown["opencodeEffortOptions"] == [{"label": "Low", "value": "low"}]
    assert shown["opencodeMode"] == "auto", "what was asked for is something else"
    runtime.report(turn, ModesKnown(triples("build"), "build"))
    shown = state.read(session_id)
    assert "opencodeCurrentEffort" not in shown
    assert "opencodeEffortOptions" not in shown
    runtime.end(turn)
    state.reload()
    assert state.read(session_id)["opencodeCurrentMode"] == "build"


def test_what_cannot_be_stored_is_not_shown(state: StateWorker) -> None:
    session_id = stored(state, "OpenCode", **OPENCODE)
    runtime = state.runtime()
    state.send(session_id, "x")
    turn = runtime.turn(0)
    runtime.report(turn, ModesKnown([("a" * 200, "Long", None), ("b\x00", "Odd", None), ("c", "C", None)], "a" * 200))
    shown = state.read(session_id)
    assert shown["opencodeModeOptions"] == [{"label": "C", "value": "c"}]
    assert "opencodeCurrentMode" not in shown
    runtime.end(turn)
    state.reload()
    assert state.read(session_id)["opencodeModeOptions"] == [{"label": "C", "value": "c"}]


@pytest.mark.parametrize("agent", ["Gemini", "Demo"])
def test_no_other_agents_session_has_such_fields(state: StateWorker, agent: str) -> None:
    session_id = stored(state, agent, **({"geminiApprovalMode": "default"} if agent == "Gemini" else {}))
    runtime = state.runtime()
    state.send(session_id, "x")
    turn = runtime.turn(0)
    runtime.report(turn, KNOWN)
    assert not [key for key in state.read(session_id) if key.startswith("opencode")]
    runtime.end(turn)


def test_a_list_that_is_asked_for_and_a_change_that_was_taken_bring_them_too(state: StateWorker) -> None:
    session_id = installed(state)
    runtime = state.runtime()
    runtime.models = ModelList(triples("a/x"), {}, KNOWN)
    assert refresh(state, session_id)["opencodeCurrentMode"] == "build"
    runtime.modes = ModesKnown(triples("build", "plan"), "plan")
    assert change(state, session_id, opencodeMode="plan")["opencodeCurrentMode"] == "plan"


def test_efforts_of_another_model_are_not_judged_by_those_of_this_one(state: StateWorker) -> None:
    session_id = installed(state)
    runtime = state.runtime()
    runtime.models = ModelList(triples("a/x"), {}, KNOWN)
    refresh(state, session_id)
    runtime.modes = ModesKnown(triples("build"), "build", triples("max"), "max")
    session = change(state, session_id, model="a/y", opencodeEffort="max")
    assert (session["opencodeEffort"], session["opencodeCurrentEffort"]) == ("max", "max")
