"""What a delegated or read-only Claude conversation may do, decided before each call and over the user's own rules.

A verdict here is final, but for ``ask``: then a person decides. None leaves the call to what is usual.
"""

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from termal.bridge.descriptor import CLAUDE_SUBMIT_TOOL
from termal.rules.delegation_commands import names_git, reads_only
from termal.rules.delegation_paths import contains
from termal.wire.turns import SessionSpec
from workers.runtime.claude_messages import Json
from workers.runtime.repository import working_tree

READ_ONLY_TOOLS = ("Read", "Grep", "Glob", "Bash")
"""All that a read-only conversation has; of commands only those that are proven to change nothing."""
_LOOKING = ("Read", "Grep", "Glob", "LS")
_WRITING = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
READ_ONLY_TEXT = (
    "This session is read-only. Only Read, Grep, Glob and commands that are proven to change nothing may be used."
)
_OUTSIDE_TEXT = "This delegated session may change files in its own worktree only."


class Guarded(NamedTuple):
    kind: Literal["allow", "refuse", "ask"]
    text: str = ""


def is_read_only(spec: SessionSpec) -> bool:
    return spec.read_only or spec.modes.get("claudeApprovalMode") == "read-only-auto-approve"


def is_guarded(spec: SessionSpec) -> bool:
    """Whether the calls of this conversation are looked at before they are made."""
    return spec.delegated or is_read_only(spec)


def guarded(spec: SessionSpec, tool: str, arguments: Json) -> Guarded | None:
    """The verdict on a call, before any rule of the user is asked."""
    if spec.submits_review and tool == CLAUDE_SUBMIT_TOOL:
        return Guarded("allow")
    if is_read_only(spec):
        return _read_only(spec, tool, arguments)
    if spec.delegated and tool in _WRITING and not _is_inside(spec.workdir, arguments.get(_WRITING[tool])):
        return Guarded("refuse", _OUTSIDE_TEXT)
    if needs_person(spec, tool, arguments):
        return Guarded("ask")
    return None


def needs_person(spec: SessionSpec, tool: str, arguments: Json) -> bool:
    """A delegated session commits and pushes nothing unless a person says yes to that very command."""
    if not spec.delegated or tool not in ("Bash", "PowerShell"):
        return False
    command = _command(arguments)
    return names_git(command) and not reads_only(command, spec.workdir)


def _read_only(spec: SessionSpec, tool: str, arguments: Json) -> Guarded | None:
    if tool in _LOOKING or (tool == "Bash" and reads_only(_command(arguments), spec.workdir)):
        return Guarded("allow")
    # The agent builds this name from the key that we gave the server, so that no other server can take it.
    if any(tool.startswith(f"mcp__{server.name}__") for server in spec.mcp_servers):
        return None
    return Guarded("refuse", READ_ONLY_TEXT)


def _command(arguments: Json) -> str:
    command: Any = arguments.get("command")
    return command if isinstance(command, str) else ""


def _is_inside(workdir: str, target: object) -> bool:
    """Whether a file, links resolved, lies in the working tree around ``workdir``; what git keeps of it does not."""
    if not isinstance(target, str) or not target or "\0" in target:
        return False
    folder = Path(os.path.realpath(workdir))
    root = working_tree(folder)
    path = os.path.realpath(folder / target)
    return contains(str(root), path) and ".git" not in Path(path).parts[len(root.parts) :]
