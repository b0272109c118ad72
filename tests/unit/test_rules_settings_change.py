"""Changing the settings of a session: whose settings they are, and what its model is known to take."""

from typing import Any

import pytest
from msgspec import UNSET

from termal.model.session import ModelOption, ServiceTier, Session
from termal.rules.settings import at_creation, changed
from termal.rules.verdicts import Bad, Stale


def session(agent: str, **fields: Any) -> Session:
    return Session(
        id="session-1",
        name="A",
        emoji="AA",
        agent=agent,
        workdir="/",
        status="idle",
        preview="Ready",
        **{**at_creation(agent, None, {}), **fields},
    )


@pytest.mark.parametrize(
    ("agent", "key", "value", "field"),
    [
        ("Codex", "approvalPolicy", "on-request", "approval_policy"),
        ("Codex", "sandboxMode", "read-only", "sandbox_mode"),
        ("Codex", "reasoningEffort", "ultra", "reasoning_effort"),
        ("Claude", "claudeApprovalMode", "plan", "claude_approval_mode"),
        ("Claude", "claudeEffort", "max", "claude_effort"),
        ("Cursor", "cursorMode", "ask", "cursor_mode"),
        ("Gemini", "geminiApprovalMode", "yolo", "gemini_approval_mode"),
        ("OpenCode", "opencodeEffort", "high", "opencode_effort"),
        ("OpenCode", "opencodeMode", "build", "opencode_mode"),
    ],
)
def test_a_setting_of_the_agent_is_taken_and_one_of_another_agent_never(
    agent: str, key: str, value: str, field: str
) -> None:
    assert getattr(changed(session(agent), requested={key: value}), field) == value
    for other in {"Codex", "Claude", "Cursor", "Gemini", "OpenCode", "Demo", "Mine"} - {agent}:
        with pytest.raises(Bad) as caught:
            changed(session(other), requested={key: value})
        assert caught.value.reason == "otherAgent"


@pytest.mark.parametrize(
    ("agent", "request_"),
    [
        ("Codex", {"requested": {"sandboxMode": "none"}}),
        ("Codex", {"requested": {"codexFastMode": "true"}}),
        ("Codex", {"requested": {"sandboxMode": True}}),
        ("Codex", {"requested": {"codexThreadState": "archived"}}),
        ("Claude", {"requested": {"unknown": "x"}}),
        ("Claude", {"requested": {}, "model": "-p"}),
        ("OpenCode", {"requested": {"opencodeMode": " "}}),
        ("OpenCode", {"requested": {"opencodeMode": "a" * 129}}),
        ("OpenCode", {"requested": {"opencodeEffort": "a\nb"}}),
        ("Demo", {"requested": {}, "model": ""}),
        ("Demo", {"requested": {}, "model": "a" * 201}),
        ("Demo", {"requested": {}, "name": "  "}),
        ("Demo", {"requested": {}, "name": "a" * 201}),
    ],
)
def test_a_value_that_can_never_be_right_is_refused(agent: str, request_: dict[str, Any]) -> None:
    with pytest.raises(Bad):
        changed(session(agent), **request_)


def test_names_and_models_are_trimmed_and_opencode_keeps_its_model_twice() -> None:
    new = changed(session("OpenCode"), name="  B ", model=" big ", requested={})
    assert (new.name, new.model, new.opencode_model) == ("B", "big", "big")


def test_what_opencode_does_not_offer_any_more_is_stale() -> None:
    offered = session("OpenCode", opencode_mode_options=[ModelOption(label="Build", value="build")])
    assert changed(offered, requested={"opencodeMode": "build"}).opencode_mode == "build"
    assert changed(offered, requested={"opencodeMode": "auto"}).opencode_mode == "auto"
    with pytest.raises(Stale):
        changed(offered, requested={"opencodeMode": "plan"})


CODEX = [
    ModelOption(
        label="Big",
        value="big",
        supported_reasoning_efforts=["low", "high"],
        service_tiers=[ServiceTier(id="fast", label="Fast")],
    ),
    ModelOption(label="Small", value="small"),
]


def test_an_effort_must_be_one_that_the_chosen_model_has() -> None:
    codex = session("Codex", model_options=CODEX, model="big", reasoning_effort="low")
    assert changed(codex, requested={"reasoningEffort": "high"}).reasoning_effort == "high"
    with pytest.raises(Bad) as caught:
        changed(codex, requested={"reasoningEffort": "ultra"})
    assert caught.value.reason == "effortNotSupported"
    assert changed(codex, model="small", requested={"reasoningEffort": "ultra"}).reasoning_effort == "ultra"
    assert changed(codex, model="not listed", requested={"reasoningEffort": "max"}).reasoning_effort == "max"
    claude = session(
        "Claude", model_options=[ModelOption(label="D", value="default", supported_claude_effort_levels=["low"])]
    )
    assert changed(claude, requested={"claudeEffort": "default"}) == claude
    with pytest.raises(Bad):
        changed(claude, requested={"claudeEffort": "max"})


def test_a_renaming_is_not_refused_for_a_setting_that_no_longer_fits() -> None:
    codex = session("Codex", model_options=CODEX, model="big", reasoning_effort="ultra")
    assert changed(codex, name="B", requested={}).name == "B"


def test_fast_mode_needs_a_known_model_that_has_it() -> None:
    codex = session("Codex", model="big", reasoning_effort="low")
    with pytest.raises(Bad) as caught:
        changed(codex, requested={"codexFastMode": True})
    assert caught.value.reason == "modelsUnknown"
    known = changed(session("Codex", model_options=CODEX, model="big", reasoning_effort="low"), requested={})
    fast = changed(known, requested={"codexFastMode": True})
    assert fast.codex_fast_mode is True
    assert changed(fast, requested={"codexFastMode": False}).codex_fast_mode is UNSET
    with pytest.raises(Bad) as caught:
        changed(fast, model="small", requested={})
    assert caught.value.reason == "noFastMode"
