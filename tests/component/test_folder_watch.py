"""What changes below a folder, told by the kernel and found by looking: the same answers from both."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.procs import folder_notified, folder_scanned, inotify
from termal.procs.folder_facts import Ground, Look, Unwatchable
from termal.procs.folder_watch import Tree, WatchShare, tree_of
from termal.rules.file_changes import IGNORED_FOLDERS

KINDS = pytest.mark.parametrize("portable", [False, True], ids=["notified", "scanned"])
pytestmark = KINDS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "old.txt").write_text("old")
    (folder / "src" / "deep.txt").write_text("deep")
    return folder


@contextlib.contextmanager
def watching(root: Path, portable: bool, *, skipped: frozenset[str] = frozenset()) -> Iterator[Tree]:
    tree = tree_of(Ground(str(root), skipped, IGNORED_FOLDERS), time.time_ns(), portable=portable)
    tree.begin()
    try:
        yield tree
    finally:
        tree.close()


def told(look: Look) -> dict[str, str]:
    assert not look.flooded
    return {change.path: change.kind for change in look.changes}


def test_new_changed_and_deleted_files_are_told_once(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        assert told(tree.look()) == {}
        (root / "new.txt").write_text("new")
        (root / "old.txt").write_text("longer")
        (root / "src" / "deep.txt").unlink()

        assert told(tree.look()) == {"new.txt": "created", "old.txt": "modified", "src/deep.txt": "deleted"}
        assert told(tree.look()) == {}


def test_times_and_sizes_come_with_what_is_there(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        (root / "new.txt").write_text("12345")
        (root / "old.txt").unlink()

        new, gone = sorted(tree.look().changes)
        assert (new.path, new.size_bytes) == ("new.txt", 5)
        assert new.mtime_ms == (root / "new.txt").stat().st_mtime_ns // 1_000_000
        assert (gone.mtime_ms, gone.size_bytes) == (None, None)


def test_a_file_that_is_replaced_by_a_rename_is_a_changed_one(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        (root / "old.txt.tmp").write_text("another text")
        (root / "old.txt.tmp").rename(root / "old.txt")

        assert told(tree.look()) == {"old.txt": "modified"}


def test_new_folders_are_looked_into_at_any_depth(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "b" / "one").write_text("1")
        assert told(tree.look()) == {"a/b/one": "created"}
        (root / "a" / "b" / "two").write_text("2")
        assert told(tree.look()) == {"a/b/two": "created"}


def test_a_folder_that_moves_takes_its_files_along(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        (root / "src").rename(root / "lib")
        assert told(tree.look()) == {"src/deep.txt": "deleted", "lib/deep.txt": "created"}
        (root / "lib" / "deep.txt").write_text("changed again")
        assert told(tree.look()) == {"lib/deep.txt": "modified"}
        shutil.rmtree(root / "lib")
        assert told(tree.look()) == {"lib/deep.txt": "deleted"}


def test_a_folder_that_moves_into_a_new_one_is_followed(root: Path, portable: bool) -> None:
    (root / "src" / "inner").mkdir()
    (root / "src" / "inner" / "x").write_text("x")
    with watching(root, portable) as tree:
        (root / "new").mkdir()
        (root / "src").rename(root / "new" / "src")
        (root / "new" / "src" / "inner").rename(root / "new" / "inner")
        assert told(tree.look()) == {
            "src/deep.txt": "deleted",
            "src/inner/x": "deleted",
            "new/src/deep.txt": "created",
            "new/inner/x": "created",
        }
        (root / "new" / "src" / "deep.txt").write_text("changed again")
        (root / "new" / "inner" / "x").unlink()
        assert told(tree.look()) == {"new/src/deep.txt": "modified", "new/inner/x": "deleted"}


def test_a_folder_that_moves_into_a_new_one_may_have_a_successor(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        (root / "new").mkdir()
        (root / "src").rename(root / "new" / "src")
        (root / "src").mkdir()
        (root / "src" / "other.txt").write_text("other")
        told_first = {"src/deep.txt": "deleted", "src/other.txt": "created", "new/src/deep.txt": "created"}
        assert told(tree.look()) == told_first
        (root / "src" / "other.txt").write_text("changed")
        shutil.rmtree(root / "new")
        assert told(tree.look()) == {"src/other.txt": "modified", "new/src/deep.txt": "deleted"}


def test_a_folder_that_leaves_is_watched_no_more(root: Path, portable: bool, tmp_path: Path) -> None:
    with watching(root, portable) as tree:
        (root / "src").rename(tmp_path / "elsewhere")
        assert told(tree.look()) == {"src/deep.txt": "deleted"}
        (tmp_path / "elsewhere" / "deep.txt").write_text("nobody's business")
        assert told(tree.look()) == {}


@pytest.mark.parametrize("name", ["node_modules", ".git", "__pycache__"])
def test_what_tools_write_for_themselves_is_not_looked_at(root: Path, portable: bool, name: str) -> None:
    (root / name).mkdir()
    with watching(root, portable) as tree:
        (root / name / "x").write_text("x")
        (root / "src" / name / "deep").mkdir(parents=True)
        (root / "src" / name / "deep" / "x").write_text("x")

        assert told(tree.look()) == {}


def test_a_skipped_folder_is_not_looked_at_and_its_name_is_elsewhere(root: Path, portable: bool) -> None:
    (root / "home").mkdir()
    with watching(root, portable, skipped=frozenset({str(root / "home")})) as tree:
        (root / "home" / "termal.sqlite").write_text("x")
        (root / "src" / "home").mkdir()
        (root / "src" / "home" / "x").write_text("x")

        assert told(tree.look()) == {"src/home/x": "created"}


def test_links_are_told_and_never_followed(root: Path, portable: bool, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with watching(root, portable) as tree:
        (root / "link").symlink_to(outside)
        assert told(tree.look()) == {"link": "created"}
        (outside / "x").write_text("x")
        assert told(tree.look()) == {}


def test_what_is_neither_file_nor_link_is_of_another_kind(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        os.mkfifo(root / "pipe")
        assert told(tree.look()) == {"pipe": "other"}


def test_a_name_that_is_no_text_is_told(root: Path, portable: bool) -> None:
    name = os.fsdecode(b"caf\xe9")
    with watching(root, portable) as tree:
        (root / name).write_text("x")
        assert told(tree.look()) == {name: "created"}


def test_what_comes_and_goes_between_two_looks_was_nothing(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        (root / "swap").write_text("x")
        (root / "swap").unlink()
        assert told(tree.look()) == {}


def test_what_was_written_while_the_folders_were_read_is_a_change(root: Path, portable: bool) -> None:
    """An agent does not wait for that. Which of them were there before nobody can know: a new name in their folder
    speaks for new files."""
    since_ns = time.time_ns()
    tree = tree_of(Ground(str(root), frozenset(), IGNORED_FOLDERS), since_ns, portable=portable)
    (root / "src" / "new.txt").write_text("new")
    hour_ns = 3_600_000_000_000
    for quiet in (root, root / "src" / "deep.txt"):
        os.utime(quiet, ns=(since_ns - hour_ns, since_ns - hour_ns))
    for changed in (root / "old.txt", root / "src" / "new.txt", root / "src"):
        os.utime(changed, ns=(since_ns + hour_ns, since_ns + hour_ns))
    tree.begin()
    try:
        assert told(tree.look()) == {"old.txt": "modified", "src/new.txt": "created"}
        assert told(tree.look()) == {}
    finally:
        tree.close()


def test_a_storm_of_changes_ends_the_watch(root: Path, portable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (folder_notified, folder_scanned):
        monkeypatch.setattr(module, "TURN_PATHS", 10)
    with watching(root, portable) as tree:
        for number in range(11):
            (root / f"{number}").write_text("x")

        assert tree.look() == Look([], flooded=True)
        (root / "later").write_text("x")
        assert tree.look() == Look([])
        assert tree.fd is None


def test_a_folder_with_too_many_files_is_not_watched(
    root: Path, portable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (folder_notified, folder_scanned):
        monkeypatch.setattr(module, "FILES", 1)
    with pytest.raises(Unwatchable, match="more than 1 files"), watching(root, portable):
        pass


def test_a_folder_that_grows_too_large_is_watched_no_more(
    root: Path, portable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (folder_notified, folder_scanned):
        monkeypatch.setattr(module, "FILES", 3)
    with watching(root, portable) as tree:
        (root / "third").write_text("x")
        assert told(tree.look()) == {"third": "created"}
        (root / "fourth").write_text("x")
        assert tree.look().flooded


def test_files_that_are_gone_again_do_not_count(root: Path, portable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (folder_notified, folder_scanned):
        monkeypatch.setattr(module, "FILES", 3)
    with watching(root, portable) as tree:
        for _ in range(3):
            (root / "swap").write_text("x")
            (root / "src" / "swap").mkdir()
            (root / "src" / "swap").rmdir()
            assert told(tree.look()) == {"swap": "created"}
            (root / "swap").rename(root / "moved")
            assert told(tree.look()) == {"swap": "deleted", "moved": "created"}
            (root / "moved").unlink()
            assert told(tree.look()) == {"moved": "deleted"}


def test_a_folder_that_is_not_there_is_not_watched(root: Path, portable: bool) -> None:
    with pytest.raises(Unwatchable), watching(root / "nowhere", portable):
        pass


def test_a_folder_that_nobody_may_read_hides_only_itself(root: Path, portable: bool) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (root / "src").chmod(0)
    try:
        with watching(root, portable) as tree:
            (root / "new").write_text("x")
            assert told(tree.look()) == {"new": "created"}
    finally:
        (root / "src").chmod(0o700)


def test_the_root_may_vanish_under_the_watch(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        shutil.rmtree(root)
        assert told(tree.look()) == {"old.txt": "deleted", "src/deep.txt": "deleted"}
        assert told(tree.look()) == {}


def test_a_root_that_is_made_again_is_watched_again(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        shutil.rmtree(root)
        assert told(tree.look()) == {"old.txt": "deleted", "src/deep.txt": "deleted"}
        (root / "src").mkdir(parents=True)
        (root / "src" / "deep.txt").write_text("again")
        assert told(tree.look()) == {"src/deep.txt": "created"}
        (root / "src" / "deep.txt").write_text("changed")
        (root / "new.txt").write_text("new")
        assert told(tree.look()) == {"src/deep.txt": "modified", "new.txt": "created"}


def test_a_root_that_is_made_again_between_two_looks_is_another_one(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        shutil.rmtree(root)
        root.mkdir()
        (root / "old.txt").write_text("another")
        assert told(tree.look()) == {"old.txt": "modified", "src/deep.txt": "deleted"}
        (root / "old.txt").write_text("changed")
        assert told(tree.look()) == {"old.txt": "modified"}


@pytest.mark.parametrize("above", [False, True], ids=["itself", "with-the-folder-above"])
def test_another_root_in_the_place_of_one_that_moved_is_watched(
    tmp_path: Path, root: Path, portable: bool, above: bool
) -> None:
    inner = root / "src" if above else root
    moved = tmp_path / "moved"
    with watching(inner, portable) as tree:
        before = {path.relative_to(inner).as_posix(): "deleted" for path in inner.rglob("*.txt")}
        root.rename(moved)
        next(moved.glob("**/deep.txt")).write_text("nobody's business")
        assert told(tree.look()) == before
        inner.mkdir(parents=True)
        (inner / "new.txt").write_text("new")
        assert told(tree.look()) == {"new.txt": "created"}
        moved.joinpath("old.txt").write_text("nobody's business")
        assert told(tree.look()) == {}


def test_a_file_in_the_place_of_the_root_has_nothing_in_it(root: Path, portable: bool) -> None:
    with watching(root, portable) as tree:
        shutil.rmtree(root)
        root.write_text("no folder")
        assert told(tree.look()) == {"old.txt": "deleted", "src/deep.txt": "deleted"}
        assert told(tree.look()) == {}


class TestKernelLimits:
    """What the kernel does not allow."""

    def test_a_share_of_the_watches_is_taken_at_most(
        self, root: Path, portable: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if portable:
            pytest.skip("takes no watches")
        monkeypatch.setattr(inotify, "watches_allowed", lambda: folder_notified.WATCH_SHARE)
        with pytest.raises(Unwatchable, match="more than 1 folders"), watching(root, portable):
            pass

    def test_trees_that_share_the_watches_are_bounded_together(
        self, root: Path, portable: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if portable:
            pytest.skip("takes no watches")
        monkeypatch.setattr(inotify, "watches_allowed", lambda: 5 * folder_notified.WATCH_SHARE)
        share = WatchShare()

        def tree() -> Tree:
            return tree_of(Ground(str(root), frozenset(), IGNORED_FOLDERS), time.time_ns(), portable=False, share=share)

        first, second, third = tree(), tree(), tree()
        first.begin()
        second.begin()
        assert share.taken == 4
        with pytest.raises(Unwatchable, match="together with others it has more than 5 folders"):
            third.begin()
        assert share.taken == 4
        (root / "new" / "inner").mkdir(parents=True)
        assert first.look().flooded
        assert told(second.look()) == {}
        assert share.taken == 4
        (root / "src").rename(root / "new" / "src")
        assert told(second.look()) == {"src/deep.txt": "deleted", "new/src/deep.txt": "created"}
        shutil.rmtree(root / "new")
        second.look()
        assert share.taken == 1
        for each in (first, second, third):
            each.close()
            each.close()
        assert share.taken == 0

    def test_no_watch_left_is_said(self, root: Path, portable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if portable:
            pytest.skip("takes no watches")

        def refuse(_: inotify.Inotify, __: str) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(inotify.Inotify, "add", refuse)
        with pytest.raises(Unwatchable, match="No space"), watching(root, portable):
            pass
