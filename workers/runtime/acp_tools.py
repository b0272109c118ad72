"""One tool call of an ACP agent: what its updates mean for the card that a person sees. Pure."""

import shlex
from collections.abc import Callable
from typing import Any, Literal

from termal.wire.turns import AnyTurnEvent, FileChanged, ToolEnded, ToolOutput, ToolStarted
from workers.runtime.acp_diffs import Change, changes_in

ToolKind = Literal["execute", "edit", "other"]
_KINDS: dict[str, ToolKind] = {"execute": "execute", "edit": "edit", "delete": "edit", "move": "edit"}
SILENT = "{agent} does not share the output of its commands."


class ToolCall:
    """The card of one call. Every method says what changed through ``emit``; after its end nothing is said any more."""

    def __init__(
        self, item: str, emit: Callable[[AnyTurnEvent], None], *, agent: str, silent: bool, folder: str
    ) -> None:
        self.item = item
        self._folder = folder
        self.title = ""
        self.kind: ToolKind = "other"
        self.wire_kind = ""
        self.command = ""
        self.ended = False
        self.changes: list[Change] = []
        self._emit = emit
        self._agent = agent
        self._silent = silent
        self._output = ""
        self._exit: int | None = None
        self._started = False

    def update(self, fields: dict[str, Any]) -> None:
        """Take over what a ``tool_call``, a ``tool_call_update`` or a permission request says of the call."""
        if self.ended:
            return
        self._describe(fields)
        content = fields.get("content")
        output = _text(content) or _raw_text(fields.get("rawOutput"))
        self._exit = _exit_status(fields.get("rawOutput")) if self._exit is None else self._exit
        changes = changes_in(content, self._folder)
        if changes and not self.changes:
            # A permission request shows the whole file, a later update often the fragment alone: the first one stays.
            self.changes = changes
        if output and output != self._output:
            self._output = output
            self._emit(ToolOutput(self.item, output, append=False))
        status = fields.get("status")
        if status in ("completed", "failed"):
            self.end("success" if status == "completed" else "error")

    def end(self, status: Literal["success", "error"], note: str = "") -> None:
        """Close the card. ``completed`` also stands for a command that ended with an exit status of its own."""
        if self.ended:
            return
        self.ended = True
        if self._exit:
            status = "error"
            note = note or f"exit status {self._exit}"
        if self._silent and self.kind == "execute" and not self._output and not note:
            note = SILENT.format(agent=self._agent)
        separator = "\n" if self._output and not self._output.endswith("\n") else ""
        self._emit(ToolEnded(self.item, status, f"{self._output}{separator}{note}" if note else None))
        if status == "success":
            for number, change in enumerate(self.changes):
                self._show(number, change)

    def _describe(self, fields: dict[str, Any]) -> None:
        title, kind = fields.get("title"), fields.get("kind")
        if isinstance(title, str) and title:
            self.title = title
        if isinstance(kind, str) and kind:
            self.wire_kind = kind
            self.kind = _KINDS.get(kind, "other")
        command = _command(fields.get("rawInput")) if self.kind == "execute" else ""
        command = command or (self.command if self.kind == "execute" else "") or self.title or self.item
        if not self._started or command != self.command:
            self._started = True
            self.command = command
            self._emit(ToolStarted(self.item, self.kind, command))

    def _show(self, number: int, change: Change) -> None:
        diff = change.unified()
        if not diff:
            return
        kind: Literal["edit", "create"] = "create" if change.old is None else "edit"
        verb = "Created" if change.old is None else "Edited"
        self._emit(FileChanged(f"{self.item}/{number}", change.path, f"{verb} {change.path}", diff, kind))


def _command(raw: object) -> str:
    command = raw.get("command") if isinstance(raw, dict) else None
    if isinstance(command, str):
        return command
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return ""


def _text(content: object) -> str:
    texts = []
    for part in content if isinstance(content, list) else ():
        inner = part.get("content") if isinstance(part, dict) and part.get("type") == "content" else None
        if isinstance(inner, dict) and isinstance(inner.get("text"), str):
            texts.append(inner["text"])
    return "\n".join(texts)


def _raw_text(raw: object) -> str:
    if isinstance(raw, str):
        return raw
    output = raw.get("output") if isinstance(raw, dict) else None
    return output if isinstance(output, str) else ""


def _exit_status(raw: object) -> int | None:
    """Agents that report it put it under ``metadata`` or beside the output."""
    if not isinstance(raw, dict):
        return None
    metadata = raw.get("metadata")
    places = (metadata.get("exit") if isinstance(metadata, dict) else None, raw.get("exitCode"), raw.get("exit_code"))
    return next((status for status in places if isinstance(status, int)), None)
