"""Worktrees of delegations over real repositories: what is copied, what is refused, what is left behind."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from termal.cli.checks import check_worktrees
from termal.home import find_home
from termal.procs import worktree_make
from termal.procs.git import Git, GitFailed, TooMuch
from termal.procs.worktree import Prepared, Shelf, hold_mark
from termal.procs.worktree_index import changed_files
from termal.procs.worktree_list import clean_leftovers, remove, worktrees
from termal.procs.worktree_make import PATCH_BYTES, Unfinished, Wanted, prepare
from termal.rules.verdicts import Bad, Missing, Stale
from tests.support.repository import Repository

ID = "delegation-1"


@pytest.fixture
def repository(run_dir: Path) -> Repository:
    return Repository(run_dir / "repo")


@pytest.fixture
def shelf(run_dir: Path) -> Shelf:
    (run_dir / "worktrees").mkdir()
    return Shelf((run_dir / "worktrees").resolve())


def make(
    shelf: Shelf, repository: Repository, cwd: str = "", path: str | None = None, owned: tuple[str, ...] = ()
) -> tuple[Prepared, Unfinished]:
    return prepare(shelf, Wanted(ID, repository.root / cwd, path, owned))


def refusal(shelf: Shelf, repository: Repository, **keys: object) -> Bad:
    """Why it was refused; nothing of it may be left."""
    before = [path for path in sorted(shelf.root.rglob("*")) if path != shelf.own]
    listed = repository.git("worktree", "list")
    with pytest.raises(Bad) as refused:
        make(shelf, repository, **keys)  # type: ignore[arg-type]
    assert [path for path in sorted(shelf.root.rglob("*")) if path != shelf.own] == before
    assert repository.git("worktree", "list") == listed
    return refused.value


# -------------------------------------------------------------------------- what is made


def test_a_clean_repository_is_copied_with_a_detached_head(shelf: Shelf, repository: Repository) -> None:
    made, unfinished = make(shelf, repository, cwd="sub")
    assert made.path == shelf.root / ID
    assert made.cwd == shelf.root / ID / "sub"
    assert made.source_root == repository.root
    assert made.base_tree == repository.git("rev-parse", "HEAD^{tree}").strip()
    assert (made.path / "a").read_text() == "one\ntwo\nthree\n"
    assert repository.git("rev-parse", "--abbrev-ref", "HEAD", cwd=made.path).strip() == "HEAD"
    assert repository.git("branch", "--list").split() == ["*", "main"]
    assert shelf.in_the_making() == [ID]
    unfinished.keep()
    assert shelf.in_the_making() == []


@pytest.mark.parametrize("change", [None, "edited", "removed"])
def test_what_shall_not_be_seen_is_not_there_and_no_change(
    shelf: Shelf, repository: Repository, change: str | None
) -> None:
    for name in (".agent/plugin/x.js", "sub/.agent/y.js", "other/.agent/z.js", "agent.json"):
        repository.write(name, "code\n")
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", "hidden")
    if change == "edited":
        repository.write("agent.json", "changed\n")
    elif change == "removed":
        (repository.root / "agent.json").unlink()
    wanted = Wanted(ID, repository.root / "sub", hidden=(".agent", "agent.json"))
    made, _ = prepare(shelf, wanted)
    assert not (made.path / ".agent").exists()
    assert not (made.path / "agent.json").exists()
    assert not (made.cwd / ".agent").exists()
    assert (made.path / "other" / ".agent" / "z.js").exists(), "no agent that starts there looks into it"
    assert repository.git("status", "--short", "--", "sub", ".agent", cwd=made.path) == ""
    note = shelf.read_note(ID)
    assert note is not None
    assert changed_files(shelf, note) == []
    (made.path / "a").write_text("of the child\n")
    assert changed_files(shelf, note) == ["a"]


def test_staged_and_unstaged_changes_are_copied_apart(shelf: Shelf, repository: Repository) -> None:
    repository.write("a", "one\ntwo\nthree\nstaged\n")
    repository.write("new", "added\n")
    repository.write("picture", b"\0\1\2binary\n")
    repository.git("add", "--all")
    repository.write("a", "unstaged\none\ntwo\nthree\nstaged\n")
    repository.write("picture", b"\0\3other\n")
    (repository.root / "sub" / "b").unlink()
    (repository.root / "new").chmod(0o755)
    before = repository.fingerprint()
    made, _ = make(shelf, repository)
    for option in ((), ("--cached",)):
        wanted = repository.git("diff", "--binary", *option)
        assert wanted
        assert repository.git("diff", "--binary", *option, cwd=made.path) == wanted
    assert repository.fingerprint() == before
    assert repository.git("rev-parse", "HEAD^{tree}").strip() != made.base_tree
    assert changed_files(shelf, shelf.read_note(ID)) == []  # type: ignore[arg-type]


def test_settings_of_the_repository_do_not_spoil_the_copy(shelf: Shelf, repository: Repository) -> None:
    for key, value in (
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.external", "false"),
        ("color.ui", "always"),
        ("core.quotePath", "true"),
        ("apply.whitespace", "error"),
        ("diff.renames", "copies"),
    ):
        repository.git("config", key, value)
    repository.write("\u00e9 name", "trailing blank \n")
    repository.git("add", "--all")
    repository.write("a", "changed \n")
    made, _ = make(shelf, repository)
    assert (made.path / "a").read_text() == "changed \n"
    assert repository.git("status", "--porcelain", cwd=made.path) == repository.git("status", "--porcelain")


def test_no_hook_runs(shelf: Shelf, repository: Repository) -> None:
    hook = repository.write(".git/hooks/post-checkout", '#!/bin/sh\ntouch "$(git rev-parse --git-common-dir)/ran"\n')
    hook.chmod(0o755)
    make(shelf, repository)
    assert not (repository.root / ".git" / "ran").exists()


def test_a_place_below_the_folder_of_worktrees_may_be_named(shelf: Shelf, repository: Repository) -> None:
    place = shelf.root / "mine" / "here"
    place.mkdir(parents=True)
    made, unfinished = make(shelf, repository, path=f" {place} ")
    assert made.path == place
    unfinished.discard()
    assert place.is_dir()
    assert not any(place.iterdir())


def test_a_worktree_of_a_worktree_can_be_made(shelf: Shelf, repository: Repository) -> None:
    first, unfinished = make(shelf, repository)
    unfinished.keep()
    made, _ = prepare(shelf, Wanted("delegation-2", first.cwd / "sub"))
    assert made.source_root == first.path
    assert (made.cwd / "b").read_text() == "bee\n"


# ----------------------------------------------------------------------- what is refused


def test_a_folder_in_no_repository_is_refused(shelf: Shelf, run_dir: Path) -> None:
    with pytest.raises(Bad) as refused:
        prepare(shelf, Wanted(ID, run_dir.resolve()))
    assert refused.value.reason == "notGitRepository"


def test_a_repository_without_a_commit_is_refused(shelf: Shelf, repository: Repository, run_dir: Path) -> None:
    repository.git("init", "--quiet", str(run_dir / "empty"))
    with pytest.raises(Bad) as refused:
        prepare(shelf, Wanted(ID, (run_dir / "empty").resolve()))
    assert refused.value.reason == "worktreeCreateFailed"
    assert list(shelf.root.iterdir()) == [shelf.own]
    assert list(shelf.own.iterdir()) == []


@pytest.mark.case("A21")
def test_untracked_files_are_refused_by_name(shelf: Shelf, repository: Repository) -> None:
    repository.write("zz", "x")
    repository.write(".gitignore", "*.log\n")
    repository.write("x.log", "ignored")
    error = refusal(shelf, repository)
    assert error.reason == "untrackedFiles"
    assert error.text.endswith(": .gitignore, zz")
    for number in range(6):
        repository.write(f"sub/n{number}", "x")
    assert refusal(shelf, repository, cwd="sub").text.endswith(
        ": .gitignore, sub/n0, sub/n1, sub/n2, sub/n3 and 3 more"
    )


@pytest.mark.case("A22")
def test_uncommitted_changes_are_bounded_together(shelf: Shelf, repository: Repository) -> None:
    def fill(staged: int, unstaged: int) -> int:
        repository.write("a", "s" * staged + "\n")
        repository.git("add", "a")
        repository.write("sub/b", "u" * unstaged + "\n")
        return sum(len(repository.git("diff", "--full-index", *option)) for option in ((), ("--cached",)))

    half = PATCH_BYTES // 2
    over = fill(half, half) - PATCH_BYTES
    assert fill(half, half - over) == PATCH_BYTES
    made, unfinished = make(shelf, repository)
    assert (made.path / "sub" / "b").stat().st_size == half - over + 1
    unfinished.discard()
    fill(half, half - over + 1)
    assert refusal(shelf, repository).reason == "dirtyPatchTooLarge"


@pytest.mark.case("A23")
def test_places_that_are_refused(shelf: Shelf, repository: Repository, run_dir: Path) -> None:
    outside = str(run_dir.resolve() / "elsewhere")
    assert refusal(shelf, repository, path=outside).reason == "worktreePathOutsideRoot"
    full = shelf.root / "full"
    full.mkdir()
    (full / "x").touch()
    assert refusal(shelf, repository, path=str(full)).reason == "worktreePathNotEmpty"
    assert refusal(shelf, repository, path=str(full / "x")).reason == "worktreePathNotEmpty"
    inside = Shelf(repository.root / "trees")
    inside.root.mkdir()
    with pytest.raises(Bad) as refused:
        prepare(inside, Wanted(ID, repository.root, str(inside.root / "mine")))
    assert refused.value.reason == "worktreePathInsideRepository"


def test_more_places_that_are_refused(shelf: Shelf, repository: Repository, run_dir: Path) -> None:
    (shelf.root / "link").symlink_to(run_dir)
    for path in (str(shelf.root), str(shelf.root / "link" / "x"), str(shelf.own / "x"), str(shelf.root / ".x")):
        assert refusal(shelf, repository, path=path).reason == "worktreePathOutsideRoot"
    for path in ("relative", str(shelf.root / ".." / "x"), f"{shelf.root}/./x", "//server/share"):
        assert refusal(shelf, repository, path=path).reason == "cwdForbiddenForm"
    assert refusal(shelf, repository, path="/" + "x" * 4096).reason == "cwdTooLong"
    _, unfinished = make(shelf, repository)
    unfinished.keep()
    with pytest.raises(Bad) as refused:
        prepare(shelf, Wanted("delegation-2", repository.root, str(shelf.root / ID / "deep")))
    assert refused.value.reason == "worktreePathInsideRepository"


@pytest.mark.case("A32")
@pytest.mark.parametrize("path", ["../x", "out/x", "/etc", "sub/../../x"])
def test_owned_paths_that_lead_out_are_refused(shelf: Shelf, repository: Repository, run_dir: Path, path: str) -> None:
    (repository.root / "out").symlink_to(run_dir)
    repository.commit("a link out of the repository")
    assert refusal(shelf, repository, owned=(path,)).reason == "ownedPathInvalid"


@pytest.mark.case("A32")
def test_owned_paths_are_kept_as_they_really_are(shelf: Shelf, repository: Repository) -> None:
    (repository.root / "link").symlink_to("sub")
    repository.commit("a link")
    owned = ("./docs/", "link/new", str(repository.root / "a"), "docs")
    made, _ = make(shelf, repository, cwd="sub", owned=owned)
    assert made.owned_paths == ["docs", "sub/new", "a"]


def test_a_merge_that_is_not_finished_is_refused(shelf: Shelf, repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "other")
    repository.write("a", "theirs\n")
    repository.commit("theirs")
    repository.git("checkout", "--quiet", "main")
    repository.write("a", "ours\n")
    repository.commit("ours")
    with pytest.raises(AssertionError):
        repository.git("merge", "other")
    assert refusal(shelf, repository).reason == "worktreeCreateFailed"


def test_a_copy_that_fails_half_way_leaves_nothing(
    shelf: Shelf, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.write("a", "changed\n")

    def fail(*_: object) -> str:
        raise GitFailed("no")

    monkeypatch.setattr(worktree_make, "tree_of_files", fail)
    before = repository.fingerprint()
    assert refusal(shelf, repository).reason == "worktreeCreateFailed"
    assert repository.fingerprint() == before
    assert list(shelf.own.iterdir()) == []


# ------------------------------------------------------------------- what a child changed


def test_every_change_is_found_and_no_ignored_file(shelf: Shelf, repository: Repository, run_dir: Path) -> None:
    repository.write(".gitignore", "*.log\n")
    repository.commit("ignore")
    made, _ = make(shelf, repository)
    before = repository.fingerprint()
    note = shelf.read_note(ID)
    assert note is not None
    assert changed_files(shelf, note) == []
    (made.path / "a").write_text("one\ntwo\nthree!\n")
    (made.path / "sub" / "b").unlink()
    (made.path / "sub" / "c").write_text("new")
    (made.path / "x.log").write_text("ignored")
    (made.path / "out").symlink_to(run_dir)
    (made.path / ".gitignore").chmod(0o755)
    names = [".gitignore", "a", "out", "sub/b", "sub/c"]
    assert changed_files(shelf, note) == names
    repository.git("add", "--all", cwd=made.path)
    assert changed_files(shelf, note) == names
    after = repository.fingerprint()
    assert {name for name in after if name not in before and not name.startswith(".git/objects/")} == set()


def test_committed_or_not_makes_no_difference(shelf: Shelf, repository: Repository) -> None:
    made, _ = make(shelf, repository)
    (made.path / "a").write_text("committed\n")
    repository.git("commit", "--quiet", "--all", "--message", "child's", cwd=made.path)
    (made.path / "b").write_text("not\n")
    note = shelf.read_note(ID)
    assert note is not None
    assert changed_files(shelf, note) == ["a", "b"]


def test_what_a_child_was_handed_is_no_change_of_its_own(shelf: Shelf, repository: Repository) -> None:
    repository.write("a", "dirty\n")
    made, _ = make(shelf, repository)
    note = shelf.read_note(ID)
    assert note is not None
    (made.path / "a").write_text("one\ntwo\nthree\n")
    assert changed_files(shelf, note) == ["a"]
    (made.path / "a").write_text("dirty\n")
    assert changed_files(shelf, note) == []


def test_looking_writes_nothing_into_the_repository(shelf: Shelf, repository: Repository) -> None:
    made, _ = make(shelf, repository)
    (made.path / "big").write_text("x" * 10000)
    before = repository.fingerprint()
    note = shelf.read_note(ID)
    assert note is not None
    assert changed_files(shelf, note) == ["big"]
    assert repository.fingerprint() == before
    assert repository.git("status", "--porcelain", cwd=made.path) == "?? big\n"
    assert [path.name for path in shelf.own.iterdir() if path.name.startswith("index-")] == []


def test_a_child_cannot_lead_the_look_to_a_repository_of_its_own(shelf: Shelf, repository: Repository) -> None:
    made, _ = make(shelf, repository)
    trap = made.path / "trap"
    repository.git("init", "--quiet", str(trap))
    (trap / ".git" / "config").write_text('[core]\n\tfsmonitor = "touch ran"\n[filter "x"]\n\tclean = touch ran\n')
    (made.path / ".git").unlink()
    (made.path / ".git").write_text(f"gitdir: {trap / '.git'}\n")
    (made.path / ".gitattributes").write_text("* filter=x\n")
    (made.path / "a").write_text("changed\n")
    note = shelf.read_note(ID)
    assert note is not None
    assert changed_files(shelf, note) == [".gitattributes", "a", "trap"]
    assert list(made.path.rglob("ran")) == []


def test_a_file_that_cannot_be_read_hides_no_other(shelf: Shelf, repository: Repository) -> None:
    made, _ = make(shelf, repository)
    repository.git("init", "--quiet", str(made.path / "empty"))
    (made.path / "b").write_text("new")
    (made.path / "sub" / "b").unlink()
    note = shelf.read_note(ID)
    assert note is not None
    assert changed_files(shelf, note) == ["b", "empty", "sub/b"]


def test_a_worktree_that_is_gone_cannot_be_compared(shelf: Shelf, repository: Repository) -> None:
    made, _ = make(shelf, repository)
    note = shelf.read_note(ID)
    assert note is not None
    repository.git("worktree", "remove", "--force", str(made.path))
    with pytest.raises(GitFailed):
        changed_files(shelf, note)


# ------------------------------------------------------------------------- what git may do


def test_git_is_bounded_in_time_and_output(repository: Repository, run_dir: Path) -> None:
    git = Git(repository.root)
    with pytest.raises(GitFailed, match="too long"):
        git.run("log", until_s=time.monotonic() - 1)
    with pytest.raises(TooMuch):
        git.run("log", until_s=time.monotonic() + 10, limit_bytes=10)
    with pytest.raises(GitFailed, match="not a git command"):
        git.run("no-such-thing", until_s=time.monotonic() + 10)
    with pytest.raises(GitFailed, match="cannot be run"):
        Git(run_dir / "missing").run("log", until_s=time.monotonic() + 10)


def test_git_waits_for_nobody(repository: Repository, run_dir: Path) -> None:
    fifo = run_dir / "fifo"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)
    try:
        with pytest.raises(GitFailed, match="too long"):
            Git(repository.root).run("hash-object", str(fifo), until_s=time.monotonic() + 0.2)
    finally:
        os.close(holder)


# --------------------------------------------------------------- what is there, and removal


def test_worktrees_are_listed_with_their_state(shelf: Shelf, repository: Repository) -> None:
    assert worktrees(shelf) == []
    made, unfinished = make(shelf, repository)
    (row,) = worktrees(shelf)
    assert (row.delegation_id, row.path, row.source_root, row.state) == (
        ID,
        str(made.path),
        str(repository.root),
        "making",
    )
    assert row.size_bytes >= len("one\ntwo\nthree\nbee\n")
    unfinished.keep()
    assert [row.state for row in worktrees(shelf)] == ["clean"]
    (made.path / "a").write_text("x")
    assert [(row.state, row.changed_files) for row in worktrees(shelf)] == [("dirty", 1)]
    repository.git("checkout", "--quiet", "a", cwd=made.path)
    repository.git("commit", "--quiet", "--allow-empty", "--message", "child's", cwd=made.path)
    assert [row.state for row in worktrees(shelf)] == ["unmerged"]
    repository.git("branch", "kept", repository.git("rev-parse", "HEAD", cwd=made.path).strip())
    assert [row.state for row in worktrees(shelf)] == ["clean"]


def test_a_worktree_without_a_note_is_listed_too(shelf: Shelf, repository: Repository) -> None:
    repository.git("worktree", "add", "--quiet", "--detach", str(shelf.root / "old" / "one"))
    (row,) = worktrees(shelf)
    assert (row.delegation_id, row.state, row.source_root) == ("one", "clean", str(repository.root))
    assert remove(shelf, row.path, force=False) == row
    assert worktrees(shelf) == []


def test_a_worktree_is_removed_on_request_and_only_by_force_with_work_in_it(
    shelf: Shelf, repository: Repository
) -> None:
    made, unfinished = make(shelf, repository)
    with pytest.raises(Stale, match="being made"):
        remove(shelf, ID, force=False)
    unfinished.keep()
    (made.path / "new").write_text("work")
    with pytest.raises(Stale, match="1 changed files") as refused:
        remove(shelf, ID, force=False)
    assert refused.value.reason == "worktreeNotClean"
    assert (made.path / "new").exists()
    remove(shelf, ID, force=True)
    assert not made.path.exists()
    assert list(shelf.own.iterdir()) == []
    assert len(repository.git("worktree", "list").splitlines()) == 1
    with pytest.raises(Missing):
        remove(shelf, ID, force=True)


def test_what_was_deleted_by_hand_is_listed_as_gone_and_can_be_removed(shelf: Shelf, repository: Repository) -> None:
    made, unfinished = make(shelf, repository)
    unfinished.keep()
    for path in sorted(made.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    made.path.rmdir()
    assert [row.state for row in worktrees(shelf)] == ["gone"]
    remove(shelf, ID, force=False)
    assert worktrees(shelf) == []


def test_what_has_lost_its_repository_is_listed_and_removed_by_force(shelf: Shelf, repository: Repository) -> None:
    made, unfinished = make(shelf, repository)
    unfinished.keep()
    stray = shelf.root / "stray"
    stray.mkdir()
    (stray / ".git").write_text("gitdir: /nowhere\n")
    shutil.rmtree(repository.root)
    assert [row.state for row in worktrees(shelf)] == ["unknown", "unknown"]
    for path in (made.path, stray):
        with pytest.raises(Stale):
            remove(shelf, str(path), force=False)
        remove(shelf, str(path), force=True)
    assert list(shelf.root.iterdir()) == [shelf.own]


# ------------------------------------------------------------------------ what a crash left

CRASH = """
import sys
from pathlib import Path
from termal.procs.worktree import Shelf
from termal.procs.worktree_make import Wanted, prepare
prepare(Shelf(Path(sys.argv[1])), Wanted(sys.argv[2], Path(sys.argv[3])))
"""


@pytest.mark.parametrize("point", ["worktree.marked", "worktree.added"])
def test_what_a_kill_leaves_is_removed_by_the_next_start(
    shelf: Shelf, repository: Repository, run_dir: Path, point: str
) -> None:
    faults = run_dir / "faults"
    faults.mkdir()
    (faults / point).write_text("kill")
    done = subprocess.run(
        [sys.executable, "-c", CRASH, str(shelf.root), ID, str(repository.root)],
        env={**os.environ, "TERMAL_FAULTS": str(faults)},
        check=False,
        timeout=30,
    )
    assert done.returncode < 0
    assert shelf.in_the_making() == [ID]
    assert clean_leftovers(shelf, ["delegation-9"]) == [str(shelf.root / ID)]
    assert list(shelf.root.iterdir()) == [shelf.own]
    assert list(shelf.own.iterdir()) == []
    assert len(repository.git("worktree", "list").splitlines()) == 1
    assert clean_leftovers(shelf, []) == []


def test_a_worktree_that_a_row_names_is_never_a_leftover(shelf: Shelf, repository: Repository) -> None:
    made, _ = make(shelf, repository)
    assert clean_leftovers(shelf, [ID]) == []
    assert made.path.is_dir()
    assert shelf.in_the_making() == []
    assert clean_leftovers(shelf, []) == []
    assert made.path.is_dir()


def test_a_leftover_is_not_touched_while_its_git_still_writes(
    shelf: Shelf, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = make(shelf, repository)
    monkeypatch.setattr("termal.procs.worktree_list.LOOK_S", 0.1)
    held = hold_mark(shelf.making(ID), 0.0)
    assert held is not None
    try:
        assert clean_leftovers(shelf, []) == []
        assert made.path.is_dir()
    finally:
        os.close(held)
    assert clean_leftovers(shelf, []) == [str(made.path)]


def test_doctor_says_what_worktrees_there_are(shelf: Shelf, repository: Repository) -> None:
    home = find_home(str(shelf.root.parent))
    assert [(one.level, one.text) for one in check_worktrees(home)] == [("ok", "none")]
    made, unfinished = make(shelf, repository)
    unfinished.keep()
    (made.path / "work").write_text("x")
    (finding,) = check_worktrees(home)
    assert finding.level == "hint"
    assert finding.text.startswith("1 worktree, ")
    assert finding.text.endswith("; 1 with work in it")
    assert "termal worktrees list" in finding.advice
