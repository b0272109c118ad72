"""The line that lists show, for each kind of message."""

from typing import Any

import pytest

from termal.model.message import (
    Approval,
    Attachment,
    Command,
    Diff,
    FileChanges,
    Markdown,
    Message,
    ParallelAgent,
    ParallelAgents,
    SubagentResult,
    Text,
    Thinking,
)
from termal.rules.preview import activity, one_line, preview_of, settled

BASE: dict[str, Any] = {"id": "message-1", "timestamp": "now", "author": "assistant"}
IMAGE = Attachment(byte_size=1, file_name="a.png", media_type="image/png")


def agents(*states: Any) -> ParallelAgents:
    rows = [ParallelAgent(id=str(n), source="tool", status=state, title="t") for n, state in enumerate(states)]
    return ParallelAgents(**BASE, agents=rows)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(Text(**BASE, text="\n  first\tline \nsecond"), "first line", id="text-first-line"),
        pytest.param(Text(**BASE, text="x" * 88), "x" * 88, id="text-exactly-88"),
        pytest.param(Text(**BASE, text="x" * 89), "x" * 88 + "...", id="text-89-is-cut"),
        pytest.param(Text(**BASE, text=""), "Waiting", id="text-empty"),
        pytest.param(Text(**BASE, text="", attachments=[IMAGE]), "1 image attached", id="one-image"),
        pytest.param(Text(**BASE, text="", attachments=[IMAGE, IMAGE]), "2 images attached", id="images"),
        pytest.param(Thinking(**BASE, title="Plan", lines=["a"]), "Plan", id="thinking"),
        pytest.param(Markdown(**BASE, title="Notes", markdown="# x"), "Notes", id="markdown"),
        pytest.param(Command(**BASE, command="ls -l", output="", status="running"), "Running ls -l", id="running"),
        pytest.param(Command(**BASE, command="ls", output="a\nb", status="success"), "a", id="output"),
        pytest.param(Command(**BASE, command="ls", output="", status="success"), "Done: ls", id="done"),
        pytest.param(Command(**BASE, command="ls", output=" ", status="error"), "Failed: ls", id="failed"),
        pytest.param(
            Diff(**BASE, file_path="a.py", summary="Edited a.py", diff="+", change_type="edit"),
            "Edited a.py",
            id="diff",
        ),
        pytest.param(
            Approval(**BASE, title="Run ls?", command="ls", detail="", decision="pending"), "Run ls?", id="approval"
        ),
        pytest.param(
            Approval(**BASE, title=" ", command="ls", detail="", decision="pending"),
            "Needs approval",
            id="approval-without-title",
        ),
        pytest.param(FileChanges(**BASE, title="2 files", files=[]), None, id="file-changes-leave-it"),
        pytest.param(SubagentResult(**BASE, title="t", summary="s"), None, id="subagent-leaves-it"),
        pytest.param(agents("running"), "1 agent running", id="one-agent"),
        pytest.param(agents("running", "initializing", "completed"), "2 agents running", id="agents"),
        pytest.param(agents("completed", "completed"), "2 agents done", id="agents-done"),
        pytest.param(agents("completed", "error"), "2 agents done, 1 failed", id="agents-failed"),
    ],
)
def test_each_kind_of_message_has_its_line(message: Message, expected: str | None) -> None:
    assert preview_of(message) == expected


def test_more_text_cannot_change_a_settled_line() -> None:
    for text in ("", "one", "x" * 88, "one\n", "  \n", "x" * 90, " " * 5000):
        if settled(text):
            assert one_line(text) == one_line(text + "yyy\nzzz")


def test_an_activity_is_one_line_of_at_most_160_characters() -> None:
    assert activity("a\n\n b\tc ") == "a b c"
    assert activity("y" * 200) == "y" * 159 + "…"
    assert len(activity("y" * 160)) == 160
