"""Looks at the files of a worktree through an index of its own: neither the repository nor its index is touched."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from termal.procs.git import Git, GitFailed
from termal.procs.worktree import Note, Shelf, of_note, own_objects

AUDIT_S = 30.0
LIST_BYTES = 64 << 20


def tree_of_files(shelf: Shelf, note: Note, until_s: float) -> str:
    """The tree of the files as they stand, ignored ones left out; new objects go to the delegation's own folder.

    Raises `GitFailed`, OSError.
    """
    with _own_index(shelf, note) as git:
        git.run("add", "--all", until_s=until_s)
        return git.line("write-tree", until_s=until_s)


def changed_files(shelf: Shelf, note: Note, *, base_tree: str | None = None) -> list[str]:
    """Paths that differ from the tree that was handed over, sorted, seen from the worktree; ignored ones are left out.

    Committed or not makes no difference. Raises `GitFailed`, also after `AUDIT_S` seconds.
    """
    until_s = time.monotonic() + AUDIT_S
    base = base_tree or note.base_tree
    if not base or not note.git_dir:
        raise GitFailed("nothing is known of the tree that was handed over")
    try:
        with _own_index(shelf, note) as git:
            left = _take_all(git, until_s)
            names = git.names(
                *("diff-index", "--cached", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv"),
                *("--ignore-submodules=dirty", "-z", base, "--"),
                until_s=until_s,
                limit_bytes=LIST_BYTES,
            )
    except OSError as error:
        raise GitFailed(f"the worktree cannot be read: {error}") from error
    return sorted({*names, *left})


def _take_all(git: Git, until_s: float) -> list[str]:
    """Every file into the index; the names of what git would not take: unreadable files, empty repositories."""
    try:
        git.run("add", "--all", "--ignore-errors", until_s=until_s)
    except GitFailed:
        # One file that cannot be taken must not hide the others.
        new = git.names(
            *("ls-files", "--others", "--exclude-standard", "-z"),
            until_s=until_s,
            limit_bytes=LIST_BYTES,
        )
        changed = git.names("diff-files", "--name-only", "-z", until_s=until_s, limit_bytes=LIST_BYTES)
        return [name.rstrip("/") for name in new + changed]
    return []


@contextmanager
def _own_index(shelf: Shelf, note: Note) -> Iterator[Git]:
    """git on the worktree with a copy of its index, so that only what has changed is read. Raises OSError."""
    index = Path(note.git_dir) / "index"
    shelf.own.mkdir(mode=0o700, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="index-", dir=shelf.own))
    try:
        copy = folder / "index"
        if index.exists():
            shutil.copyfile(index, copy)
            facts = index.stat()
            # By its time git knows which files may have changed unseen in the moment when it was written.
            os.utime(copy, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        yield of_note(note, {**own_objects(shelf, note), "GIT_INDEX_FILE": str(copy)})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
