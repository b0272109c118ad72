"""Reads what an agent asks of its model: the last user text, the round of tool results, the offered tools.

Knows four request formats; decides nothing about the answer.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal

Json = dict[str, Any]
Format = Literal["anthropic", "responses", "chat", "gemini"]

INJECTED = re.compile(
    r"<(system-reminder|environment_context|session_context|user_instructions"
    r"|permissions instructions|skills_instructions)>.*?</\1>",
    re.DOTALL,
)
"""Context that agents put into user messages by themselves."""
_FORMAT_MARKS: tuple[tuple[Format, str], ...] = (
    ("anthropic", "/messages"),
    ("responses", "/responses"),
    ("chat", "/chat/completions"),
    ("gemini", "enerateContent"),
)


def format_of(path: str) -> Format | None:
    """The format that a request's path stands for, None when it asks for no answer of a model."""
    return next((name for name, mark in _FORMAT_MARKS if mark in path), None)


class Ask:
    """One request to the model. ``turn`` counts the rounds of tool results since the last user text."""

    def __init__(self, format_name: Format, path: str, body: Json) -> None:
        self.format: Format = format_name
        self.path = path
        self.body = body
        self.stream = bool(body.get("stream")) or "streamGenerateContent" in path
        self.user = ""
        self.turn = 0
        self.tools: list[str] = []
        named = re.search(r"models/([^:/]+):", path)
        self.model: str = body.get("model") or (named[1] if named else "?")
        readers = {
            "anthropic": self._read_anthropic,
            "responses": self._read_responses,
            "chat": self._read_chat,
            "gemini": self._read_gemini,
        }
        readers[format_name](body)

    def tool_name(self, wanted: str | dict[str, str]) -> str:
        """The name to call: ``~end`` is the offered tool with that ending, a dict chooses by format."""
        if isinstance(wanted, dict):
            wanted = wanted.get(self.format) or wanted.get("default", "?")
        if not wanted.startswith("~"):
            return wanted
        return next((tool for tool in self.tools if tool.endswith(wanted[1:])), wanted[1:])

    def wanted_schema(self) -> Json | None:
        """The JSON schema that the answer must have, None when plain text will do."""
        config = self.body.get("generationConfig") or {}
        if "json" in str(config.get("responseMimeType")):
            return config.get("responseJsonSchema") or config.get("responseSchema") or {}
        for form in (
            (self.body.get("text") or {}).get("format"),
            self.body.get("response_format"),
            (self.body.get("output_config") or {}).get("format"),
        ):
            if form and "json" in str(form.get("type")):
                return form.get("schema") or (form.get("json_schema") or {}).get("schema") or {}
        return None

    def _read_anthropic(self, body: Json) -> None:
        self.tools = [_tool_name(tool) for tool in body.get("tools") or []]
        for message in body.get("messages") or []:
            blocks = message.get("content")
            results = isinstance(blocks, list) and any(block.get("type") == "tool_result" for block in blocks)
            if results:
                self.turn += 1
            elif message.get("role") == "user":
                self._user_said(_spoken(blocks))

    def _read_responses(self, body: Json) -> None:
        items = body.get("input") or []
        if isinstance(items, str):
            items = [{"type": "message", "role": "user", "content": items}]
        offered = list(body.get("tools") or [])
        for item in items:  # some models get their tools as an input item instead
            if item.get("type") == "additional_tools":
                offered += item.get("tools") or []
        for tool in offered:
            if tool.get("type") == "namespace":  # the tools of one MCP server come grouped
                self.tools += [f"{tool['name']}/{_tool_name(inner)}" for inner in tool.get("tools") or []]
            else:
                self.tools.append(_tool_name(tool))
        self._read_rounds((item, str(item.get("type", "")).endswith("_output")) for item in items)

    def _read_chat(self, body: Json) -> None:
        self.tools = [_tool_name(tool) for tool in body.get("tools") or []]
        self._read_rounds((message, message.get("role") == "tool") for message in body.get("messages") or [])

    def _read_rounds(self, items: Iterable[tuple[Json, bool]]) -> None:
        """Neighbouring results are one round."""
        in_results = False
        for item, is_result in items:
            if is_result and not in_results:
                self.turn += 1
            elif item.get("role") == "user":
                self._user_said(_spoken(item.get("content")))
            in_results = is_result

    def _read_gemini(self, body: Json) -> None:
        for tool in body.get("tools") or []:
            self.tools += [_tool_name(function) for function in tool.get("functionDeclarations") or []]
        for content in body.get("contents") or []:
            parts = content.get("parts") or []
            if any("functionResponse" in part for part in parts):
                self.turn += 1
            elif content.get("role", "user") == "user":
                self._user_said(_spoken(parts))

    def _user_said(self, text: str) -> None:
        if text:
            self.user = text
            self.turn = 0


def smallest_value(schema: Json) -> object:
    """The smallest value of a JSON schema, good enough for an agent's side questions."""
    if "enum" in schema:
        first: object = schema["enum"][0]
        return first
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return smallest_value(schema[key][0])
    kind = str(schema.get("type", "object")).lower()
    if kind == "object":
        return {name: smallest_value(inner) for name, inner in (schema.get("properties") or {}).items()}
    simple: dict[str, object] = {"array": [], "string": "x", "boolean": False, "null": None}
    return simple.get(kind, 1)


def _texts(content: str | list[Json] | None) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [
        block.get("text", "")
        for block in content or []
        if block.get("type") in ("text", "input_text") or ("type" not in block and "text" in block)
    ]


def _spoken(content: str | list[Json] | None) -> str:
    """The user's own words in a message: injected context taken out."""
    return INJECTED.sub("", "\n".join(_texts(content))).strip()


def _tool_name(tool: Json) -> str:
    name = tool.get("name") or (tool.get("function") or {}).get("name") or tool.get("type", "?")
    return str(name)
