"""Defaults of each agent, what a creation may set, what a stored record must have."""

from typing import Any

import pytest
from msgspec import UNSET

from termal.model.session import Session
from termal.rules.images import IMAGE_BYTES, attachment, check_agent
from termal.rules.settings import at_creation, check_stored, emoji_of, is_acp, modes_of, runtime_of
from termal.rules.verdicts import Bad


def session(agent: str, **fields: Any) -> Session:
    values: dict[str, Any] = {
        "id": "session-1",
        "name": "A",
        "emoji": "XX",
        "agent": agent,
        "workdir": "/w",
        "status": "idle",
        "preview": "",
        **at_creation(agent, None, {}),
        **fields,
    }
    return Session(**values)


@pytest.mark.parametrize(
    ("agent", "model", "fields"),
    [
        (
            "Codex",
            "gpt-5.4",
            {"approval_policy": "never", "sandbox_mode": "workspace-write", "reasoning_effort": "medium"},
        ),
        ("Claude", "default", {"claude_approval_mode": "ask", "claude_effort": "default"}),
        ("Cursor", "auto", {"cursor_mode": "agent"}),
        ("Gemini", "auto", {"gemini_approval_mode": "default"}),
        ("OpenCode", "auto", {"opencode_model": "auto", "opencode_effort": "auto", "opencode_mode": "auto"}),
        ("Demo", "auto", {}),
        ("My-Agent", "auto", {}),
    ],
)
def test_each_agent_has_its_defaults_and_no_key_of_another(agent: str, model: str, fields: dict[str, str]) -> None:
    made = at_creation(agent, None, {})
    assert made == {"model": model, **fields}
    check_stored(session(agent))


def test_a_creation_may_set_the_settings_of_its_agent() -> None:
    made = at_creation("Codex", " gpt-9 ", {"sandboxMode": "read-only"})
    assert made["model"] == "gpt-9"
    assert made["sandbox_mode"] == "read-only"
    assert made["approval_policy"] == "never"


@pytest.mark.parametrize(
    ("agent", "model", "settings"),
    [
        pytest.param("Cursor", None, {"sandboxMode": "read-only"}, id="key-of-another-agent"),
        pytest.param("Codex", None, {"sandboxMode": "everything"}, id="unknown-value"),
        pytest.param("Codex", None, {"colour": "red"}, id="unknown-key"),
        pytest.param("Codex", None, {"codexThreadState": "active"}, id="key-of-ours"),
        pytest.param("Codex", "  ", {}, id="blank-model"),
        pytest.param("Demo", "x" * 201, {}, id="long-model"),
        pytest.param("Demo", "a\nb", {}, id="control-character"),
        pytest.param("Claude", "--danger", {}, id="option-as-model"),
    ],
)
def test_what_a_session_cannot_have_is_refused(agent: str, model: str | None, settings: dict[str, str]) -> None:
    with pytest.raises(Bad):
        at_creation(agent, model, settings)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(session("Claude", claude_effort=UNSET), id="claude-effort-missing"),
        pytest.param(session("Claude", cursor_mode="ask"), id="claude-with-cursor-mode"),
        pytest.param(session("Gemini", gemini_approval_mode=UNSET), id="gemini-mode-missing"),
        pytest.param(session("Codex", sandbox_mode=None), id="codex-sandbox-missing"),
        pytest.param(session("Codex", external_session_id="thread"), id="codex-thread-without-state"),
        pytest.param(session("Codex", codex_thread_state="active"), id="codex-state-without-thread"),
        pytest.param(session("OpenCode", opencode_mode=UNSET), id="opencode-mode-missing"),
        pytest.param(session("OpenCode", opencode_effort="x" * 129), id="opencode-effort-long"),
        pytest.param(session("OpenCode", opencode_mode="a\x00"), id="opencode-control-character"),
    ],
)
def test_a_stored_record_that_cannot_be_right_is_refused(stored: Session) -> None:
    with pytest.raises(Bad):
        check_stored(stored)


def test_agents_run_in_the_worker_of_their_protocol() -> None:
    assert [runtime_of(agent) for agent in ("Claude", "Codex", "Gemini", "Demo", "Mine")] == [
        "runtime-claude",
        "runtime-codex",
        "runtime-acp",
        "runtime-acp",
        "runtime-acp",
    ]
    assert is_acp("Cursor")
    assert not is_acp("Claude")


def test_modes_are_given_under_their_wire_names() -> None:
    assert modes_of(session("Claude")) == {"claudeApprovalMode": "ask", "claudeEffort": "default"}
    assert modes_of(session("Codex", codex_fast_mode=True))["codexFastMode"] == "true"


def test_every_agent_has_two_letters() -> None:
    assert emoji_of("Claude") == "CL"
    assert emoji_of("zed") == "ZE"


def test_images_are_named_and_bounded() -> None:
    assert attachment(2, "image/jpeg", 10, None).file_name == "pasted-image-2.jpg"
    assert attachment(1, "image/gif", IMAGE_BYTES, "a/b\\c\0d").file_name == "a-b-c-d"
    for media_type, size_bytes in (("image/tiff", 1), ("image/png", 0), ("image/png", IMAGE_BYTES + 1)):
        with pytest.raises(Bad):
            attachment(1, media_type, size_bytes, None)
    check_agent("Claude", 1)
    check_agent("Demo", 0)
    with pytest.raises(Bad, match="Demo"):
        check_agent("Demo", 1)
