"""One turn of a Codex thread: its notifications turned into the events that state knows. Ends exactly once.

Knows no process. A turn that was interrupted may end later than Codex says: its commands are cleaned up first.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

from termal.wire.turns import (
    AnyTurnEvent,
    Notice,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnOutcome,
    Usage,
)
from workers.runtime import codex_items as items
from workers.runtime.codex_requests import Requests

Json = dict[str, Any]
IGNORED = frozenset(
    {
        "item/commandExecution/terminalInteraction",
        "item/fileChange/outputDelta",
        "item/fileChange/patchUpdated",
        "item/mcpToolCall/progress",
        "item/plan/delta",
        "item/reasoning/summaryPartAdded",
        "turn/diff/updated",
        "turn/moderationMetadata",
        "turn/started",
        "hook/started",
        "hook/completed",
        "model/safetyBuffering/updated",
        "model/verification",
    }
)
_SIGN_IN = " Sign in with `codex login` in a terminal."
_UNAUTHORIZED = 401


class CodexTurn:
    """``id`` is Codex's own, empty until it told it. ``stopping``: an interrupt is under way."""

    def __init__(self, emit: Callable[[AnyTurnEvent], None], *, folder: str, unknown: Callable[[str], None]) -> None:
        self.id = ""
        self.stopping = False
        self.requests = Requests()
        self.named = asyncio.Event()
        self.completed = asyncio.Event()
        self.ended = asyncio.Event()
        self._emit = emit
        self._folder = folder
        self._unknown = unknown
        self._tools: dict[str, Json] = {}
        self._open: set[str] = set()
        self._answered: set[str] = set()
        self._tool_ended = asyncio.Event()
        self._thoughts: dict[str, int] = {}
        self._outcome: tuple[TurnOutcome, str] = ("completed", "")
        self._usage: Usage | None = None
        self._plan = False

    def name(self, number: str) -> None:
        """Codex told the id of the turn."""
        self.id = self.id or number
        self.named.set()

    def tell(self, event: AnyTurnEvent) -> None:
        if not self.ended.is_set():
            self._emit(event)

    def unanswered_calls(self, server: str) -> list[Json]:
        """The tool calls of ``server`` that Codex itself has begun, and that no answer was given for yet."""
        calls = [self._tools[number] for number in sorted(self._open - self._answered)]
        return [call for call in calls if call.get("type") == "mcpToolCall" and call.get("server") == server]

    def take_answer(self, call: Json) -> None:
        """``call`` was asked about: another request is not about it."""
        self._answered.add(str(call.get("id")))

    @property
    def failure(self) -> str:
        """Why it failed, empty when it did not."""
        return self._outcome[1] if self._outcome[0] == "failed" else ""

    def item(self, number: str) -> Json:
        return self._tools.get(number, {})

    # ------------------------------------------------------------------- from Codex

    def told(self, method: str, params: Json) -> None:
        """A notification of this turn."""
        handler = _HANDLERS.get(method)
        if handler is not None:
            handler(self, params)
        elif method not in IGNORED:
            self._unknown(method)

    def _started(self, params: Json) -> None:
        item = _item(params)
        kind, number = item.get("type"), str(item.get("id"))
        if kind == "commandExecution":
            self._begin(number, item, ToolStarted(number, "execute", items.shown_command(item.get("command"))))
        elif kind == "fileChange":
            paths = ", ".join(change.path for change in items.file_changes(item, self._folder))
            self._begin(number, item, ToolStarted(number, "edit", f"edit {paths}"))
        elif kind == "mcpToolCall":
            self._begin(number, item, ToolStarted(number, "other", items.call_line(item)))
        elif kind in items.TITLES:
            self._begin(number, item, ToolStarted(number, "other", items.other_line(item)))
        elif kind not in ("userMessage", "agentMessage", "reasoning", "contextCompaction", "plan", "hookPrompt"):
            self._unknown(f"item {kind}")

    def _begin(self, number: str, item: Json, event: ToolStarted) -> None:
        known = number in self._tools
        self._tools[number] = item
        if not known:
            self._open.add(number)
        self.tell(event)

    def _completed(self, params: Json) -> None:
        item = _item(params)
        kind, number = item.get("type"), str(item.get("id"))
        if kind == "agentMessage" or (kind == "plan" and item.get("text")):
            self.tell(TextDone(number, str(item.get("text") or "")))
        elif kind == "reasoning":
            if number not in self._thoughts and (text := items.summary_text(item)):
                self.tell(ThinkingDelta(number, text))
        elif kind == "contextCompaction":
            self.tell(Notice("Codex made the conversation shorter."))
        elif kind in ("commandExecution", "fileChange", "mcpToolCall") or kind in items.TITLES:
            if number not in self._tools:
                self._started(params)
            self._end_tool(kind, number, item)

    def _end_tool(self, kind: str, number: str, item: Json) -> None:
        if number not in self._open:
            return
        self._open.discard(number)
        self._tools[number] = item
        self._tool_ended.set()
        good = item.get("status") in ("completed", None)
        output: str | None = None
        if kind == "commandExecution":
            output = items.command_output(item)
        elif kind == "mcpToolCall":
            output = items.call_output(item)
        elif item.get("status") == "declined":
            output = "Refused."
        self.tell(ToolEnded(number, "success" if good else "error", output))
        if kind == "fileChange" and good:
            for change in items.file_changes(item, self._folder):
                self.tell(change)

    def _text(self, params: Json) -> None:
        if delta := _delta(params):
            self.tell(TextDelta(str(params.get("itemId")), delta))

    def _thought(self, params: Json) -> None:
        number, index = str(params.get("itemId")), params.get("summaryIndex", params.get("contentIndex", 0))
        if not (delta := _delta(params)):
            return
        before = self._thoughts.get(number)
        self._thoughts[number] = index if isinstance(index, int) else 0
        self.tell(ThinkingDelta(number, delta if before in (None, index) else f"\n\n{delta}"))

    def _output(self, params: Json) -> None:
        number, delta = str(params.get("itemId")), _delta(params)
        if delta and number in self._open:
            self.tell(ToolOutput(number, delta, append=True))

    def _planned(self, params: Json) -> None:
        steps = params.get("plan")
        marks = {"completed": "x", "inProgress": ">"}
        lines = [
            f"[{marks.get(str(step.get('status')), ' ')}] {step.get('step')}"
            for step in (steps if isinstance(steps, list) else [])
            if isinstance(step, dict)
        ]
        if lines:
            if not self._plan:
                self._plan = True
                self.tell(ToolStarted("plan", "other", "plan"))
            self.tell(ToolOutput("plan", "\n".join(lines), append=False))

    def _error(self, params: Json) -> None:
        if params.get("willRetry") is True:
            self.tell(Notice(f"Codex tries again: {sentence(params.get('error'))}"))

    def _rerouted(self, params: Json) -> None:
        self.tell(Notice(f"Codex answers with the model {params.get('toModel')} instead of {params.get('fromModel')}."))

    def _warned(self, params: Json) -> None:
        if isinstance(params.get("message"), str):
            self.tell(Notice(params["message"]))

    def _used(self, params: Json) -> None:
        usage = params.get("tokenUsage")
        last = usage.get("last") if isinstance(usage, dict) else None
        tokens = (last.get("inputTokens"), last.get("outputTokens")) if isinstance(last, dict) else (None, None)
        if isinstance(tokens[0], int) and isinstance(tokens[1], int):
            before = self._usage or Usage(0, 0)
            self._usage = Usage(before.input_tokens + tokens[0], before.output_tokens + tokens[1])

    def _over(self, params: Json) -> None:
        turn = params.get("turn")
        turn = turn if isinstance(turn, dict) else {}
        status = turn.get("status")
        if status == "failed":
            self._outcome = ("failed", sentence(turn.get("error")))
        else:
            self._outcome = ("completed" if status == "completed" else "interrupted", "")
        self.completed.set()
        if not self.stopping:
            self.finish()

    async def commands_ended(self, limit_s: float) -> None:
        """Return when no command is open any more, at the latest after ``limit_s``: some are never said to end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while any(self._tools[number].get("type") == "commandExecution" for number in self._open):
                    self._tool_ended.clear()
                    await self._tool_ended.wait()

    # ---------------------------------------------------------------------- the end

    def finish(self) -> None:
        """End it as Codex said."""
        self.end(*self._outcome)

    def end(self, outcome: TurnOutcome, detail: str = "") -> None:
        """End it unless it has ended: what is still open ends with it."""
        if self.ended.is_set():
            return
        for event in self.requests.withdraw_all():
            self.tell(event)
        for number in sorted(self._open):
            self.tell(ToolEnded(number, "error", None))
        self._open.clear()
        if self._plan:
            self.tell(ToolEnded("plan", "success", None))
        if self._usage is not None:
            self.tell(self._usage)
        self.tell(TurnEnded(outcome, detail))
        self.completed.set()
        self.ended.set()


_HANDLERS: dict[str, Callable[[CodexTurn, Json], None]] = {
    "item/started": CodexTurn._started,
    "item/completed": CodexTurn._completed,
    "item/agentMessage/delta": CodexTurn._text,
    "item/reasoning/summaryTextDelta": CodexTurn._thought,
    "item/reasoning/textDelta": CodexTurn._thought,
    "item/commandExecution/outputDelta": CodexTurn._output,
    "turn/plan/updated": CodexTurn._planned,
    "error": CodexTurn._error,
    "warning": CodexTurn._warned,
    "model/rerouted": CodexTurn._rerouted,
    "thread/tokenUsage/updated": CodexTurn._used,
    "turn/completed": CodexTurn._over,
}


def sentence(error: object) -> str:
    """What went wrong, for people: a provider's own message out of the JSON around it, and what to do about it."""
    if not isinstance(error, dict):
        return "Codex gave no reason"
    text = str(error.get("message") or "Codex gave no reason")
    try:
        inner = json.loads(text).get("error", {}).get("message")
    except (ValueError, AttributeError, RecursionError):
        inner = None
    text = inner if isinstance(inner, str) and inner else text
    more = error.get("additionalDetails")
    if isinstance(more, str) and more and more not in text:
        text = f"{text} ({more})"
    return text + _SIGN_IN if _is_unauthorized(error.get("codexErrorInfo")) else text


def _is_unauthorized(info: object) -> bool:
    if isinstance(info, dict):
        return any(isinstance(value, dict) and value.get("httpStatusCode") == _UNAUTHORIZED for value in info.values())
    return info == "unauthorized"


def _item(params: Json) -> Json:
    item = params.get("item")
    return item if isinstance(item, dict) else {}


def _delta(params: Json) -> str:
    delta = params.get("delta")
    return delta if isinstance(delta, str) else ""
