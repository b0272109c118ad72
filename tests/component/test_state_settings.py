"""Settings of sessions on a real file: all or nothing, for the next turn, never against a read-only delegation."""

from typing import Any

import pytest

from termal.wire.delegation_operations import DELEGATION_SPAWN, SpawnDelegation
from termal.wire.errors import Conflict, Forbidden, Internal, InvalidRequest, NotFound, TermalError
from termal.wire.runtime_operations import ModelList
from termal.wire.session_operations import OneSession
from termal.wire.settings_operations import (
    MODELS_REFRESH,
    PREFERENCES_CHANGE,
    SETTINGS_CHANGE,
    ChangePreferences,
    ChangeSettings,
)
from tests.support.state_worker import Json, StateWorker, find
from tests.support.waiting import wait_until

CODEX = {
    "model": "gpt-5.4",
    "approvalPolicy": "never",
    "sandboxMode": "workspace-write",
    "reasoningEffort": "medium",
}
COPIES = ("codexApprovalPolicy", "activeCodexApprovalPolicy", "codexSandboxMode", "activeCodexSandboxMode")


def change(state: StateWorker, session_id: str, **fields: Any) -> Json:
    """The session as the reply shows it."""
    named = {key: fields.pop(key) for key in ("name", "model") if key in fields}
    request = ChangeSettings(session_id=session_id, settings=fields, **named)
    return find(state.json(SETTINGS_CHANGE, request), session_id)


def stored(state: StateWorker, agent: str, **session: Any) -> str:
    """A session of an agent that is not on this machine, as a store may hold one; the worker runs after it."""
    state.start()
    session_id = state.create()
    state.stop()
    codex = {"codexApprovalPolicy": "never", "codexSandboxMode": "workspace-write", "codexReasoningEffort": "medium"}
    state.change_row(session_id, session={"agent": agent, **session}, **(codex if agent == "Codex" else {}))
    state.start()
    return session_id


@pytest.mark.case("S7")
def test_a_setting_of_another_agent_is_refused_and_moves_nothing(state: StateWorker) -> None:
    session_id = stored(state, "Cursor", cursorMode="agent")
    before = state.read(session_id), state.state()["revision"], state.row(session_id)
    with pytest.raises(InvalidRequest):
        change(state, session_id, sandboxMode="read-only")
    assert (state.read(session_id), state.state()["revision"], state.row(session_id)) == before
    assert state.read(session_id)["sessionMutationStamp"] == before[0]["sessionMutationStamp"]
    assert [event["type"] for event in state.events] == ["sessionCreated"]


def test_one_wrong_value_leaves_the_others_unchanged(state: StateWorker) -> None:
    session_id = stored(state, "Cursor", cursorMode="agent")
    before = state.read(session_id)
    with pytest.raises(InvalidRequest):
        change(state, session_id, name="B", cursorMode="plan", model=" ")
    assert state.read(session_id) == before


@pytest.mark.case("S8")
def test_a_running_codex_turn_keeps_the_policy_that_it_was_started_with(state: StateWorker) -> None:
    session_id = stored(state, "Codex", **CODEX)
    runtime = state.runtime("runtime-codex")
    state.send(session_id, "one")
    turn = runtime.turn(0)
    assert turn.start.spec.modes["approvalPolicy"] == "never"
    assert change(state, session_id, approvalPolicy="on-request")["approvalPolicy"] == "on-request"
    row = state.row(session_id)
    assert [row[key] for key in COPIES] == ["on-request", "never", "workspace-write", "workspace-write"]
    assert (row["session"]["approvalPolicy"], row["session"]["status"]) == ("on-request", "active")
    runtime.end(turn)
    assert [state.row(session_id)[key] for key in COPIES] == ["on-request", None, "workspace-write", None]
    state.send(session_id, "two")
    assert runtime.turn(1).start.spec.modes["approvalPolicy"] == "on-request"
    assert [state.row(session_id)[key] for key in COPIES[:2]] == ["on-request", "on-request"]
    runtime.end(runtime.turn(1))


def test_the_next_turn_of_any_agent_has_the_changed_settings(state: StateWorker) -> None:
    session_id = stored(state, "Gemini", geminiApprovalMode="default")
    runtime = state.runtime()
    session = change(state, session_id, name=" Mine ", model="pro", geminiApprovalMode="yolo")
    assert (session["name"], session["model"], session["geminiApprovalMode"]) == ("Mine", "pro", "yolo")
    state.send(session_id, "x")
    spec = runtime.turn(0).start.spec
    assert (spec.model, spec.modes["geminiApprovalMode"]) == ("pro", "yolo")
    runtime.end(runtime.turn(0))


