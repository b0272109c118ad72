"""What a look at a folder tells: the shapes, and the questions to the file system behind them. Follows no links."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from termal.rules.file_changes import FileKind


class Unwatchable(Exception):
    """This directory cannot be watched; the text says why, for the log."""


class Ground(NamedTuple):
    """``skipped``: folders by their full path; ``ignored``: folders by their name, at any depth."""

    root: str
    skipped: frozenset[str]
    ignored: frozenset[str]


class PathChange(NamedTuple):
    """``path`` is relative to the root. What is gone has no time and no size."""

    path: str
    kind: FileKind
    mtime_ms: int | None = None
    size_bytes: int | None = None


class Look(NamedTuple):
    """What changed since the look before. ``flooded``: too much to tell, and there will be no further look."""

    changes: list[PathChange]
    flooded: bool = False


class Flood(Exception):
    """More changed than is worth telling."""


def judged(root: str, path: str, known: bool) -> PathChange | None:
    """What became of ``path``; None for what was there neither before nor now."""
    try:
        facts = os.lstat(joined(root, path))
    except OSError:
        facts = None
    if facts is None or stat.S_ISDIR(facts.st_mode):
        return PathChange(path, "deleted") if known else None
    kind: FileKind = "modified" if known else "created"
    if not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
        kind = "other"
    return PathChange(path, kind, facts.st_mtime_ns // 1_000_000, facts.st_size)


def entries(folder: str) -> Iterator["os.DirEntry[str]"]:
    """Nothing of a folder that is gone or unreadable."""
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError:
        return


def is_looked_at(ground: Ground, folder: "os.DirEntry[str]") -> bool:
    return folder.name not in ground.ignored and folder.path not in ground.skipped


def facts_of(entry: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None


def folder_id(path: str) -> tuple[int, int] | None:
    """Tells one folder from another in its place; None: there is none."""
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino) if stat.S_ISDIR(facts.st_mode) else None


def is_written(entry: "os.DirEntry[str]", since_ns: int) -> bool:
    facts = facts_of(entry)
    return facts is not None and facts.st_mtime_ns > since_ns


def is_changed(folder: str, since_ns: int) -> bool:
    """Whether a name in ``folder`` came or went: a file that was written since is taken for a new one then."""
    try:
        return Path(folder).stat().st_mtime_ns > since_ns
    except OSError:
        return False


def joined(root: str, path: str) -> str:
    return f"{root}/{path}" if path else root


def below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
