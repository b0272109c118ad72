"""What an isolated worktree costs beside ``git worktree add`` alone, in a repository of twenty thousand files."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import median, row
from termal.procs.worktree import Prepared, Shelf
from termal.procs.worktree_index import changed_files
from termal.procs.worktree_make import Unfinished, Wanted, prepare

FILES = 20_000
PER_FOLDER = 100
ROUNDS = int(os.environ.get("TERMAL_BENCH_ROUNDS", "2"))
"""A checkout of that many files takes seconds, and there are two of them in a round."""
BUDGET = 1.5
"""Times ``git worktree add``."""
_AUTHOR = ("-c", "user.name=Bench", "-c", "user.email=bench@example.invalid")


def _git(cwd: Path, *arguments: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    subprocess.run(["git", *_AUTHOR, *arguments], cwd=cwd, env=environment, check=True, capture_output=True)


def _repository(root: Path) -> None:
    for folder in range(FILES // PER_FOLDER):
        place = root / f"package{folder // 20}" / f"module{folder}"
        place.mkdir(parents=True)
        for number in range(PER_FOLDER):
            (place / f"file{number}.py").write_text(f"# {folder}.{number}\n" + "value = 1\n" * 20)
    _git(root, "init", "--quiet")
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", "all of it")
    # A commit leaves files that are as new as the index; a checkout later does not.
    _git(root, "update-index", "-q", "--refresh")


def _timed(action: Callable[[], object]) -> float:
    # What was written before must not be written out at this one's cost.
    os.sync()
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _alone_s(root: Path, plain: Path) -> float:
    taken_s = _timed(lambda: _git(root, "worktree", "add", "--detach", str(plain), "HEAD"))
    _git(root, "worktree", "remove", "--force", str(plain))
    return taken_s


def _round(root: Path, shelf: Shelf, number: int) -> tuple[float, float, float]:
    """One and the other, each first in every second round."""
    plain = shelf.root / f"plain-{number}"
    first_s = _alone_s(root, plain) if number % 2 == 0 else None
    wanted = Wanted(f"delegation-{number}", root)
    done: list[tuple[Prepared, Unfinished]] = []
    ours_s = _timed(lambda: done.append(prepare(shelf, wanted)))
    made, unfinished = done[0]
    (made.path / "package0" / "module0" / "file0.py").write_text("changed\n")
    note = shelf.read_note(wanted.delegation_id)
    assert note is not None
    look_s = _timed(lambda: changed_files(shelf, note))
    unfinished.discard()
    return (_alone_s(root, plain) if first_s is None else first_s), ours_s, look_s


def main() -> bool:
    with tempfile.TemporaryDirectory(prefix="tml-") as folder:
        root, shelf = Path(folder).resolve() / "repository", Shelf(Path(folder).resolve() / "worktrees")
        root.mkdir()
        shelf.root.mkdir()
        _repository(root)
        good = True
        for dirty in (False, True):
            if dirty:
                (root / "package1" / "module20" / "file1.py").write_text("staged\n")
                _git(root, "add", "--all")
                (root / "package1" / "module20" / "file2.py").write_text("unstaged\n")
            # One after the other: what the machine does besides hits both.
            rounds = [_round(root, shelf, number) for number in range(ROUNDS)]
            alone, ours, look = (median(column) for column in zip(*rounds, strict=True))
            figure = f"{alone * 1e3:.0f} -> {ours * 1e3:.0f} ms, x {ours / alone:.2f}"
            state = "with changes" if dirty else "clean"
            good &= row(f"git worktree add, isolated worktree, {state}", figure, f"x {BUDGET}", ours / alone <= BUDGET)
            row(f"files that a child changed, {state}", f"{look * 1e3:.0f} ms", "-", good=True)
        return good
