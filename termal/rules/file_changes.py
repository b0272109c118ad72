"""Files that change below a session's directory: what is not looked at, how changes of one path add up, the title."""

from collections.abc import Iterable
from typing import Literal

FileKind = Literal["created", "modified", "deleted", "other"]

IGNORED_FOLDERS = frozenset(
    {
        ".beads",
        ".cache",
        ".collab",
        ".git",
        ".hg",
        ".hypothesis",
        ".mypy_cache",
        ".next",
        ".nuxt",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".termal",
        ".tox",
        ".venv",
        ".vite",
        "__pycache__",
        "dist",
        "node_modules",
        "target",
    }
)
"""Folders of this name are full of what tools write for themselves, at any depth."""
TURN_PATHS = 2000
"""The files of one turn that are named; beyond it the turn only says that there were more."""
HINT_PATHS = 256
"""The files of one hint; beyond it the hint says that anything may have changed."""


def added_up(before: FileKind, now: FileKind) -> FileKind:
    """What two changes of one path, one after the other, are together."""
    kinds = {before, now}
    if before == "created" and now == "deleted":
        return "modified"
    for strongest in ("deleted", "created", "modified"):
        if strongest in kinds:
            return strongest
    return "other"


def merged(before: dict[str, FileKind], changes: Iterable[tuple[str, FileKind]], most: int = TURN_PATHS) -> bool:
    """Add ``changes`` to ``before``. False: more than ``most`` paths came together, and the rest was left out."""
    fits = True
    for path, kind in changes:
        known = before.get(path)
        if known is not None:
            before[path] = added_up(known, kind)
        elif len(before) < most:
            before[path] = kind
        else:
            fits = False
    return fits


def title_of(count: int, *, more: bool) -> str:
    """``more``: besides the ``count`` files that are named others changed."""
    if more and not count:
        return "Many files changed"
    if more:
        return f"More than {count} files changed"
    return "1 file changed" if count == 1 else f"{count} files changed"
