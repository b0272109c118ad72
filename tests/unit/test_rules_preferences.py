"""Defaults of new sessions and the list of other daemons."""

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from termal.model.stored import THIS_DAEMON, Preferences, Remote
from termal.rules.preferences import SEEDS, changed, defaults_of
from termal.rules.verdicts import Bad

FRESH = Preferences(remotes=[THIS_DAEMON])
BOX = Remote(id="box", name="Box", transport="ssh", host="box.example", port=22, user="me")


@pytest.mark.parametrize(
    ("values", "agent", "model", "settings"),
    [
        ({}, "Codex", None, {}),
        ({"defaultCodexModel": " gpt-9 "}, "Codex", "gpt-9", {}),
        ({"defaultCodexModel": "DEFAULT"}, "Codex", None, {}),
        ({"defaultCodexModel": "gpt-9"}, "Claude", None, {}),
        ({"defaultOpenCodeModel": "big"}, "OpenCode", "big", {}),
        ({"defaultClaudeApprovalMode": "plan", "defaultClaudeEffort": "max"}, "Claude", None,
         {"claudeApprovalMode": "plan", "claudeEffort": "max"}),
        ({"defaultCodexSandboxMode": "read-only"}, "Codex", None, {"sandboxMode": "read-only"}),
        ({"defaultGeminiModel": "g"}, "Mine", None, {}),
    ],
)  # fmt: skip
def test_a_new_session_begins_with_what_was_stored_for_its_agent(
    values: dict[str, str], agent: str, model: str | None, settings: dict[str, str]
) -> None:
    assert defaults_of(changed(FRESH, values, None, ()), agent, {}) == (model, settings)


def test_the_environment_stands_in_while_nothing_is_stored() -> None:
    environ = dict(zip(SEEDS, ("read-only", "untrusted", "nonsense"), strict=True))
    assert defaults_of(FRESH, "Codex", environ) == (
        None,
        {"sandboxMode": "read-only", "approvalPolicy": "untrusted"},
    )
    stored = changed(FRESH, {"defaultCodexSandboxMode": "danger-full-access"}, None, ())
    assert defaults_of(stored, "Codex", environ)[1]["sandboxMode"] == "danger-full-access"
    assert defaults_of(FRESH, "Claude", environ) == (None, {})


def test_a_stored_default_that_is_no_longer_right_falls_back() -> None:
    stored = replace(FRESH, default_claude_model="-x", default_claude_effort="gone")
    assert defaults_of(stored, "Claude", {}) == (None, {})


@pytest.mark.parametrize(
    "values",
    [
        {"defaultClaudeModel": "-x"},
        {"defaultOpenCodeModel": "a\tb"},
        {"defaultCursorModel": "a" * 201},
        {"defaultGeminiModel": " "},
        {"defaultCodexApprovalPolicy": "always"},
        {"defaultDemoModel": "x"},
    ],
    ids=str,
)
def test_a_default_that_cannot_be_right_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(Bad):
        changed(FRESH, values, None, ())


@pytest.mark.parametrize(
    "fields",
    [
        {"id": ""},
        {"id": "a b"},
        {"id": "a/b"},
        {"id": "a" * 65},
        {"transport": "local"},
        {"host": UNSET},
        {"host": ""},
        {"host": "-oProxyCommand=x"},
        {"host": "a b"},
        {"host": "user@box"},
        {"user": "-l"},
        {"port": 0},
        {"port": 65536},
        {"name": "a" * 256},
    ],
    ids=str,
)
def test_a_remote_that_cannot_be_right_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Bad):
        changed(FRESH, {}, [replace(BOX, **fields)], ())


def test_this_daemon_is_always_there_and_first() -> None:
    assert changed(FRESH, {}, [BOX], ()).remotes == [THIS_DAEMON, BOX]
    off = replace(THIS_DAEMON, enabled=False, name="X")
    assert changed(FRESH, {}, [BOX, off], ()).remotes == [THIS_DAEMON, BOX]
    assert changed(FRESH, {}, [replace(BOX, name=" ")], ()).remotes[1].name == "box"


def test_two_remotes_never_have_one_id_and_one_in_use_stays() -> None:
    with pytest.raises(Bad) as caught:
        changed(FRESH, {}, [BOX, BOX], ())
    assert caught.value.reason == "duplicateRemote"
    with pytest.raises(Bad) as caught:
        changed(changed(FRESH, {}, [BOX], ()), {}, [], {"box", "local"})
    assert caught.value.reason == "remoteInUse"
    with pytest.raises(Bad):
        changed(FRESH, {}, [replace(BOX, id=f"box{number}") for number in range(65)], ())
