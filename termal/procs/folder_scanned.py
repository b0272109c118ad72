"""A tree of folders that is read anew at every look, where nothing tells of changes. Bounded in what it holds."""

from pathlib import Path

from termal.procs.folder_facts import (
    Ground,
    Look,
    Unwatchable,
    below,
    entries,
    facts_of,
    is_changed,
    is_looked_at,
    joined,
    judged,
)
from termal.rules.file_changes import TURN_PATHS

FILES = 20_000
"""Each look reads all of them: 0.1 s."""


class ScannedTree:
    """Compares times and sizes with those of the look before; what comes and goes in between is never seen."""

    def __init__(self, ground: Ground, since_ns: int) -> None:
        self._ground = ground
        self._since_ns = since_ns
        self._known: dict[str, tuple[int, int]] = {}
        self._early: dict[str, bool] = {}
        self._closed = False

    @property
    def fd(self) -> int | None:
        return None

    def begin(self) -> None:
        if not Path(self._ground.root).is_dir():
            raise Unwatchable("it is no directory")
        self._known = self._scan()
        self._early = {
            path: not is_changed(str(Path(self._ground.root, path).parent), self._since_ns)
            for path, (mtime_ns, _) in self._known.items()
            if mtime_ns > self._since_ns
        }

    def look(self) -> Look:
        if self._closed:
            return Look([])
        try:
            now = self._scan()
        except Unwatchable:
            self.close()
            return Look([], flooded=True)
        touched, self._early = self._early, {}
        for path in self._known.keys() | now.keys():
            if self._known.get(path) != now.get(path):
                touched.setdefault(path, path in self._known)
        self._known = now
        if len(touched) > TURN_PATHS:
            self.close()
            return Look([], flooded=True)
        found = [judged(self._ground.root, path, known) for path, known in sorted(touched.items())]
        return Look([change for change in found if change is not None])

    def close(self) -> None:
        self._closed = True
        self._known, self._early = {}, {}

    def _scan(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        waiting = [""]
        while waiting:
            current = waiting.pop()
            for entry in entries(joined(self._ground.root, current)):
                path = below(current, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    if is_looked_at(self._ground, entry):
                        waiting.append(path)
                elif (facts := facts_of(entry)) is not None:
                    found[path] = (facts.st_mtime_ns, facts.st_size)
            if len(found) > FILES:
                raise Unwatchable(f"it has more than {FILES} files")
        return found
