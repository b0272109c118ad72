"""What an isolated worktree costs beside the ``git worktree add`` in it, in a repository of twenty thousand files.

Both are timed in one go: two checkouts after each other take one second and thirty, whatever else that disk writes.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from bench.figures import median, row
from termal.procs import worktree_make
from termal.procs.worktree import Shelf
from termal.procs.worktree_index import changed_files
from termal.procs.worktree_make import Wanted, prepare

FILES = 20_000
PER_FOLDER = 100
ROUNDS = int(os.environ.get("TERMAL_BENCH_ROUNDS", "3"))
ROUNDS_S = 5.0
"""After this time no further round begins: the parts of one go can be compared all the same."""
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
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _round(root: Path, shelf: Shelf, number: int) -> tuple[float, float, float]:
    """Seconds: of git's own command, of all of it, and of a look at what was changed then."""
    wanted = Wanted(f"delegation-{number}", root)
    passed_s: dict[str, float] = {}
    with mock.patch.object(worktree_make, "fault", lambda name: passed_s.update({name: time.perf_counter()})):
        began_s = time.perf_counter()
        made, unfinished = prepare(shelf, wanted)
        ours_s = time.perf_counter() - began_s
    (made.path / "package0" / "module0" / "file0.py").write_text("changed\n")
    note = shelf.read_note(wanted.delegation_id)
    assert note is not None
    look_s = _timed(lambda: changed_files(shelf, note))
    unfinished.discard()
    return passed_s["worktree.added"] - passed_s["worktree.marked"], ours_s, look_s


def _rounds(root: Path, shelf: Shelf) -> list[tuple[float, float, float]]:
    rounds: list[tuple[float, float, float]] = []
    until_s = time.perf_counter() + ROUNDS_S
    while len(rounds) < ROUNDS and (not rounds or time.perf_counter() < until_s):
        rounds.append(_round(root, shelf, len(rounds)))
    return rounds


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
            rounds = _rounds(root, shelf)
            times = median([ours / alone for alone, ours, _ in rounds])
            alone, ours, look = (median(column) for column in zip(*rounds, strict=True))
            figure = f"{alone * 1e3:.0f} -> {ours * 1e3:.0f} ms, x {times:.2f}"
            state = "with changes" if dirty else "clean"
            good &= row(f"git worktree add, isolated worktree, {state}", figure, f"x {BUDGET}", times <= BUDGET)
            row(f"files that a child changed, {state}", f"{look * 1e3:.0f} ms", "-", good=True)
        return good