def test_a_change_is_one_event_and_is_there_after_a_kill(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.wait_deltas(session_id, 1)
    before = state.read(session_id)
    change(state, session_id, name="B", model="big")
    [_, event] = state.wait_deltas(session_id, 2)
    assert event["type"] == "sessionSummaryUpdated"
    assert (event["session"]["name"], event["session"]["model"]) == ("B", "big")
    assert event["sessionMutationStamp"] > before["sessionMutationStamp"]
    revision = state.state()["revision"]
    assert change(state, session_id, name="B")["model"] == "big"
    assert state.state()["revision"] == revision
    state.kill()
    state.start()
    session = state.read(session_id)
    assert (session["name"], session["model"]) == ("B", "big")
    assert (session["status"], session["preview"], session["messageCount"]) == ("idle", before["preview"], 0)


def test_settings_of_an_unknown_session_are_not_found(state: StateWorker) -> None:
    state.start()
    with pytest.raises(NotFound):
        change(state, "session-9", name="B")


def test_a_delegated_session_that_may_only_read_can_be_renamed_and_nothing_else(state: StateWorker) -> None:
    state.start()
    state.runtime()
    parent = state.create()
    spawn = SpawnDelegation(delegation_id="delegation-1", parent_session_id=parent, prompt="go", mode="explorer")
    child = str(state.json(DELEGATION_SPAWN, spawn)["delegation"]["childSessionId"])
    for fields in ({"model": "big"}, {"claudeEffort": "max"}, {"name": "B", "model": "big"}):
        with pytest.raises(Forbidden):
            change(state, child, **fields)
    assert change(state, child, name="C")["name"] == "C"
    assert change(state, parent, name="P", model="big")["model"] == "big"


# --------------------------------------------------------------------- preferences


def prefer(state: StateWorker, **values: str) -> Json:
    return state.json(PREFERENCES_CHANGE, ChangePreferences(values=values))


def test_new_sessions_begin_with_what_is_preferred_and_old_ones_keep_theirs(state: StateWorker) -> None:
    state.start()
    old = state.create("Claude")
    reply = prefer(state, defaultClaudeModel="opus", defaultClaudeApprovalMode="plan", defaultClaudeEffort="high")
    assert reply["preferences"]["defaultClaudeModel"] == "opus"
    [event] = wait_until(lambda: [event for event in state.events if event["event"] == "state"], "a snapshot")
    assert event["preferences"] == reply["preferences"]
    state.kill()
    state.start()
    new = state.read(state.create("Claude"))
    assert (new["model"], new["claudeApprovalMode"], new["claudeEffort"]) == ("opus", "plan", "high")
    asked = state.read(state.create("Claude", model="haiku", settings={"claudeApprovalMode": "ask"}))
    assert (asked["model"], asked["claudeApprovalMode"], asked["claudeEffort"]) == ("haiku", "ask", "high")
    kept = state.read(old)
    assert (kept["model"], kept["claudeApprovalMode"], kept["claudeEffort"]) == ("default", "ask", "default")
    prefer(state, defaultClaudeModel="Default")
    assert state.read(state.create("Claude"))["model"] == "default"


def test_a_wrong_preference_changes_none(state: StateWorker) -> None:
    state.start()
    before = state.state()
    with pytest.raises(InvalidRequest):
        prefer(state, defaultClaudeEffort="max", defaultClaudeModel="-x")
    assert state.state() == before


# ------------------------------------------------------------------- model options


def refresh(state: StateWorker, session_id: str) -> Json:
    return find(state.json(MODELS_REFRESH, OneSession(session_id)), session_id)


def test_a_refresh_stores_what_the_agent_offers_and_touches_nothing_else(state: StateWorker) -> None:
    state.start()
    session_id = state.create(model="no such model")
    runtime = state.runtime()
    runtime.models = ModelList([("big", "Big", "slow"), ("small", "Small", None)])
    before = state.read(session_id)
    session = refresh(state, session_id)
    assert session["modelOptions"] == [
        {"label": "Big", "value": "big", "description": "slow"},
        {"label": "Small", "value": "small"},
    ]
    [asked] = runtime.asked_models
    assert (asked.spec.session_id, asked.spec.agent, asked.spec.model) == (session_id, "Demo", "")
    changed = {"modelOptions", "sessionMutationStamp"}
    assert {key: value for key, value in session.items() if key not in changed} == {
        key: value for key, value in before.items() if key not in changed
    }
    [_, event] = state.wait_deltas(session_id, 2)
    assert (event["type"], len(event["session"]["modelOptions"])) == ("sessionSummaryUpdated", 2)
    refresh(state, session_id)
    state.kill()
    state.start()
    assert len(state.read(session_id)["modelOptions"]) == 2
    assert len(state.deltas(session_id)) == 2


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [(ModelList([]), InvalidRequest, "noModelList"), (Internal("it broke"), Internal, "agentFailed")],
    ids=["no list", "failed"],
)
def test_a_refresh_without_a_list_changes_nothing(
    state: StateWorker, answer: ModelList | TermalError, error: type[TermalError], reason: str
) -> None:
    state.start()
    session_id = state.create()
    state.runtime().models = answer
    before = state.read(session_id)
    with pytest.raises(error) as caught:
        refresh(state, session_id)
    assert caught.value.reason == reason
    assert state.read(session_id) == before


