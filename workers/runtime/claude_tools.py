"""How Claude Code's tools are shown to a person: the kind of a call, its one line, its change as a diff. Pure."""

import json
from pathlib import PurePath
from typing import Literal

from termal.wire.turns import FileChanged
from workers.runtime.claude_messages import Json, ToolCall

ToolKind = Literal["execute", "edit", "other"]

EDITING = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})
_TELLING = ("file_path", "notebook_path", "path", "pattern", "url", "query", "description", "skill", "subject")
"""Arguments that say most about a call, the best first."""
_LINE_CHARACTERS = 300


def kind_of(tool: str) -> ToolKind:
    if tool == "Bash":
        return "execute"
    return "edit" if tool in EDITING else "other"


def line_of(tool: str, arguments: Json) -> str:
    """The call in one line, for a shell command the command itself."""
    command = arguments.get("command")
    if tool == "Bash" and isinstance(command, str):
        return command
    told = next((str(arguments[name]) for name in _TELLING if arguments.get(name)), "")
    if not told and arguments:
        told = json.dumps(arguments, ensure_ascii=False)
    line = f"{tool} {told}".strip()
    return line if len(line) <= _LINE_CHARACTERS else line[:_LINE_CHARACTERS] + "..."


def change_of(call: ToolCall, structured: Json | None, workdir: str) -> FileChanged | None:
    """The change that a finished editing tool made, None when it tells of none."""
    path = (structured or {}).get("filePath")
    if structured is None or not isinstance(path, str):
        return None
    shown = _shown_path(path, workdir)
    hunks = structured.get("structuredPatch") or []
    if structured.get("type") == "create" and not hunks:
        diff = _creation(shown, str(structured.get("content") or ""))
        return FileChanged(f"{call.id}/0", path, f"Created {shown}", diff, "create")
    diff = _unified(shown, hunks)
    return FileChanged(f"{call.id}/0", path, f"Edited {shown}", diff, "edit") if diff else None


def _shown_path(path: str, workdir: str) -> str:
    try:
        return str(PurePath(path).relative_to(workdir))
    except ValueError:
        return path


def _unified(path: str, hunks: list[Json]) -> str:
    if not hunks:
        return ""
    named = path.lstrip("/")
    lines = [f"--- a/{named}", f"+++ b/{named}"]
    for hunk in hunks:
        old, new = (f"{hunk.get(f'{side}Start', 0)},{hunk.get(f'{side}Lines', 0)}" for side in ("old", "new"))
        lines.append(f"@@ -{old} +{new} @@")
        lines += [str(line) for line in hunk.get("lines") or []]
    return "\n".join(lines) + "\n"


def _creation(path: str, content: str) -> str:
    lines = content.splitlines()
    named = path.lstrip("/")
    head = f"--- /dev/null\n+++ b/{named}\n@@ -0,0 +1,{len(lines)} @@\n"
    return head + "".join(f"+{line}\n" for line in lines)
