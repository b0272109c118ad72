"""What Claude Code says, as plain records: the one vocabulary between its SDK and the rest of the adapter."""

from typing import Any

import msgspec

Json = dict[str, Any]


class Record(msgspec.Struct, frozen=True, tag=True):
    """Base of the records. ``nested``: said by a sub-agent, not by the conversation itself."""


class StreamPiece(Record, frozen=True):
    """One raw event of the provider's answer stream."""

    event: Json
    nested: bool = False


class TextBlock(Record, frozen=True):
    """A whole block of text; it repeats what its stream pieces said. ``error`` names a failure that the text words."""

    message_id: str
    text: str
    error: str | None = None
    nested: bool = False


class ThinkingBlock(Record, frozen=True):
    message_id: str
    text: str
    nested: bool = False


class ToolCall(Record, frozen=True):
    id: str
    name: str
    arguments: Json
    nested: bool = False


class ToolResult(Record, frozen=True):
    """``structured`` is the tool's own account of what it did, where it gives one."""

    id: str
    text: str
    is_error: bool
    structured: Json | None = None


class SystemNote(Record, frozen=True):
    """Progress, retries, compaction: ``kind`` says which."""

    kind: str
    data: Json


class TurnResult(Record, frozen=True):
    """The end of a turn. ``answered`` lists the prompts that it answers, None when the program does not say.

    ``total_cost_usd`` counts from the start of the process.
    """

    is_error: bool
    text: str
    answered: list[str] | None
    total_cost_usd: float | None
    input_tokens: int
    output_tokens: int


Heard = StreamPiece | TextBlock | ThinkingBlock | ToolCall | ToolResult | SystemNote | TurnResult