def test_opencode_is_not_asked_while_its_turn_runs(state: StateWorker) -> None:
    session_id = stored(state, "OpenCode", opencodeModel="auto", opencodeMode="auto", opencodeEffort="auto")
    runtime = state.runtime()
    state.send(session_id, "x")
    with pytest.raises(Conflict):
        refresh(state, session_id)
    assert runtime.asked_models == []
    runtime.end(runtime.turn(0))


# ---------------------------------------------------------------------- while it runs

OPENCODE = {"opencodeModel": "auto", "opencodeMode": "auto", "opencodeEffort": "auto"}


def test_a_running_agent_is_told_its_changed_settings_at_once(state: StateWorker) -> None:
    session_id = stored(state, "Gemini", geminiApprovalMode="default")
    runtime = state.runtime()
    state.send(session_id, "x")
    turn = runtime.turn(0)
    change(state, session_id, geminiApprovalMode="yolo", model="pro")
    wait_until(lambda: len(runtime.applied) == 1, "the agent to be told")
    spec = runtime.applied[0].spec
    assert (spec.session_id, spec.model, spec.modes["geminiApprovalMode"]) == (session_id, "pro", "yolo")
    change(state, session_id, name="Other")
    change(state, session_id, model="pro")
    runtime.end(turn)
    assert len(runtime.applied) == 1


def test_a_refusal_of_the_agent_leaves_the_change_for_its_next_turn(state: StateWorker) -> None:
    session_id = stored(state, "Gemini", geminiApprovalMode="default")
    runtime = state.runtime()
    runtime.apply_error = Conflict("no such model", reason="agentRefused")
    state.send(session_id, "x")
    turn = runtime.turn(0)
    assert change(state, session_id, model="pro")["model"] == "pro"
    wait_until(lambda: runtime.applied, "the agent to be told")
    runtime.end(turn)
    assert state.read(session_id)["model"] == "pro"


def test_opencode_settings_are_stored_when_it_has_taken_them(state: StateWorker) -> None:
    session_id = stored(state, "OpenCode", **OPENCODE)
    assert change(state, session_id, opencodeMode="build")["opencodeMode"] == "build", "no process, nobody to ask"
    runtime = state.runtime()
    state.send(session_id, "x")
    turn = runtime.turn(0)
    runtime.hold_settings = True
    before = state.read(session_id)
    asked = state.begin(SETTINGS_CHANGE, ChangeSettings(session_id=session_id, settings={"opencodeMode": "plan"}))
    wait_until(lambda: runtime.applied, "the agent to be asked")
    assert state.read(session_id) == before
    with pytest.raises(Conflict) as caught:
        change(state, session_id, model="scripted/other")
    assert caught.value.reason == "changeInFlight"
    change(state, session_id, name="Renamed")
    runtime.release()
    asked.reply()
    session = state.read(session_id)
    assert (session["opencodeMode"], session["name"], session["model"]) == ("plan", "Renamed", "auto")
    runtime.hold_settings = False
    assert change(state, session_id, model="scripted/other")["opencodeModel"] == "scripted/other"
    runtime.end(turn)


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (Conflict("no such mode", reason="agentRefused"), Conflict, "notOffered"),
        (Internal("no answer to session/set_mode", reason="agentFailed"), Internal, "agentFailed"),
    ],
    ids=["refused", "unanswered"],
)
def test_what_opencode_does_not_take_is_not_stored(
    state: StateWorker, answer: TermalError, error: type[TermalError], reason: str
) -> None:
    session_id = stored(state, "OpenCode", **OPENCODE)
    runtime = state.runtime()
    runtime.apply_error = answer
    state.send(session_id, "x")
    turn = runtime.turn(0)
    before = state.read(session_id)
    with pytest.raises(error) as caught:
        change(state, session_id, opencodeMode="gone", name="Renamed")
    assert caught.value.reason == reason
    assert state.read(session_id) == before
    runtime.end(turn)
