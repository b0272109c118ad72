"""The shipped command for a review by two agents: its text against the tools that it names."""

import re
from pathlib import Path

import pytest

from termal.bridge.schemas import SCHEMAS
from termal.bridge.tools import WAIT_TOOL
from termal.rules.slash_command import read_template, resolve

TEMPLATE = Path(__file__).resolve().parents[2] / "deploy/commands/review-changes.md"
TEXT = TEMPLATE.read_text("utf-8")
STEPS = dict(re.findall(r"^(\d)\. (.*?)(?=^\d\. |\Z)", TEXT, re.MULTILINE | re.DOTALL))


def test_it_can_be_read_as_a_command_and_takes_what_to_look_at() -> None:
    resolved = resolve("review-changes", read_template(TEXT), "Mind the parser.", None)
    assert resolved.expanded.startswith("Review the uncommitted changes")
    assert "Mind the parser." in resolved.expanded
    assert "$ARGUMENTS" not in resolved.expanded


def test_the_steps_come_in_their_order() -> None:
    assert list(STEPS) == ["1", "2", "3", "4", "5"]
    words = [["offered", "missing"], ["twice"], ["once", "end your turn"], ["resumed", "merge"], ["bugs", "from here"]]
    for step, expected in zip(STEPS.values(), words, strict=True):
        assert [word for word in expected if word not in step] == []


def test_only_tools_that_exist_and_none_that_polls_are_named() -> None:
    named = set(re.findall(r"termal_\w+", TEXT))
    assert named == {"termal_spawn_session", "termal_resume_after_delegations"} <= set(SCHEMAS)
    assert WAIT_TOOL not in named
    assert set(re.findall(r"`(termal_\w+)`", STEPS["1"])) == named


def test_what_a_reviewer_is_spawned_with_is_what_the_tool_takes() -> None:
    fields = SCHEMAS["termal_spawn_session"]["properties"]
    agents = re.findall(r"agent `(\w+)`", STEPS["2"])
    assert sorted(agents) == ["Claude", "Codex"]
    assert set(agents) <= set(fields["agent"]["enum"])
    assert re.findall(r"mode `(\w+)`", STEPS["2"]) == ["reviewer"]
    assert "reviewer" in fields["mode"]["enum"]
    assert re.findall(r"writePolicy `(\w+)`", STEPS["2"]) == ["readOnly"]
    assert re.findall(r"mode `(\w+)`", STEPS["3"]) == ["all"]
    assert "all" in SCHEMAS["termal_resume_after_delegations"]["properties"]["mode"]["enum"]


@pytest.mark.parametrize("way", ["raw HTTP", "shell loop", "agents of your own", "session logs"])
def test_every_way_round_is_ruled_out_by_name(way: str) -> None:
    assert way in STEPS["1"]
