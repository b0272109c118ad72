"""The updates of one ACP turn, turned into the events that state knows. Pure: knows no process, sends nothing."""

import re
from collections.abc import Callable
from typing import Any, Literal

from termal.wire.turns import (
    AnyTurnEvent,
    TextDelta,
    TextDone,
    ThinkingDelta,
    Usage,
)
from workers.runtime.acp_agents import AcpAgent
from workers.runtime.acp_tools import ToolCall

FINAL_TEXT_CHARACTERS = 256 << 10
"""A longer text is not said again as a whole: its pieces arrive complete and in order, and the copy costs memory."""
IGNORED = frozenset(
    {
        "plan",
        "user_message_chunk",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    }
)
_SUBJECT = re.compile(r"\s*\*\*(.*?)\*\*\s*", re.DOTALL)


class Updates:
    """The items of one turn. `close` ends what is still open; nothing may come after it."""

    def __init__(
        self,
        agent: AcpAgent,
        emit: Callable[[AnyTurnEvent], None],
        *,
        folder: str,
        on_unknown: Callable[[str], None],
    ) -> None:
        self._agent = agent
        self._folder = folder
        self._emit = emit
        self._on_unknown = on_unknown
        self._items = 0
        self._open: tuple[str, str, str | None] | None = None
        self._text: list[str] = []
        self._text_characters = 0
        self._tools: dict[str, ToolCall] = {}

    def take(self, update: dict[str, Any]) -> None:
        """One ``session/update``."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            self._chunk("text", update)
        elif kind == "agent_thought_chunk":
            self._chunk("thinking", update)
        elif kind in ("tool_call", "tool_call_update"):
            self.tool(update)
        elif kind not in IGNORED:
            self._on_unknown(str(kind))

    def tool(self, fields: dict[str, Any]) -> ToolCall:
        """The card of the tool call that ``fields`` speak of, made now if it was not known."""
        number = str(fields.get("toolCallId") or "")
        call = self._tools.get(number)
        if call is None:
            self._close_text()
            agent = self._agent
            call = ToolCall(
                f"tool:{number}", self._emit, agent=agent.name, silent=agent.silent_commands, folder=self._folder
            )
            self._tools[number] = call
        call.update(fields)
        return call

    def pause_text(self) -> None:
        """What is said next is a new item: something else was shown in between."""
        self._close_text()

    def close(self, status: Literal["success", "error"]) -> None:
        """The turn is over: a tool call without an end of its own gets this one."""
        self._close_text()
        for call in self._tools.values():
            call.end(status)

    def _chunk(self, kind: Literal["text", "thinking"], update: dict[str, Any]) -> None:
        text = _content_text(update.get("content"))
        if not text:
            return
        message = update.get("messageId")
        message = message if isinstance(message, str) else None
        title = ""
        if kind == "thinking" and self._agent.subject_thoughts:
            found = _SUBJECT.match(text)
            if found is not None:
                self._close_text()
                title, text = found[1].strip(), text[found.end() :]
        if self._open is None or self._open[0] != kind or self._open[2] != message:
            self._close_text()
            self._items += 1
            self._open = (kind, f"{kind}-{self._items}", message)
        item = self._open[1]
        if kind == "thinking":
            self._emit(ThinkingDelta(item, text, title))
            return
        if self._text_characters <= FINAL_TEXT_CHARACTERS:
            self._text.append(text)
        self._text_characters += len(text)
        self._emit(TextDelta(item, text))

    def _close_text(self) -> None:
        if self._open is not None and self._open[0] == "text" and self._text_characters <= FINAL_TEXT_CHARACTERS:
            self._emit(TextDone(self._open[1], "".join(self._text)))
        self._open = None
        self._text = []
        self._text_characters = 0


def usage_of(answer: dict[str, Any]) -> Usage | None:
    """The tokens that the answer to a prompt reports, in either of the two shapes that agents use."""
    meta = answer.get("_meta")
    quota = meta.get("quota") if isinstance(meta, dict) else None
    counts = quota.get("token_count") if isinstance(quota, dict) else None
    for record, read, written in (
        (answer.get("usage"), "inputTokens", "outputTokens"),
        (counts, "input_tokens", "output_tokens"),
    ):
        if isinstance(record, dict):
            tokens = record.get(read), record.get(written)
            if isinstance(tokens[0], int) and isinstance(tokens[1], int):
                return Usage(tokens[0], tokens[1])
    return None


def _content_text(content: object) -> str:
    if not isinstance(content, dict):
        return ""
    text = content.get("text")
    if isinstance(text, str):
        return text
    uri = content.get("uri")
    return uri if isinstance(uri, str) else ""
