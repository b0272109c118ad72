"""How each ACP agent is started and asked: environment, modes, options of permission, and when it may be loaded."""

import json
from typing import Any

import pytest

from termal.config import AgentConfig
from termal.wire.turns import PermissionOption, SessionSpec
from workers.runtime.acp_agents import acp_agent, session_effort, session_mode
from workers.runtime.acp_load_times import LoadTimes
from workers.runtime.acp_permissions import offered_options


def _spec(agent: str, **more: Any) -> SessionSpec:
    return SessionSpec("session-1", agent, "/work", "auto", **more)


@pytest.mark.parametrize(
    ("agent", "own", "spec", "mode"),
    [
        ("Gemini", {}, {}, "default"),
        ("Gemini", {}, {"modes": {"geminiApprovalMode": "auto_edit"}}, "autoEdit"),
        ("Gemini", {}, {"modes": {"geminiApprovalMode": "yolo"}, "read_only": True}, "plan"),
        ("Cursor", {}, {"modes": {"cursorMode": "ask"}}, "ask"),
        ("Cursor", {}, {"read_only": True}, "plan"),
        ("OpenCode", {}, {"modes": {"opencodeMode": "auto"}}, None),
        ("OpenCode", {}, {"modes": {"opencodeMode": "plan"}}, "plan"),
        ("Demo", {}, {"read_only": True}, None),
        ("own", {"read_only_mode": "look"}, {"read_only": True}, "look"),
        ("own", {"read_only_mode": "look"}, {}, None),
        ("own", {"mode": "code", "read_only_mode": "look"}, {}, "code"),
        ("own", {"mode": "code", "read_only_mode": "look"}, {"read_only": True}, "look"),
    ],
)
def test_the_mode_of_a_session(agent: str, own: dict[str, Any], spec: dict[str, Any], mode: str | None) -> None:
    wanted = _spec(agent, **spec)
    assert session_mode(acp_agent(agent, AgentConfig(**own), wanted, {}), wanted) == mode


def test_only_opencode_has_an_effort() -> None:
    for agent, expected in (("OpenCode", "high"), ("Gemini", None)):
        wanted = _spec(agent, modes={"opencodeEffort": "high"})
        assert session_effort(acp_agent(agent, AgentConfig(), wanted, {}), wanted) == expected


def test_a_read_only_gemini_is_not_told_to_trust_the_folder() -> None:
    assert acp_agent("Gemini", AgentConfig(), _spec("Gemini", read_only=True), {}).unwanted == {"--skip-trust"}
    assert acp_agent("Gemini", AgentConfig(), _spec("Gemini"), {}).unwanted == set()


@pytest.mark.parametrize(
    ("given", "read_only", "permission"),
    [
        ("", False, {"edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask"}),
        ('{"model": "a/b"}', False, {"edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask"}),
        ('{"permission": {"edit": "allow"}}', False, {"edit": "allow"}),
        (
            '{"permission": {"edit": "allow"}}',
            True,
            {"edit": "deny", "bash": "deny", "task": "deny", "external_directory": "deny"},
        ),
        ("broken", True, {"edit": "deny", "bash": "deny", "task": "deny", "external_directory": "deny"}),
    ],
    ids=["none", "other keys", "own rules", "read-only", "broken read-only"],
)
def test_opencode_asks_unless_the_user_says_otherwise(given: str, read_only: bool, permission: dict[str, str]) -> None:
    environment = {"OPENCODE_CONFIG_CONTENT": given}
    agent = acp_agent("OpenCode", AgentConfig(), _spec("OpenCode", read_only=read_only), environment)
    config = json.loads(agent.environment["OPENCODE_CONFIG_CONTENT"])
    assert config["permission"] == permission
    assert config.get("model") == ("a/b" if "model" in given else None)
    assert agent.environment["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"


def test_a_broken_opencode_configuration_is_left_to_opencode() -> None:
    agent = acp_agent("OpenCode", AgentConfig(), _spec("OpenCode"), {"OPENCODE_CONFIG_CONTENT": "broken"})
    assert agent.environment["OPENCODE_CONFIG_CONTENT"] == "broken"


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (
            [("a", "allow_once"), ("b", "allow_always"), ("c", "reject_once"), ("d", "reject_always")],
            [("a", "accepted"), ("b", "acceptedForSession"), ("c", "rejected")],
        ),
        (
            [("server", "allow_always"), ("tool", "allow_always"), ("a", "allow_once")],
            [("tool", "acceptedForSession"), ("a", "accepted")],
        ),
        ([("d", "reject_always")], [("d", "rejected")]),
        ([("d", "reject_always"), ("c", "reject_once")], [("c", "rejected")]),
        ([("x", "new_kind")], []),
    ],
    ids=["all", "two lasting ones", "only for ever", "once goes first", "unknown"],
)
def test_one_option_stands_for_each_decision(offered: list[tuple[str, str]], expected: list[tuple[str, str]]) -> None:
    records: list[Any] = [{"optionId": number, "kind": kind, "name": number} for number, kind in offered]
    found = offered_options([*records, None, {"optionId": 3, "kind": "allow_once"}])
    assert [(option.id, option.decision) for option in found] == expected
    assert all(isinstance(option, PermissionOption) for option in found)


def test_options_of_another_shape_are_none() -> None:
    assert offered_options("all of them") == []


class Clock:
    now_s = 600.0

    def __call__(self) -> float:
        return self.now_s


def test_a_conversation_is_loaded_only_in_a_later_minute_than_its_last_start() -> None:
    clock = Clock()
    times = LoadTimes(clock)
    # Nothing is known of it: it was started before this process, perhaps in this very minute.
    assert times.wait_s("old") == 61.0
    clock.now_s = 670.0
    assert times.wait_s("old") == 0.0
    times.started("old")
    clock.now_s = 710.0
    assert times.wait_s("old") == 11.0
    clock.now_s = 721.0
    assert times.wait_s("old") == 0.0
