"""Turns messages of the Claude SDK into records. Knows them by the names of their types, so that the SDK is imported in
one place alone; a message of an unknown type becomes nothing."""

from collections.abc import Callable
from typing import Any

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

COMMANDS = 500
COMMAND_CHARS = 1000
_READ_TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def records(message: Any) -> list[Heard]:
    """What ``message`` says, in its order."""
    reader = _READERS.get(type(message).__name__)
    return reader(message) if reader is not None else []


def models_of(server_info: Json) -> list[tuple[str, str, str | None]]:
    """The models that the program offers: value, label, description."""
    return [
        (str(model["value"]), str(model.get("displayName") or model["value"]), model.get("description"))
        for model in server_info.get("models") or []
        if isinstance(model, dict) and model.get("value")
    ]


def commands_of(server_info: Json) -> list[tuple[str, str, str]]:
    """The slash commands that the program knows: name, description, argument hint; a bounded part of each."""
    found = [
        tuple(_words(command.get(key)) for key in ("name", "description", "argumentHint"))
        for command in server_info.get("commands") or []
        if isinstance(command, dict)
    ]
    return [(name, description, hint) for name, description, hint in found if name][:COMMANDS]


def _words(text: Any) -> str:
    return text.encode("utf-8", "replace").decode().strip()[:COMMAND_CHARS] if isinstance(text, str) else ""


def _stream_event(message: Any) -> list[Heard]:
    return [StreamPiece(message.event, message.parent_tool_use_id is not None)]


def _assistant(message: Any) -> list[Heard]:
    nested = message.parent_tool_use_id is not None
    message_id = message.message_id or ""
    found: list[Heard] = []
    for block in message.content:
        kind = type(block).__name__
        if kind == "TextBlock":
            found.append(TextBlock(message_id, block.text, message.error, nested))
        elif kind == "ThinkingBlock":
            found.append(ThinkingBlock(message_id, block.thinking, nested))
        elif kind == "ToolUseBlock":
            found.append(ToolCall(block.id, block.name, block.input, nested))
    return found


def _user(message: Any) -> list[Heard]:
    """Results of tools. Text in here was put by the program, not typed by the user: it is never shown."""
    blocks = message.content if isinstance(message.content, list) else []
    structured = message.tool_use_result if isinstance(message.tool_use_result, dict) else None
    return [
        ToolResult(block.tool_use_id, _text(block.content), bool(block.is_error), structured)
        for block in blocks
        if type(block).__name__ == "ToolResultBlock"
    ]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
    return str(content or "")


def _system(message: Any) -> list[Heard]:
    return [SystemNote(message.subtype, message.data)]


def _result(message: Any) -> list[Heard]:
    usage = message.usage or {}
    text = "; ".join(message.errors or []) or message.result or ""
    if not text and message.api_error_status:
        text = f"the provider answered {message.api_error_status}"
    return [
        TurnResult(
            is_error=message.is_error,
            text=text,
            answered=message.user_message_uuids,
            total_cost_usd=message.total_cost_usd,
            input_tokens=sum(int(usage.get(name) or 0) for name in _READ_TOKENS),
            output_tokens=int(usage.get("output_tokens") or 0),
        )
    ]


_READERS: dict[str, Callable[[Any], list[Heard]]] = {
    "StreamEvent": _stream_event,
    "AssistantMessage": _assistant,
    "UserMessage": _user,
    "SystemMessage": _system,
    "ResultMessage": _result,
}
