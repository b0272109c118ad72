"""What the updates of an ACP agent become: items, cards, diffs, and the habits of single agents."""

from typing import Any

import pytest

from termal.config import AgentConfig
from termal.wire.turns import (
    AnyTurnEvent,
    FileChanged,
    SessionSpec,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ToolEnded,
    ToolOutput,
    ToolStarted,
)
from workers.runtime.acp_agents import AcpAgent, acp_agent
from workers.runtime.acp_updates import FINAL_TEXT_CHARACTERS, Updates

SPEC = SessionSpec("session-1", "Any", "/work", "auto")


def _agent(name: str = "Any") -> AcpAgent:
    return acp_agent(name, AgentConfig(), SPEC, {})


def _events(*updates: dict[str, Any], agent: str = "Any", status: Any = "success") -> list[AnyTurnEvent]:
    events: list[AnyTurnEvent] = []
    unknown: list[str] = []
    translator = Updates(_agent(agent), events.append, folder="/work", on_unknown=unknown.append)
    for update in updates:
        translator.take(update)
    translator.close(status)
    assert unknown == [update["sessionUpdate"] for update in updates if update["sessionUpdate"] == "new_kind"]
    return events


def said(text: str, message: str | None = None) -> dict[str, Any]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return update if message is None else {**update, "messageId": message}


def thought(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}}


