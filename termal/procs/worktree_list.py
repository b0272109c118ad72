"""The worktrees that are there: how large, in which state. Removes one on request, and what was never finished."""

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from termal.model.message import Record
from termal.procs.git import Git, GitFailed
from termal.procs.worktree import OWN, Note, Shelf, admin_folder, hold_mark, of_note
from termal.procs.worktree_index import changed_files
from termal.procs.worktree_make import remove_worktree
from termal.rules.verdicts import Missing, Stale

LOOK_S = 30.0
_DEPTH = 3
"""So deep below the folder of worktrees one is looked for."""

State = Literal["clean", "dirty", "unmerged", "making", "gone", "unknown"]


class Worktree(Record, frozen=True):
    """``changed_files`` counts against what the child was handed. ``detail`` says why a state is ``unknown``."""

    delegation_id: str
    path: str
    source_root: str
    size_bytes: int
    state: State
    changed_files: int = 0
    detail: str = ""


def worktrees(shelf: Shelf) -> list[Worktree]:
    """All of them, by path. Reads every file's size: seconds for a large one."""
    return [_examined(shelf, note) for note in sorted(_notes(shelf), key=lambda note: note.path)]


def remove(shelf: Shelf, wanted: str, *, force: bool) -> Worktree:
    """Remove the worktree of that delegation, or at that path. Raises `Missing`, `Stale` where work would be lost."""
    found = [note for note in _notes(shelf) if wanted in (note.delegation_id, note.path)]
    if not found:
        raise Missing(f"there is no worktree {wanted}", reason="worktreeMissing")
    row = _examined(shelf, found[0])
    if not force and row.state not in ("clean", "gone"):
        raise Stale(f"{row.path} is {row.state}: {_why(row)}", reason="worktreeNotClean")
    remove_worktree(shelf, row.delegation_id, Path(row.path), Path(row.source_root))
    return row


def clean_leftovers(shelf: Shelf, named: Collection[str]) -> list[str]:
    """Remove the worktrees that were begun for delegations that were never stored; their paths.

    ``named``: ids of all delegations that a row names, readable or not. Only what still has its mark is touched: a
    store that was put back may know less than the disk.
    """
    removed = []
    for delegation_id in shelf.in_the_making():
        note = shelf.read_note(delegation_id)
        if delegation_id in named or note is None:
            shelf.making(delegation_id).unlink(missing_ok=True)
            continue
        held = hold_mark(shelf.making(delegation_id), LOOK_S)
        if held is None:
            # Whoever began it still has a git running there: the next start finds it again.
            continue
        try:
            remove_worktree(shelf, delegation_id, Path(note.path), Path(note.source_root))
        finally:
            os.close(held)
        removed.append(note.path)
    return removed


def _notes(shelf: Shelf) -> list[Note]:
    """The notes, and one made up for each worktree that has none."""
    notes = shelf.notes()
    known = {note.path for note in notes}
    for path in _folders(shelf.root.resolve(), _DEPTH):
        if str(path) not in known:
            notes.append(_made_up(path))
    return notes


def _made_up(path: Path) -> Note:
    note = Note(delegation_id=path.name, path=str(path), source_root="")
    try:
        git_dir = admin_folder(path)
        root = Path(git_dir).parent.parent.parent
        base = of_note(replace(note, git_dir=git_dir)).line("rev-parse", "HEAD^{tree}", until_s=_until())
    except GitFailed:
        return note
    return replace(note, source_root=str(root), git_dir=git_dir, base_tree=base)


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except OSError:
        return
    for entry in entries:
        if entry.name == OWN:
            continue
        if (entry / ".git").exists():
            yield entry
        elif depth > 1:
            yield from _folders(entry, depth - 1)


def _examined(shelf: Shelf, note: Note) -> Worktree:
    state, changed, detail = _state(shelf, note)
    return Worktree(
        delegation_id=note.delegation_id,
        path=note.path,
        source_root=note.source_root,
        size_bytes=_size(Path(note.path)) + _size(shelf.objects(note.delegation_id)),
        state=state,
        changed_files=changed,
        detail=detail,
    )


def _state(shelf: Shelf, note: Note) -> tuple[State, int, str]:
    if not Path(note.path).is_dir():
        return "gone", 0, ""
    if shelf.making(note.delegation_id).exists():
        return "making", 0, ""
    try:
        changed = changed_files(shelf, note)
        if changed:
            return "dirty", len(changed), ""
        return ("unmerged" if _has_commits(note) else "clean"), 0, ""
    except GitFailed as error:
        return "unknown", 0, str(error)


def _has_commits(note: Note) -> bool:
    """Whether its HEAD has commits that are in no branch, tag or remote of the repository."""
    known = [note.base_commit] if note.base_commit else []
    git: Git = of_note(note)
    arguments = ("rev-list", "--max-count=1", "HEAD", "--not", *known, "--branches", "--tags", "--remotes")
    return bool(git.line(*arguments, until_s=_until()))


def _why(row: Worktree) -> str:
    words = {
        "dirty": f"{row.changed_files} changed files would be lost",
        "unmerged": "it has commits that are in no branch",
        "making": "a delegation is being made with it",
    }
    return words.get(row.state, row.detail)


def _size(folder: Path) -> int:
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(where, name)).st_size  # noqa: PTH118 - PERF: once for each file
            except OSError:
                # It went away meanwhile.
                continue
    return total


def _until() -> float:
    return time.monotonic() + LOOK_S
