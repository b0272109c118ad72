"""Which files below one directory change: by inotify on Linux, by looking again everywhere else.

Bounded in what it holds and does: what is too large is not watched, and a storm of changes ends the watch.
"""

import sys
from typing import Protocol

from termal.procs.folder_facts import Ground, Look, PathChange, Unwatchable
from termal.procs.folder_notified import NotifiedTree, WatchShare
from termal.procs.folder_scanned import ScannedTree

__all__ = ["Ground", "Look", "PathChange", "Tree", "Unwatchable", "WatchShare", "tree_of"]


class Tree(Protocol):
    """``fd`` becomes readable when there is something to see; None: nobody knows without a look, which then takes as
    long as `begin`. Used by one thread at a time."""

    @property
    def fd(self) -> int | None: ...
    def begin(self) -> None:
        """Takes as long as reading all folders. Raises `Unwatchable`; nothing is left open then."""

    def look(self) -> Look: ...
    def close(self) -> None: ...


def tree_of(ground: Ground, since_ns: int, *, portable: bool, share: WatchShare | None = None) -> Tree:
    """``since_ns`` (as `time.time_ns`): what was written after it counts as a change, also when it is read later.

    The clock of files may be some milliseconds behind: what was written in them does not count. Trees with one
    ``share`` are bounded together.
    """
    if sys.platform == "linux" and not portable:
        return NotifiedTree(ground, since_ns, share or WatchShare())
    return ScannedTree(ground, since_ns)
