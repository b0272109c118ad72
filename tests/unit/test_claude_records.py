"""How messages of the Claude SDK are read. The types here have the names and fields of the SDK's, nothing else."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from workers.runtime.claude_messages import (
    Heard,
    StreamPiece,
    SystemNote,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    TurnResult,
)
from workers.runtime.claude_records import COMMAND_CHARS, COMMANDS, commands_of, models_of, records


def made(kind: str, **fields: Any) -> Any:
    return type(kind, (), fields)()


@dataclass
class ResultMessage:
    is_error: bool = False
    session_id: str = "id"
    errors: list[str] | None = None
    result: str | None = None
    api_error_status: int | None = None
    user_message_uuids: list[str] | None = None
    total_cost_usd: float | None = None
    usage: dict[str, int] | None = field(
        default_factory=lambda: {"input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 5}
    )


def result_of(text: str, *, is_error: bool = True) -> list[Heard]:
    return [TurnResult(is_error, text, None, None, 3, 5)]


BLOCKS = [
    made("ThinkingBlock", thinking="hm"),
    made("TextBlock", text="yes"),
    made("ToolUseBlock", id="t", name="Bash", input={"command": "ls"}),
    made("ServerToolUseBlock"),
]
RESULTS = [
    made("ToolResultBlock", tool_use_id="t", content=[{"type": "text", "text": "a"}, {"type": "image"}], is_error=None),
    made("TextBlock", text="[Request interrupted by user]"),
]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (made("StreamEvent", event={"type": "x"}, parent_tool_use_id=None), [StreamPiece({"type": "x"})]),
        (
            made("AssistantMessage", content=BLOCKS, message_id="m", parent_tool_use_id="p", error=None),
            [ThinkingBlock("m", "hm", True), TextBlock("m", "yes", None, True),
             ToolCall("t", "Bash", {"command": "ls"}, True)],
        ),
        (made("UserMessage", content=RESULTS, tool_use_result="text"), [ToolResult("t", "a", False)]),
        (made("UserMessage", content="the program's own words", tool_use_result=None), []),
        (made("SystemMessage", subtype="init", data={}), [SystemNote("init", {})]),
        (ResultMessage(result="done"), result_of("done", is_error=False)),
        (ResultMessage(True, errors=["one", "two"], result="x"), result_of("one; two")),
        (ResultMessage(True, api_error_status=529), result_of("the provider answered 529")),
        (made("TaskStartedMessage"), []),
    ],
    ids=["stream", "answer", "tool result", "injected text", "system", "done", "errors", "status", "unknown"],
)  # fmt: skip
def test_a_message_is_read_by_the_name_of_its_type(message: Any, expected: list[Heard]) -> None:
    assert records(message) == expected


def test_models_without_a_value_are_left_out() -> None:
    info = {"models": [{"value": "opus", "displayName": "Opus", "description": "big"}, {"value": "x"}, {}, None]}
    assert models_of(info) == [("opus", "Opus", "big"), ("x", "x", None)]
    assert models_of({}) == []


def test_the_commands_of_the_program_are_read_within_bounds_and_as_valid_text() -> None:
    long = {"name": "n" * (COMMAND_CHARS + 1), "description": "d\ud800", "argumentHint": None}
    odd = [None, "x", {}, {"name": " "}, {"name": 7}]
    assert commands_of({"commands": [{"name": "fix", "description": "Fixes", "argumentHint": "[f]"}, *odd, long]}) == [
        ("fix", "Fixes", "[f]"),
        ("n" * COMMAND_CHARS, "d?", ""),
    ]
    assert commands_of({}) == []
    assert len(commands_of({"commands": [{"name": "x"}] * (COMMANDS + 1)})) == COMMANDS
