"""What runtime workers tell `state` of files that change below the directories of sessions at work."""

import msgspec

from termal.rules.file_changes import FileKind
from termal.wire.operation import READ_S, write
from termal.wire.turns import Anything, TouchedFile


class SeenChange(msgspec.Struct, frozen=True):
    """``path`` is relative to the directory; what is gone has no time and no size."""

    path: str
    kind: FileKind
    mtime_ms: int | None = None
    size_bytes: int | None = None


class WorkspaceChanged(msgspec.Struct, frozen=True):
    """``root``: the directory that these sessions work in. ``overflow``: too much to name, and ``changes`` is empty."""

    root: str
    session_ids: list[str]
    changes: list[SeenChange]
    overflow: bool = False


class TurnTouched(msgspec.Struct, frozen=True):
    """Files that changed right after the end of a turn: they belong to it, unless another turn has begun."""

    session_id: str
    turn_id: str
    files: list[TouchedFile]
    more: bool = False


WORKSPACE_CHANGED = write("workspace.changed", WorkspaceChanged, Anything, repeatable=False, timeout_s=READ_S)
"""A hint for clients: nothing is stored, and one that is lost is not sent again."""
TURN_TOUCHED = write("turn.touched", TurnTouched, Anything, repeatable=True)
