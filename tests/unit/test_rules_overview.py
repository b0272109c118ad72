"""The byte per message and how a stored map takes changes."""

from typing import Any

import pytest

from termal.model.message import (
    Approval,
    CodexAppRequest,
    Command,
    Diff,
    FileChanges,
    Message,
    ParallelAgent,
    ParallelAgents,
    Text,
    Thinking,
    UserInputRequest,
)
from termal.rules.overview import USER_BIT, BadOverview, byte_of, kind_of, spliced

BASE: dict[str, Any] = {"id": "m", "timestamp": "now", "author": "assistant"}


def approval(decision: Any) -> Approval:
    return Approval(**BASE, title="t", command="c", detail="", decision=decision)


def command(status: Any) -> Command:
    return Command(**BASE, command="c", output="", status=status)


def agent(status: Any) -> ParallelAgents:
    return ParallelAgents(**BASE, agents=[ParallelAgent(id="a", source="tool", status=status, title="t")])


@pytest.mark.parametrize(
    ("message", "byte"),
    [
        pytest.param(Text(**BASE, text="x"), 0x00, id="assistant-text"),
        pytest.param(Text(**{**BASE, "author": "you"}, text="x"), 0x04, id="user-text"),
        pytest.param(Thinking(**BASE, title="t", lines=[]), 0x00, id="thinking"),
        pytest.param(command("running"), 0x01, id="running-command"),
        pytest.param(command("success"), 0x01, id="command"),
        pytest.param(command("error"), 0x03, id="failed-command"),
        pytest.param(Diff(**BASE, file_path="f", summary="s", diff="d", change_type="edit"), 0x02, id="diff"),
        pytest.param(FileChanges(**BASE, title="t", files=[]), 0x02, id="file-changes"),
        pytest.param(approval("pending"), 0x00, id="open-approval"),
        pytest.param(approval("accepted"), 0x00, id="accepted-approval"),
        pytest.param(approval("rejected"), 0x03, id="rejected-approval"),
        pytest.param(approval("interrupted"), 0x03, id="interrupted-approval"),
        pytest.param(approval("canceled"), 0x03, id="canceled-approval"),
        pytest.param(
            UserInputRequest(**BASE, title="t", detail="", questions=[], state="canceled"), 0x03, id="canceled-input"
        ),
        pytest.param(
            CodexAppRequest(**BASE, title="t", detail="", method="m", params={}, state="submitted"), 0x00, id="answered"
        ),
        pytest.param(agent("running"), 0x00, id="agents"),
        pytest.param(agent("error"), 0x03, id="failed-agent"),
    ],
)
def test_each_message_has_one_byte(message: Message, byte: int) -> None:
    assert byte_of(message) == byte
    assert byte == kind_of(message) | (USER_BIT if message.author == "you" else 0)


def test_changes_are_put_in_place_and_appended() -> None:
    assert spliced(b"\0\1\2", {1: 3, 3: 4}, 4) == b"\0\3\2\4"
    assert spliced(b"", {0: 4, 1: 0}, 2) == b"\4\0"


@pytest.mark.parametrize(
    ("stored", "changes", "count"),
    [
        pytest.param(b"", {40: 4}, 41, id="hole"),
        pytest.param(b"\0\0\0", {1: 1}, 4, id="too-short"),
        pytest.param(b"\0\0\0", {1: 1}, 2, id="too-long"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(stored: bytes, changes: dict[int, int], count: int) -> None:
    with pytest.raises(BadOverview):
        spliced(stored, changes, count)
