"""Makes a worktree for a delegation: a copy of the repository as it stands, with its staged and unstaged changes apart.

Nothing is left behind when it fails: `Unfinished.discard` removes what there is, until `Unfinished.keep`.
"""

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from termal.faults import fault
from termal.procs.git import Git, GitFailed, TooMuch
from termal.procs.worktree import Note, Prepared, Shelf, admin_folder, hold_mark, of_note, write_durably
from termal.procs.worktree_index import tree_of_files
from termal.rules.delegation_paths import checked_owned_path, checked_worktree_path, contains, relative
from termal.rules.verdicts import Bad

PATCH_BYTES = 16 << 20
"""Staged and unstaged changes together."""
MAKE_S = 60.0
"""A checkout of a hundred thousand files on a slow disk takes that long; a caller that waits less may ask again."""
_AT_ONCE = 200
"""Paths on one command line."""
NAMED = 5
"""Untracked files that a refusal names."""
_DIFF = (
    "diff",
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--ignore-submodules=dirty",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


class Wanted(NamedTuple):
    """``cwd``: the canonical directory of the parent's work. ``worktree_path``: None for the usual place. ``hidden``:
    names that the worktree shall not have in that directory nor above it; git there takes them for unchanged."""

    delegation_id: str
    cwd: Path
    worktree_path: str | None = None
    owned_paths: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class _Changes(NamedTuple):
    """Patch files, None for an empty one."""

    staged: Path | None
    unstaged: Path | None


class Unfinished:
    """A worktree that belongs to no stored delegation yet."""

    def __init__(self, shelf: Shelf, wanted: Wanted, path: Path, source_root: Path) -> None:
        self.path = path
        self.source_root = source_root
        self._shelf = shelf
        self._id = wanted.delegation_id
        self._was_there = path.is_dir()

    def keep(self) -> None:
        """The delegation is stored: from now on only a person removes the worktree."""
        with contextlib.suppress(OSError):
            self._shelf.making(self._id).unlink()

    def discard(self) -> None:
        """Remove everything of it."""
        remove_worktree(self._shelf, self._id, self.path, self.source_root)
        if self._was_there:
            with contextlib.suppress(OSError):
                self.path.mkdir()


def prepare(shelf: Shelf, wanted: Wanted) -> tuple[Prepared, Unfinished]:
    """Make it, within `MAKE_S` seconds. Raises `Bad`, with everything as it was before."""
    until_s = time.monotonic() + MAKE_S
    if wanted.worktree_path is not None:
        checked_worktree_path(wanted.worktree_path)
    root = repository_of(wanted.cwd, until_s)
    path = _place(shelf, wanted, root)
    owned = canonical_owned(root, wanted.owned_paths)
    unfinished = Unfinished(shelf, wanted, path, root)
    patches = shelf.own / f"{wanted.delegation_id}.patches"
    try:
        changes = _collect(shelf, root, patches, until_s)
        base_tree = _make(shelf, wanted, unfinished, changes, until_s)
    except GitFailed as error:
        unfinished.discard()
        raise Bad("git could not make the worktree", reason="worktreeCreateFailed") from error
    except OSError as error:
        unfinished.discard()
        raise Bad("the folder of the worktree could not be made", reason="worktreeCreateFailed") from error
    except BaseException:
        unfinished.discard()
        raise
    finally:
        shutil.rmtree(patches, ignore_errors=True)
    inner = path / relative(str(root), str(wanted.cwd))
    return Prepared(path, root, inner, base_tree, owned), unfinished


def repository_of(cwd: Path, until_s: float) -> Path:
    """The canonical root of the repository around ``cwd``. Raises `Bad`."""
    try:
        root = Path(Git(cwd).line("rev-parse", "--show-toplevel", until_s=until_s)).resolve(strict=True)
    except (GitFailed, OSError) as error:
        raise Bad("the working directory is in no git repository", reason="notGitRepository") from error
    if not contains(str(root), str(cwd)):
        raise Bad("the working directory is in no git repository", reason="notGitRepository")
    return root


def canonical_owned(root: Path, paths: tuple[str, ...] | list[str]) -> list[str]:
    """Each owned path as it is stored: seen from the canonical ``root``, links resolved, no repeats. Raises `Bad`."""
    owned: list[str] = []
    for text in paths:
        checked = checked_owned_path(text)
        try:
            path = (root / checked).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise Bad(f"the owned path {checked!r} cannot be resolved", reason="ownedPathInvalid") from error
        if not contains(str(root), str(path)):
            raise Bad(f"the owned path {checked!r} leads out of the repository", reason="ownedPathInvalid")
        owned.append(relative(str(root), str(path)))
    return list(dict.fromkeys(owned))


def remove_worktree(shelf: Shelf, delegation_id: str, path: Path, source_root: Path) -> None:
    """The worktree, its entry in the repository, and what is kept beside it; its mark last."""
    _in_repository(source_root, "worktree", "remove", "--force", "--force", str(path))
    if path.is_symlink() or path.exists():
        shutil.rmtree(path, ignore_errors=True)
        _in_repository(source_root, "worktree", "prune")
    shutil.rmtree(shelf.objects(delegation_id), ignore_errors=True)
    shutil.rmtree(shelf.own / f"{delegation_id}.patches", ignore_errors=True)
    for left in (shelf.note(delegation_id), shelf.making(delegation_id)):
        left.unlink(missing_ok=True)


def _in_repository(root: Path, *arguments: str) -> None:
    """Tell the repository, if it is known and still there: it also finds out by itself, later."""
    if root.is_absolute():
        with contextlib.suppress(GitFailed):
            Git(root).run(*arguments, until_s=time.monotonic() + MAKE_S)


def _place(shelf: Shelf, wanted: Wanted, root: Path) -> Path:
    """Where the worktree goes. Raises `Bad`."""
    folder = shelf.root.resolve()
    path = folder / wanted.delegation_id
    if wanted.worktree_path is not None:
        try:
            path = Path(wanted.worktree_path.strip()).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise Bad("worktreePath cannot be resolved", reason="cwdForbiddenForm") from error
        below = Path(relative(str(folder), str(path))).parts if contains(str(folder), str(path)) else ()
        if not below or below[0].startswith("."):
            raise Bad("worktreePath must be below TermAl's own worktrees folder", reason="worktreePathOutsideRoot")
    if contains(str(root), str(path)) or contains(str(path), str(root)) or _inside_another(folder, path):
        raise Bad("the worktree must not lie in a repository", reason="worktreePathInsideRepository")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise Bad("the folder of the worktree is not empty", reason="worktreePathNotEmpty")
    return path


def _inside_another(folder: Path, path: Path) -> bool:
    return any((parent / ".git").exists() for parent in path.parents if folder in parent.parents)


def _collect(shelf: Shelf, root: Path, patches: Path, until_s: float) -> _Changes:
    """What is not committed. Raises `Bad`, `GitFailed`."""
    shelf.own.mkdir(mode=0o700, parents=True, exist_ok=True)
    patches.mkdir(mode=0o700)
    git = Git(root)
    untracked = sorted(git.names("ls-files", "--others", "--exclude-standard", "-z", until_s=until_s))
    if untracked:
        more = len(untracked) - NAMED
        names = ", ".join(untracked[:NAMED]) + (f" and {more} more" if more > 0 else "")
        raise Bad(f"commit, stage or ignore the untracked files first: {names}", reason="untrackedFiles")
    if git.names("ls-files", "--unmerged", "-z", until_s=until_s):
        raise GitFailed("a merge is not finished")
    staged, unstaged = patches / "staged", patches / "unstaged"
    left = PATCH_BYTES
    for target, options in ((staged, ("--cached",)), (unstaged, ())):
        try:
            git.run(*_DIFF, *options, until_s=until_s, limit_bytes=left, output=target)
        except TooMuch as error:
            text = f"the uncommitted changes have more than {PATCH_BYTES} bytes"
            raise Bad(text, reason="dirtyPatchTooLarge") from error
        left -= target.stat().st_size
    return _Changes(*(patch if patch.stat().st_size else None for patch in (staged, unstaged)))


def _make(shelf: Shelf, wanted: Wanted, unfinished: Unfinished, changes: _Changes, until_s: float) -> str:
    """The worktree with both patches in it; the tree of its files. Raises `GitFailed`, OSError."""
    path, root = unfinished.path, unfinished.source_root
    note = Note(delegation_id=wanted.delegation_id, path=str(path), source_root=str(root))
    shelf.write_note(note)
    mark = shelf.making(wanted.delegation_id)
    write_durably(mark, b"")
    held = hold_mark(mark, 0.0)
    keep = () if held is None else (held,)
    try:
        fault("worktree.marked")
        added = Git(root, keep_fds=keep)
        added.run("worktree", "add", "--quiet", "--detach", str(path), "HEAD", until_s=until_s)
        fault("worktree.added")
        made = Git(path, keep_fds=keep)
        tree = _fill(shelf, note, made, changes, until_s)
        _hide(made, _levels(relative(str(root), str(wanted.cwd))), wanted.hidden, until_s)
        return tree
    finally:
        for descriptor in keep:
            os.close(descriptor)


def _fill(shelf: Shelf, note: Note, made: Git, changes: _Changes, until_s: float) -> str:
    """Both patches into the fresh worktree; the tree of its files, noted."""
    if changes.staged is not None:
        made.run("apply", "--index", "--binary", "--whitespace=nowarn", "-", until_s=until_s, stdin=changes.staged)
    if changes.unstaged is not None:
        made.run("apply", "--binary", "--whitespace=nowarn", "-", until_s=until_s, stdin=changes.unstaged)
    note = replace(note, git_dir=admin_folder(made.cwd))
    commit, tree = of_note(note).line("rev-parse", "HEAD", "HEAD^{tree}", until_s=until_s).split()
    if any(changes):
        tree = tree_of_files(shelf, note, until_s)
    # PERF: without changes the tree of a fresh checkout is that of its commit; no file has to be looked at.
    shelf.write_note(replace(note, base_commit=commit, base_tree=tree))
    return tree


def _levels(inner: str) -> list[str]:
    """The prefixes of paths in the directory ``inner`` and in each one above it, the root's is empty."""
    parts = Path(inner).parts
    return ["", *(f"{'/'.join(parts[: number + 1])}/" for number in range(len(parts)))]


def _hide(made: Git, levels: list[str], names: tuple[str, ...], until_s: float) -> None:
    """Take files out of the worktree alone: its index keeps them as they are. Raises `GitFailed`, OSError."""
    places = [f"{level}{name}" for level in levels for name in names]
    files = made.names("ls-files", "-z", "--", *places, until_s=until_s) if places else []
    for start in range(0, len(files), _AT_ONCE):
        some = files[start : start + _AT_ONCE]
        # As they stand: what was changed in them and not staged is no change of the child.
        made.run("update-index", "--remove", "--", *some, until_s=until_s)
        left = made.names("ls-files", "-z", "--", *some, until_s=until_s)
        if left:
            made.run("update-index", "--skip-worktree", "--", *left, until_s=until_s)
    for place in (made.cwd / level / name for level in levels for name in names):
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