def called(number: str, **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call", "toolCallId": number, **fields}


def went_on(number: str, **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": number, **fields}


def output(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def diff(path: str, old: str | None, new: str) -> list[dict[str, Any]]:
    return [{"type": "diff", "path": path, "oldText": old, "newText": new}]


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        ([said("a"), said("b")], [TextDelta("text-1", "a"), TextDelta("text-1", "b"), TextDone("text-1", "ab")]),
        (
            [said("a", "m1"), said("b", "m2")],
            [TextDelta("text-1", "a"), TextDone("text-1", "a"), TextDelta("text-2", "b"), TextDone("text-2", "b")],
        ),
        (
            [said("a"), thought("hm"), said("b")],
            [
                TextDelta("text-1", "a"),
                TextDone("text-1", "a"),
                ThinkingDelta("thinking-2", "hm"),
                TextDelta("text-3", "b"),
                TextDone("text-3", "b"),
            ],
        ),
        ([said("")], []),
        (
            [
                {"sessionUpdate": "plan", "entries": []},
                {"sessionUpdate": "user_message_chunk"},
                {"sessionUpdate": "new_kind"},
            ],
            [],
        ),
        ([{"sessionUpdate": "agent_message_chunk", "content": {"type": "image"}}], []),
        (
            [{"sessionUpdate": "agent_message_chunk", "content": {"type": "resource_link", "uri": "file:///a"}}],
            [TextDelta("text-1", "file:///a"), TextDone("text-1", "file:///a")],
        ),
    ],
    ids=["one text", "two messages", "thought between", "empty", "ignored", "image", "link"],
)
def test_texts_become_items(updates: list[dict[str, Any]], expected: list[AnyTurnEvent]) -> None:
    assert _events(*updates) == expected


def test_a_very_long_text_is_not_said_again_at_its_end() -> None:
    pieces = ["x" * (FINAL_TEXT_CHARACTERS // 2)] * 3
    events = _events(*(said(piece) for piece in pieces))
    assert [type(event) for event in events] == [TextDelta] * 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Reading** the file", ThinkingDelta("thinking-1", "the file", "Reading")),
        ("**Reading**\nthe file", ThinkingDelta("thinking-1", "the file", "Reading")),
        ("**** no subject", ThinkingDelta("thinking-1", "no subject")),
        ("plain", ThinkingDelta("thinking-1", "plain")),
    ],
    ids=["same line", "own line", "empty", "none"],
)
def test_the_subject_of_a_thought_becomes_its_title(text: str, expected: ThinkingDelta) -> None:
    assert _events(thought(text), agent="Gemini") == [expected]


def test_a_command_shows_its_cumulative_output_and_its_end() -> None:
    assert _events(
        called("1", kind="execute", status="pending", title="bash", rawInput={}),
        went_on("1", rawInput={"command": "make all"}),
        went_on("1", content=output("a\n")),
        went_on("1", content=output("a\n")),
        went_on("1", content=output("a\nb\n"), status="completed"),
        went_on("1", content=output("later"), status="failed"),
    ) == [
        ToolStarted("tool:1", "execute", "bash"),
        ToolStarted("tool:1", "execute", "make all"),
        ToolOutput("tool:1", "a\n", append=False),
        ToolOutput("tool:1", "a\nb\n", append=False),
        ToolEnded("tool:1", "success"),
    ]


@pytest.mark.parametrize(
    "raw",
    [{"metadata": {"exit": 3}}, {"exitCode": 3}, {"exit_code": 3}],
    ids=["metadata", "camel", "snake"],
)
def test_a_completed_command_with_an_exit_status_of_its_own_is_an_error(raw: dict[str, Any]) -> None:
    events = _events(called("1", kind="execute", title="make"), went_on("1", status="completed", rawOutput=raw))
    assert events[-1] == ToolEnded("tool:1", "error", "exit status 3")


def test_the_output_of_a_silent_agent_is_explained() -> None:
    events = _events(called("1", kind="execute", title="make"), went_on("1", status="completed"), agent="Gemini")
    assert events[-1] == ToolEnded("tool:1", "success", "Gemini does not share the output of its commands.")


@pytest.mark.parametrize("status", ["success", "error"])
def test_the_end_of_the_turn_closes_open_cards(status: str) -> None:
    events = _events(called("1", kind="read", title="Read a.txt"), status=status)
    assert events == [ToolStarted("tool:1", "other", "Read a.txt"), ToolEnded("tool:1", status)]  # type: ignore[arg-type]


def test_an_update_of_an_unknown_call_makes_its_card() -> None:
    assert _events(went_on("9", title="search", status="completed"))[0] == ToolStarted("tool:9", "other", "search")


def test_text_that_goes_on_beside_a_running_command_stays_one_item() -> None:
    events = _events(called("1", kind="execute", title="x"), said("a"), went_on("1", content=output("o")), said("b"))
    assert [event for event in events if isinstance(event, TextDone)] == [TextDone("text-1", "ab")]


# ------------------------------------------------------------------------------ diffs


def test_an_edit_is_shown_when_it_is_done_with_the_whole_file_that_was_asked_about() -> None:
    events = _events(
        called("1", kind="edit", title="Edit", content=diff("/work/src/a.txt", "one\ntwo\n", "one\n2\n")),
        went_on("1", content=diff("/work/src/a.txt", "two", "2"), status="completed"),
    )
    assert events == [
        ToolStarted("tool:1", "edit", "Edit"),
        ToolEnded("tool:1", "success"),
        FileChanged(
            "tool:1/0",
            "src/a.txt",
            "Edited src/a.txt",
            "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
            "edit",
        ),
    ]


def test_a_new_file_is_a_creation() -> None:
    events = _events(called("1", kind="edit", content=diff("b.txt", None, "x"), status="completed"))
    assert events[-1] == FileChanged(
        "tool:1/0",
        "b.txt",
        "Created b.txt",
        "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
        "create",
    )


@pytest.mark.parametrize(
    "update",
    [
        went_on("1", status="failed"),
        went_on("1", status="completed", content=diff("a.txt", "same", "same")),
    ],
    ids=["failed", "nothing changed"],
)
def test_an_edit_that_changed_nothing_is_not_shown(update: dict[str, Any]) -> None:
    start = called("1", kind="edit", content=diff("a.txt", "same", "same" if "content" in update else "new"))
    assert not [event for event in _events(start, update) if isinstance(event, FileChanged)]


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": ["a"]},
        {"sessionUpdate": "tool_call"},
        {"sessionUpdate": "tool_call", "toolCallId": 7, "content": "x", "rawInput": [], "rawOutput": 3, "kind": {}},
        {"sessionUpdate": "tool_call", "toolCallId": "1", "content": [None, {"type": "content"}, {"type": "diff"}]},
        {"sessionUpdate": "tool_call", "toolCallId": "1", "kind": "execute", "rawInput": {"command": ["ls", "a b"]}},
    ],
)
def test_an_update_of_any_shape_is_survived(update: dict[str, Any]) -> None:
    assert _events(update) is not None
