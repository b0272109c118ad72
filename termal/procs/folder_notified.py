"""A tree of folders under inotify: a watch for each of them, bounded in number; too much change ends it."""

import threading

from termal.procs import inotify
from termal.procs.folder_facts import (
    Flood,
    Ground,
    Look,
    Unwatchable,
    below,
    entries,
    folder_id,
    is_changed,
    is_looked_at,
    is_written,
    joined,
    judged,
)
from termal.procs.inotify import Inotify, Seen
from termal.rules.file_changes import TURN_PATHS

FOLDERS = 8192
"""Folders of one tree; each costs a watch, of which all programs of a user share what the kernel allows."""
WATCH_SHARE = 8
"""At most this part of what the kernel allows is taken for all trees of one worker."""
FILES = 100_000
"""Names of one tree that are kept: 10 MB."""
_READS = 64
"""Of what waits so much is read in one look; whoever goes on writing is looked at again."""


class WatchShare:
    """Counts the watches of several trees, whatever their threads."""

    def __init__(self) -> None:
        allowed = inotify.watches_allowed()
        self.most = allowed // WATCH_SHARE if allowed else None
        self.taken = 0
        self._lock = threading.Lock()

    def take(self) -> bool:
        """False: there is no further one."""
        with self._lock:
            if self.most is not None and self.taken >= self.most:
                return False
            self.taken += 1
            return True

    def give(self, watches: int) -> None:
        with self._lock:
            self.taken -= watches


class NotifiedTree:
    """A watch for each folder, and the names in it: they tell a new file from a changed one."""

    def __init__(self, ground: Ground, since_ns: int, share: WatchShare) -> None:
        self._ground = ground
        self._since_ns = since_ns
        self._share = share
        self._root_id: tuple[int, int] | None = None
        self._inotify: Inotify | None = None
        self._folders: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._names: dict[int, set[str]] = {}
        self._files = 0
        self._touched: dict[str, bool] = {}

    @property
    def fd(self) -> int | None:
        return self._inotify.fd if self._inotify is not None else None

    def begin(self) -> None:
        try:
            self._inotify = Inotify()
            self._root_id = folder_id(self._ground.root)
            self._walk("", fresh=False)
        except OSError as error:
            self.close()
            raise Unwatchable(f"there is no inotify for it: {error.strerror}") from error
        except Flood:
            self.close()
            raise Unwatchable("more changed than can be followed") from None
        except Unwatchable:
            self.close()
            raise

    def look(self) -> Look:
        if self._inotify is None:
            return Look([])
        try:
            for _ in range(_READS):
                seen = self._inotify.read()
                for event in seen:
                    self._take(event)
                if not seen:
                    break
            self._check_root()
        except (OSError, Flood, Unwatchable):
            self.close()
            return Look([], flooded=True)
        touched, self._touched = self._touched, {}
        found = [judged(self._ground.root, path, known) for path, known in touched.items()]
        return Look([change for change in found if change is not None])

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None
        self._share.give(len(self._folders))
        for kept in (self._folders, self._watches, self._names, self._touched):
            kept.clear()

    def _check_root(self) -> None:
        """Another folder may be in its place by now, which nobody tells of."""
        now = folder_id(self._ground.root)
        if now == self._root_id and (now is None or "" in self._watches):
            return
        self._forget("")
        if now is not None:
            self._walk("", fresh=True)
        self._root_id = now

    def _walk(self, folder: str, *, fresh: bool) -> None:
        """Watch ``folder`` and all below it. ``fresh``: it is new, and so is every file in it."""
        waiting = [folder]
        while waiting:
            current = waiting.pop()
            watch = self._watch(current)
            if watch is None:
                continue
            # Watched first, read then: what comes in between is seen twice rather than never.
            changed = fresh or is_changed(joined(self._ground.root, current), self._since_ns)
            names = self._names.setdefault(watch, set())
            for entry in entries(joined(self._ground.root, current)):
                path = below(current, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    if is_looked_at(self._ground, entry):
                        waiting.append(path)
                    continue
                self._learn(names, entry.name)
                if fresh or is_written(entry, self._since_ns):
                    self._touch(path, known=not changed)

    def _watch(self, folder: str) -> int | None:
        """None: it is gone again, or nobody may read it."""
        watch = self._added(folder)
        before = self._folders.get(watch, folder) if watch is not None else folder
        if before != folder and self._has_left(before, folder):
            # Its move was not read yet. The old watch goes, with all that it would tell of the old name.
            self._forget(before)
            watch = self._added(folder)
        if watch is None:
            return None
        if watch not in self._folders and not self._share.take():
            raise Unwatchable(f"together with others it has more than {self._share.most} folders")
        self._folders[watch], self._watches[folder] = folder, watch
        return watch

    def _added(self, folder: str) -> int | None:
        assert self._inotify is not None
        if len(self._folders) >= FOLDERS:
            raise Unwatchable(f"it has more than {FOLDERS} folders")
        try:
            return self._inotify.add(joined(self._ground.root, folder))
        except OSError as error:
            if inotify.is_exhausted(error) or not folder:
                raise
            return None

    def _has_left(self, before: str, now: str) -> bool:
        """One folder has two names at once where it is mounted twice."""
        place = folder_id(joined(self._ground.root, before))
        return place is None or place != folder_id(joined(self._ground.root, now))

    def _learn(self, names: set[str], name: str) -> None:
        if name not in names:
            names.add(name)
            self._files += 1
            if self._files > FILES:
                raise Unwatchable(f"it has more than {FILES} files")

    def _unlearn(self, names: set[str], name: str) -> None:
        if name in names:
            names.discard(name)
            self._files -= 1

    def _take(self, event: Seen) -> None:
        if event.mask & inotify.OVERFLOW:
            raise Flood
        folder = self._folders.get(event.watch)
        if folder is None:
            return
        path = below(folder, event.name)
        if event.mask & inotify.GONE:
            self._drop(event.watch)
        elif event.mask & inotify.FOLDER:
            full = joined(self._ground.root, path)
            if event.mask & inotify.REMOVED:
                self._forget(path)
            elif event.name not in self._ground.ignored and full not in self._ground.skipped:
                self._forget(path)
                self._walk(path, fresh=True)
        else:
            names = self._names[event.watch]
            self._touch(path, known=event.name in names)
            if event.mask & inotify.REMOVED:
                self._unlearn(names, event.name)
            else:
                self._learn(names, event.name)

    def _touch(self, path: str, *, known: bool) -> None:
        """``known``: it was there at the look before."""
        if path in self._touched:
            return
        if len(self._touched) >= TURN_PATHS:
            raise Flood
        self._touched[path] = known

    def _forget(self, folder: str) -> None:
        """``folder`` was moved away; of a deleted one every file and folder was reported by itself."""
        if folder not in self._watches:
            return
        assert self._inotify is not None
        inside = below(folder, "")
        for watch, each in list(self._folders.items()):
            if each == folder or each.startswith(inside):
                for name in self._names.get(watch, ()):
                    self._touch(below(each, name), known=True)
                self._inotify.remove(watch)
                self._drop(watch)

    def _drop(self, watch: int) -> None:
        folder = self._folders.pop(watch)
        self._share.give(1)
        if self._watches.get(folder) == watch:
            del self._watches[folder]
        self._files -= len(self._names.pop(watch, ()))
