"""One turn of Claude Code: what is heard becomes events, in order, ended exactly once. Knows no process and no SDK."""

import asyncio
from collections.abc import Callable

from termal.wire.turns import (
    AnyTurnEvent,
    Notice,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnOutcome,
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
from workers.runtime.claude_tools import EDITING, change_of, kind_of, line_of

_NOT_TOLD = "the agent gave no reason"


class Turn:
    """Events of one prompt. ``prompt_id`` is the id that its result names; ``stopping``: an interrupt was asked for."""

    def __init__(self, prompt_id: str, workdir: str, emit: Callable[[AnyTurnEvent], None]) -> None:
        self.prompt_id = prompt_id
        self.stopping = False
        self.ended = asyncio.Event()
        self._workdir = workdir
        self._emit = emit
        self._message_id = ""
        self._block = 0
        self._streamed: set[str] = set()
        self._unstreamed_count = 0
        self._open_tools: dict[str, ToolCall] = {}

    def tell(self, event: AnyTurnEvent) -> None:
        """Pass on an event that is not part of the agent's own talk; dropped after the end."""
        if not self.ended.is_set():
            self._emit(event)

    def hear(self, heard: Heard) -> None:
        """Take one record that belongs to this turn, the result excepted: `conclude` takes that."""
        if self.ended.is_set():
            return
        match heard:
            case StreamPiece(event=event, nested=False):
                self._hear_piece(event)
            case TextBlock(nested=False, error=None):
                self._hear_text(heard)
            case ThinkingBlock(nested=False):
                item = self._whole_item(heard.message_id)
                if item not in self._streamed and heard.text:
                    self._emit(ThinkingDelta(item, heard.text))
            case ToolCall():
                self._open_tools[heard.id] = heard
                self._emit(ToolStarted(heard.id, kind_of(heard.name), line_of(heard.name, heard.arguments)))
            case ToolResult():
                self._hear_result(heard)
            case SystemNote():
                self._hear_note(heard)

    def conclude(self, result: TurnResult, cost_usd: float | None) -> None:
        """The agent ended the turn; ``cost_usd`` is the price of this turn alone."""
        if self.ended.is_set():
            return
        if result.input_tokens or result.output_tokens or cost_usd:
            self._emit(Usage(result.input_tokens, result.output_tokens, cost_usd))
        if not result.is_error:
            self.end("completed")
        elif self.stopping:
            self.end("interrupted")
        else:
            self.end("failed", result.text or _NOT_TOLD)

    def end(self, outcome: TurnOutcome, detail: str = "") -> None:
        """End the turn now. Later calls do nothing."""
        if self.ended.is_set():
            return
        for item in self._open_tools:
            self._emit(ToolEnded(item, "error"))
        self._emit(TurnEnded(outcome, detail))
        self.ended.set()

    def _hear_piece(self, event: Json) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self._message_id = str((event.get("message") or {}).get("id") or "")
            self._block = 0
        elif kind == "content_block_start":
            self._block = int(event.get("index") or 0)
        elif kind == "content_block_delta":
            self._hear_delta(event.get("delta") or {}, int(event.get("index") or 0))

    def _hear_delta(self, delta: Json, index: int) -> None:
        item = f"{self._message_id}:{index}"
        if delta.get("type") == "text_delta" and delta.get("text"):
            self._streamed.add(item)
            self._emit(TextDelta(item, str(delta["text"])))
        elif delta.get("type") == "thinking_delta" and delta.get("thinking"):
            self._streamed.add(item)
            self._emit(ThinkingDelta(item, str(delta["thinking"])))

    def _hear_text(self, block: TextBlock) -> None:
        item = self._whole_item(block.message_id)
        if block.text or item in self._streamed:
            self._emit(TextDone(item, block.text))

    def _whole_item(self, message_id: str) -> str:
        """A whole block comes before the stop of its stream: it is the block that is open in that message."""
        if message_id == self._message_id:
            return f"{message_id}:{self._block}"
        self._unstreamed_count += 1
        return f"{message_id}:whole-{self._unstreamed_count}"

    def _hear_result(self, result: ToolResult) -> None:
        call = self._open_tools.pop(result.id, None)
        if call is None:
            return
        self._emit(ToolEnded(result.id, "error" if result.is_error else "success", result.text))
        if call.name in EDITING and not result.is_error:
            change = change_of(call, result.structured, self._workdir)
            if change is not None:
                self._emit(change)

    def _hear_note(self, note: SystemNote) -> None:
        if note.kind == "api_retry":
            self._emit(Notice(_retry_text(note.data)))
        elif note.kind == "compact_boundary":
            self._emit(Notice("Claude summarized the earlier conversation to make room."))


def _retry_text(data: Json) -> str:
    status, cause = data.get("error_status"), str(data.get("error") or "error").replace("_", " ")
    seconds = float(data.get("retry_delay_ms") or 0) / 1000
    answer = f"{status}, {cause}" if status else cause
    attempt, limit = data.get("attempt", "?"), data.get("max_retries", "?")
    return f"The model's provider failed ({answer}). Trying again in {seconds:.1f} s, attempt {attempt} of {limit}."
