"""Where worktrees of delegations lie, and what is kept beside them: a note of each, the mark of one in the making.

::

    worktrees/<delegation id>                 the usual place of a worktree
    worktrees/.termal/<delegation id>.json    where it came from (`Note`)
    worktrees/.termal/<delegation id>.making  there until the delegation is stored: a start removes what still has it
    worktrees/.termal/<delegation id>.objects the tree that was handed over, outside of the repository
"""

import fcntl
import os
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from termal.model.message import Record
from termal.procs.git import Git, GitFailed

OWN = ".termal"
MAKING = ".making"
_NOTE = ".json"
_OBJECTS = ".objects"
_HOLD_STEP_S = 0.05


class Note(Record, frozen=True):
    """``git_dir`` is the worktree's own part of the repository. It and what follows are empty until it was made."""

    delegation_id: str
    path: str
    source_root: str
    git_dir: str = ""
    base_commit: str = ""
    base_tree: str = ""


class Prepared(NamedTuple):
    """A worktree that is ready for a child. ``cwd``: the child's directory in it."""

    path: Path
    source_root: Path
    cwd: Path
    base_tree: str
    owned_paths: list[str]


class Shelf(NamedTuple):
    """The folder of all worktrees. Nothing of it is made before it is needed."""

    root: Path

    @property
    def own(self) -> Path:
        return self.root / OWN

    def making(self, delegation_id: str) -> Path:
        return self.own / f"{delegation_id}{MAKING}"

    def objects(self, delegation_id: str) -> Path:
        return self.own / f"{delegation_id}{_OBJECTS}"

    def note(self, delegation_id: str) -> Path:
        return self.own / f"{delegation_id}{_NOTE}"

    def write_note(self, note: Note) -> None:
        """Whole or not at all."""
        path = self.note(note.delegation_id)
        fresh = path.with_suffix(".new")
        write_durably(fresh, msgspec.json.encode(note))
        fresh.replace(path)

    def read_note(self, delegation_id: str) -> Note | None:
        """None where there is none, or none that can be read."""
        try:
            return msgspec.json.decode(self.note(delegation_id).read_bytes(), type=Note)
        except (OSError, msgspec.MsgspecError):
            return None

    def notes(self) -> list[Note]:
        """Of all worktrees, also of those that are gone."""
        paths = sorted(self.own.glob(f"*{_NOTE}")) if self.own.is_dir() else []
        found = [self.read_note(path.name.removesuffix(_NOTE)) for path in paths]
        return [note for note in found if note is not None]

    def in_the_making(self) -> list[str]:
        """Ids of the delegations whose worktree was begun and never confirmed."""
        paths = sorted(self.own.glob(f"*{MAKING}")) if self.own.is_dir() else []
        return [path.name.removesuffix(MAKING) for path in paths]


def of_note(note: Note, variables: dict[str, str] | None = None) -> Git:
    """git on that worktree, its repository named outright: what the child wrote into it cannot lead elsewhere."""
    path = Path(note.path)
    return Git(path, git_dir=Path(note.git_dir), work_tree=path, variables=variables or {})


def own_objects(shelf: Shelf, note: Note) -> dict[str, str]:
    """Variables that put new objects into the delegation's own folder; those of the repository can still be read."""
    common = Path(note.git_dir, (Path(note.git_dir) / "commondir").read_text().strip()).resolve()
    objects = shelf.objects(note.delegation_id)
    objects.mkdir(mode=0o700, exist_ok=True)
    return {"GIT_OBJECT_DIRECTORY": str(objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(common / "objects")}


def admin_folder(path: Path) -> str:
    """The worktree's own part of its repository, as its ``.git`` file says. Raises `GitFailed`."""
    try:
        word, _, where = (path / ".git").read_text("utf-8").partition(":")
    except (OSError, UnicodeDecodeError) as error:
        raise GitFailed(f"{path} is no worktree") from error
    folder = Path(path, where.strip())
    if word != "gitdir" or not folder.is_dir():
        raise GitFailed(f"{path} is no worktree")
    return str(folder.resolve())


def hold_mark(mark: Path, limit_s: float) -> int | None:
    """A descriptor that keeps the mark, and with it the worktree, to us and to whoever inherits it.

    A git that outlives its parent goes on writing: until it has ended, nobody else gets the mark. None when it was not
    free within ``limit_s``, or is not there.
    """
    until_s = time.monotonic() + limit_s
    try:
        descriptor = os.open(mark, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= until_s:
                os.close(descriptor)
                return None
            time.sleep(_HOLD_STEP_S)
        else:
            return descriptor


def write_durably(path: Path, data: bytes) -> None:
    """An owner-only file that is on the disk when this returns. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
