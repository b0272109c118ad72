"""What Claude Code says in a turn, and the events that become of it."""

import pytest

from termal.wire.turns import (
    AnyTurnEvent,
    FileChanged,
    Notice,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Usage,
)
from workers.runtime.claude_messages import (
    Heard,
    Json,
    StreamPiece,
    SystemNote,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    TurnResult,
)
from workers.runtime.claude_turn import Turn

GOOD = TurnResult(False, "fine", ["prompt"], 0.5, 3, 4)
BAD = TurnResult(True, "API Error: 500", ["prompt"], None, 0, 0)


def piece(kind: str, nested: bool = False, **data: object) -> StreamPiece:
    return StreamPiece({"type": kind, **data}, nested)


def text_piece(index: int, text: str) -> StreamPiece:
    return piece("content_block_delta", index=index, delta={"type": "text_delta", "text": text})


def thought_piece(index: int, text: str) -> StreamPiece:
    return piece("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": text})


def begun(message_id: str) -> StreamPiece:
    return piece("message_start", message={"id": message_id})


def block(index: int) -> StreamPiece:
    return piece("content_block_start", index=index)


def heard_as_events(*heard: Heard, workdir: str = "/work") -> list[AnyTurnEvent]:
    events: list[AnyTurnEvent] = []
    turn = Turn("prompt", workdir, events.append)
    for record in heard:
        turn.hear(record)
    return events


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        pytest.param(
            [begun("m"), block(0), text_piece(0, "Hel"), text_piece(0, "lo"), TextBlock("m", "Hello")],
            [TextDelta("m:0", "Hel"), TextDelta("m:0", "lo"), TextDone("m:0", "Hello")],
            id="a whole text belongs to the block that is open in its message",
        ),
        pytest.param(
            [begun("m"), block(0), thought_piece(0, "hm"), ThinkingBlock("m", "hm"), block(1), TextBlock("m", "x")],
            [ThinkingDelta("m:0", "hm"), TextDone("m:1", "x")],
            id="a streamed thought is not said again",
        ),
        pytest.param(
            [ThinkingBlock("n", "hm"), TextBlock("n", "one"), TextBlock("n", "two")],
            [ThinkingDelta("n:whole-1", "hm"), TextDone("n:whole-2", "one"), TextDone("n:whole-3", "two")],
            id="blocks without a stream are items of their own",
        ),
        pytest.param([TextBlock("n", "")], [], id="an empty text that was never streamed says nothing"),
        pytest.param([TextBlock("n", "Error", error="server_error")], [], id="the text of a failure is its result's"),
        pytest.param(
            [
                StreamPiece({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}, nested=True),
                TextBlock("n", "x", nested=True),
                ThinkingBlock("n", "x", nested=True),
            ],
            [],
            id="what a sub-agent says to its caller is not shown",
        ),
        pytest.param(
            [
                piece("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": "{"}),
                piece("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "x"}),
                piece("message_stop"),
                SystemNote("status", {}),
            ],
            [],
            id="what is not known is ignored",
        ),
        pytest.param(
            [SystemNote("api_retry", {"attempt": 1, "max_retries": 2, "retry_delay_ms": 1067, "error_status": 429,
                                      "error": "rate_limit"})],
            [Notice("The model's provider failed (429, rate limit). Trying again in 1.1 s, attempt 1 of 2.")],
            id="a retry is told",
        ),
        pytest.param(
            [ToolCall("t", "Bash", {"command": "ls"}), ToolResult("t", "Exit code 3\nout", is_error=True)],
            [ToolStarted("t", "execute", "ls"), ToolEnded("t", "error", "Exit code 3\nout")],
            id="a command that fails",
        ),
        pytest.param(
            [ToolCall("t", "Read", {"file_path": "/work/a"}), ToolResult("t", "text", is_error=False)],
            [ToolStarted("t", "other", "Read /work/a"), ToolEnded("t", "success", "text")],
            id="another tool",
        ),
        pytest.param([ToolResult("t", "text", is_error=False)], [], id="a result without a call"),
    ],
)  # fmt: skip
def test_records_become_events(heard: list[Heard], expected: list[AnyTurnEvent]) -> None:
    assert heard_as_events(*heard) == expected


PATCH = [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}]


@pytest.mark.parametrize(
    ("structured", "is_error", "expected"),
    [
        ({"filePath": "/work/d/x.py", "structuredPatch": PATCH}, False,
         FileChanged("t/0", "/work/d/x.py", "Edited d/x.py",
                     "--- a/d/x.py\n+++ b/d/x.py\n@@ -1,1 +1,1 @@\n-a\n+b\n", "edit")),
        ({"filePath": "/else/x", "type": "create", "content": "1\n2", "structuredPatch": []}, False,
         FileChanged("t/0", "/else/x", "Created /else/x",
                     "--- /dev/null\n+++ b/else/x\n@@ -0,0 +1,2 @@\n+1\n+2\n", "create")),
        ({"filePath": "/work/x", "structuredPatch": []}, False, None),
        ({"filePath": "/work/x", "structuredPatch": PATCH}, True, None),
        (None, False, None),
    ],
    ids=["an edit", "a new file outside the folder", "nothing changed", "the tool failed", "no account"],
)  # fmt: skip
def test_a_finished_edit_shows_its_change(
    structured: Json | None, is_error: bool, expected: FileChanged | None
) -> None:
    events = heard_as_events(ToolCall("t", "Edit", {"file_path": "x"}), ToolResult("t", "done", is_error, structured))
    assert [event for event in events if isinstance(event, FileChanged)] == ([expected] if expected else [])
    assert events[0] == ToolStarted("t", "edit", "Edit x")


@pytest.mark.parametrize(
    ("result", "stopping", "expected"),
    [
        (GOOD, False, [Usage(3, 4, 0.25), TurnEnded("completed")]),
        (GOOD, True, [Usage(3, 4, 0.25), TurnEnded("completed")]),
        (BAD, True, [Usage(0, 0, 0.25), TurnEnded("interrupted")]),
        (BAD, False, [Usage(0, 0, 0.25), TurnEnded("failed", "API Error: 500")]),
    ],
    ids=["done", "done before the interrupt came", "interrupted", "failed"],
)
def test_a_result_ends_the_turn(result: TurnResult, stopping: bool, expected: list[AnyTurnEvent]) -> None:
    events: list[AnyTurnEvent] = []
    turn = Turn("prompt", "/work", events.append)
    turn.stopping = stopping
    turn.conclude(result, 0.25)
    assert events == expected


def test_a_turn_ends_once_and_closes_the_cards_that_are_open() -> None:
    events: list[AnyTurnEvent] = []
    turn = Turn("prompt", "/work", events.append)
    turn.hear(ToolCall("t", "Bash", {"command": "ls"}))
    turn.end("lost", "gone")
    turn.end("completed")
    turn.conclude(GOOD, None)
    turn.hear(TextBlock("n", "late"))
    turn.tell(Notice("late"))
    assert events[1:] == [ToolEnded("t", "error"), TurnEnded("lost", "gone")]
