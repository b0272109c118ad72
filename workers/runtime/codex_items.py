"""The items of a Codex thread (thoughts, commands, file changes, tool calls), in the words that we show. Pure."""

import json
import shlex
from io import StringIO
from pathlib import PurePosixPath
from typing import Any

from termal.wire.turns import FileChanged

_SHELL_WORDS = 3
_SHELL_FLAGS = ("-c", "-lc")
TITLES = {
    "webSearch": "web search",
    "imageView": "look at an image",
    "imageGeneration": "make an image",
    "collabAgentToolCall": "ask another agent",
    "dynamicToolCall": "tool call",
    "enteredReviewMode": "begin a review",
    "exitedReviewMode": "end a review",
    "sleep": "wait",
}
"""Items that have a card of their own and no more to say than this."""

Json = dict[str, Any]


def shown_command(command: object) -> str:
    """What a person would type: the shell that Codex puts before each command is taken away."""
    text = command if isinstance(command, str) else ""
    try:
        words = shlex.split(text)
    except ValueError:
        return text
    if len(words) == _SHELL_WORDS and words[1] in _SHELL_FLAGS and PurePosixPath(words[0]).name.endswith("sh"):
        return words[2]
    return text


def call_line(item: Json) -> str:
    """``server.tool {arguments}`` of an MCP tool call."""
    arguments = item.get("arguments")
    shown = "" if arguments in (None, {}) else " " + json.dumps(arguments, ensure_ascii=False)
    return f"{item.get('server')}.{item.get('tool')}{shown}"


def call_output(item: Json) -> str:
    """What an MCP tool call gave, or why it failed."""
    error, result = item.get("error"), item.get("result")
    if isinstance(error, dict):
        return str(error.get("message") or "")
    content = result.get("content") if isinstance(result, dict) else None
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def other_line(item: Json) -> str:
    """One line for an item of which we show no more than that it was there."""
    title = TITLES[str(item.get("type"))]
    for key in ("query", "path", "tool", "prompt", "review"):
        if isinstance(item.get(key), str) and item[key]:
            return f"{title}: {item[key]}"
    return title


def command_output(item: Json) -> str | None:
    """The whole output of an ended command with its exit status, None to keep what was streamed."""
    output, status = item.get("aggregatedOutput"), item.get("exitCode")
    note = f"exit status {status}" if isinstance(status, int) and status not in (0, -1) else ""
    if item.get("status") == "declined":
        note = "Refused."
    if not isinstance(output, str):
        return note or None
    separator = "\n" if output and note and not output.endswith("\n") else ""
    return f"{output}{separator}{note}"


def summary_text(item: Json) -> str:
    """The whole of a thought."""
    for key in ("summary", "content"):
        texts = [text for text in item.get(key) or [] if isinstance(text, str) and text]
        if texts:
            return "\n\n".join(texts)
    return ""


def file_changes(item: Json, folder: str) -> list[FileChanged]:
    """One change for each file of a file-change item; paths below ``folder`` are shortened."""
    changes = item.get("changes")
    found = []
    for number, change in enumerate(changes if isinstance(changes, list) else []):
        if not isinstance(change, dict) or not isinstance(change.get("path"), str):
            continue
        path = change["path"].removeprefix(folder.rstrip("/") + "/")
        kind = change.get("kind")
        kind = str(kind.get("type")) if isinstance(kind, dict) else str(kind)
        verb = {"add": "Created", "delete": "Deleted"}.get(kind, "Edited")
        diff = _unified(path, kind, str(change.get("diff") or ""))
        change_type = "create" if kind == "add" else "edit"
        found.append(FileChanged(f"{item.get('id')}/{number}", path, f"{verb} {path}", diff, change_type))  # type: ignore[arg-type]
    return found


def _unified(path: str, kind: str, text: str) -> str:
    """Codex sends hunks for an update, and the whole text of a file that it adds or deletes."""
    if kind not in ("add", "delete"):
        return text if not text or text.startswith("---") else f"--- a/{path}\n+++ b/{path}\n{_ended(text)}"
    lines = list(StringIO(text))
    if not lines:
        return ""
    sign = "+" if kind == "add" else "-"
    head = f"--- /dev/null\n+++ b/{path}\n" if kind == "add" else f"--- a/{path}\n+++ /dev/null\n"
    span = f"@@ -0,0 +1,{len(lines)} @@\n" if kind == "add" else f"@@ -1,{len(lines)} +0,0 @@\n"
    return head + span + "".join(f"{sign}{_ended(line)}" for line in lines)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n\\ No newline at end of file\n"
