"""Which files change while turns run: one watch for each directory that a session works in, shared by its turns.

What changes is told to state as a hint at once, and with the end of the turn as a whole. Never holds a turn up: what
cannot be watched is not, and the log says why once.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from termal.procs.folder_watch import Ground, Look, PathChange, Unwatchable, WatchShare, tree_of
from termal.rules.file_changes import HINT_PATHS, IGNORED_FOLDERS, FileKind, merged
from termal.wire.errors import TermalError
from termal.wire.runtime_operations import StartTurn
from termal.wire.turns import TouchedFile, TurnEnded
from termal.wire.workspace_operations import (
    TURN_TOUCHED,
    WORKSPACE_CHANGED,
    SeenChange,
    TurnTouched,
    WorkspaceChanged,
)
from workers.runtime.json_values import valid_text
from workers.runtime.place import Place
from workers.runtime.reporter import Link
from workers.runtime.watched_folder import WatchedFolder

GRACE_S = 0.75
"""What changes so shortly after the end of a turn still belongs to it."""
FOLDERS = 10
"""Directories that are watched at once: each costs an inotify instance, of which a user may have 128 with all programs,
and there is a worker for each kind of agent."""
PATH_CHARACTERS = 512
"""A longer path is counted and not named."""
RETRY_S = 600.0
"""A directory that could not be watched is left alone for this long."""
_REFUSED = 256


class Journal(Protocol):
    """Takes log lines (`termal.log.Log`)."""

    def warning(self, event: str, **keys: Any) -> None: ...
    def repeating(self, event: str, **keys: Any) -> None: ...


class TurnWatch:
    """What changed during one turn. Made by `Workspaces.begin`; ends with `close`, or some time after `complete`."""

    def __init__(self, owner: "Workspaces", start: StartTurn, folder: WatchedFolder) -> None:
        self.session_id = start.spec.session_id
        self.turn_id = start.turn_id
        self.folder = folder
        self.files: dict[str, FileKind] = {}
        self.more = False
        self.ended = False
        self._owner = owner

    def complete(self, end: TurnEnded) -> TurnEnded:
        """``end`` with the files that changed until now. What comes next is told apart."""
        self.folder.catch_up()
        files, more = self.taken()
        self.ended = True
        self._owner.ended(self)
        return replace(end, files=files, more_files=more)

    def taken(self) -> tuple[list[TouchedFile], bool]:
        """What was seen since this was asked before."""
        files = [TouchedFile(valid_text(path), kind) for path, kind in sorted(self.files.items())]
        more, self.files, self.more = self.more, {}, False
        return files, more

    def take(self, look: Look) -> None:
        named = [(change.path, change.kind) for change in look.changes if len(change.path) <= PATH_CHARACTERS]
        fits = merged(self.files, named)
        if look.flooded or not fits or len(named) < len(look.changes):
            self.more = True

    def close(self) -> None:
        """Nobody wants to know any more."""
        self._owner.leave(self)


class Workspaces:
    """Made and used on the worker's loop. ``place`` is asked for at each turn; ``home`` is never looked into, but for
    the worktrees in it."""

    def __init__(self, link: Link, place: Callable[[], Place], home: Path, worktrees: Path, log: Journal) -> None:
        self._link = link
        self._place = place
        self._home = home.resolve()
        self._worktrees = worktrees.resolve()
        self._log = log
        self._share = WatchShare()
        self._folders: dict[str, WatchedFolder] = {}
        self._turns: dict[str, TurnWatch] = {}
        self._refused: OrderedDict[str, float] = OrderedDict()

    @property
    def watched(self) -> int:
        return len(self._folders)

    def begin(self, start: StartTurn) -> TurnWatch | None:
        """None: what happens in the directory of this turn is not looked at."""
        before = self._turns.get(start.spec.session_id)
        if before is not None:
            before.folder.catch_up()
        folder = None if start.spec.read_only else self._folder(start.spec.workdir)
        if folder is not None:
            # What waits to be seen belongs to those that are there already.
            folder.catch_up()
            turn = TurnWatch(self, start, folder)
            if before is not None and before.folder is folder:
                turn.files, turn.more = before.files, before.more
            folder.turns.add(turn)
            self._turns[turn.session_id] = turn
        else:
            turn = None
        if before is not None:
            self.leave(before)
        return turn

    def ended(self, turn: TurnWatch) -> None:
        self._link.loop.later(GRACE_S, lambda: turn.folder.look(lambda: self._settle(turn)))

    def closed(self, session_id: str) -> None:
        """The agent of the session is gone, and nobody waits for more."""
        turn = self._turns.get(session_id)
        if turn is not None:
            turn.folder.catch_up()
            self._settle(turn)

    def leave(self, turn: TurnWatch) -> None:
        if self._turns.get(turn.session_id) is turn:
            del self._turns[turn.session_id]
        folder = turn.folder
        folder.turns.discard(turn)
        if not folder.turns:
            folder.close()
            if self._folders.get(folder.root) is folder:
                del self._folders[folder.root]

    def close(self) -> None:
        for folder in self._folders.values():
            folder.close()
        self._folders.clear()
        self._turns.clear()

    def _settle(self, turn: TurnWatch) -> None:
        """Tell what came after the end of ``turn``, unless another one of its session has begun."""
        if self._turns.get(turn.session_id) is not turn:
            return
        self.leave(turn)
        files, more = turn.taken()
        if turn.ended and (files or more):
            late = TurnTouched(turn.session_id, turn.turn_id, files, more)
            self._link.state.call(TURN_TOUCHED, late, self._told, trace=turn.turn_id)

    def _told(self, _: object, error: TermalError | None) -> None:
        if error is not None:
            self._log.warning("workspace.untold", code=error.code)

    # --------------------------------------------------------------------- folders

    def _folder(self, root: str) -> WatchedFolder | None:
        place = self._place()
        if not place.config.workspace.watch or self._is_ours(Path(root)) or self._is_refused(root):
            return None
        folder = self._folders.get(root)
        if folder is not None and not folder.over:
            return folder
        if len(self._folders) >= FOLDERS:
            self._log.repeating("workspace.unwatched", folder=root, why=f"{FOLDERS} directories are watched already")
            return None
        skipped = frozenset({str(self._home), str(place.run_dir)})
        ground = Ground(root, skipped, IGNORED_FOLDERS.union(place.config.workspace.ignore))
        folder = WatchedFolder(
            root,
            tree_of(ground, time.time_ns(), portable=place.portable, share=self._share),
            self._link.loop,
            on_look=self._looked,
            on_refused=self._refuse,
        )
        self._folders[root] = folder
        return folder

    def _is_ours(self, root: Path) -> bool:
        """The daemon's own files change all the time."""
        return root.is_relative_to(self._home) and not root.is_relative_to(self._worktrees)

    def _is_refused(self, root: str) -> bool:
        at_s = self._refused.get(root)
        return at_s is not None and time.monotonic() - at_s < RETRY_S

    def _refuse(self, root: str, error: Unwatchable | str) -> None:
        self._log.warning("workspace.unwatched", folder=root, why=str(error))
        self._refused[root] = time.monotonic()
        if len(self._refused) > _REFUSED:
            self._refused.popitem(last=False)

    def _looked(self, folder: WatchedFolder, look: Look) -> None:
        for turn in folder.turns:
            turn.take(look)
        if not (look.changes or look.flooded):
            return
        whole = not look.flooded and len(look.changes) <= HINT_PATHS
        changes = [_shown(change) for change in look.changes] if whole else []
        sessions = sorted({turn.session_id for turn in folder.turns})
        hint = WorkspaceChanged(valid_text(folder.root), sessions, changes, overflow=not whole)
        # Nobody waits for it, and whoever missed it looks for itself.
        self._link.state.call(WORKSPACE_CHANGED, hint, lambda _, __: None)


def _shown(change: PathChange) -> SeenChange:
    return SeenChange(valid_text(change.path), change.kind, change.mtime_ms, change.size_bytes)
