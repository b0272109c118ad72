"""Paths of delegations by their text and their components, and what the lock of read-only ones covers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.rules.delegation_paths import (
    PATH_CHARS,
    checked_cwd,
    checked_owned_path,
    checked_worktree_path,
    contains,
    is_owned,
    outside,
    overlap,
    relative,
)
from termal.rules.delegation_scope import Place, Targets, is_locked, targets
from termal.rules.verdicts import Bad


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("x" * (PATH_CHARS + 1), "cwdTooLong", id="too-long"),
        pytest.param("  ", "cwdForbiddenForm", id="blank"),
        pytest.param("/a/../b", "cwdForbiddenForm", id="dots-that-stay-inside"),
        pytest.param("..", "cwdForbiddenForm", id="dots-alone"),
        pytest.param("a\\..\\b", "cwdForbiddenForm", id="dots-between-backslashes"),
        pytest.param("C:docs", "cwdForbiddenForm", id="relative-to-a-drive"),
        pytest.param("\\\\server\\share", "cwdForbiddenForm", id="unc"),
        pytest.param("//server/share", "cwdForbiddenForm", id="unc-with-slashes"),
        pytest.param("\\\\?\\UNC\\server\\share", "cwdForbiddenForm", id="verbatim-unc"),
        pytest.param("\\\\.\\PhysicalDrive0", "cwdForbiddenForm", id="device"),
        pytest.param("\\??\\C:\\x", "cwdForbiddenForm", id="object-namespace"),
        pytest.param("C:\\GLOBALROOT\\Device", "cwdForbiddenForm", id="global-root"),
        pytest.param("C:\\x\\mup\\y", "cwdForbiddenForm", id="mup"),
        pytest.param("/a\0b", "cwdForbiddenForm", id="nul"),
    ],
)
def test_forbidden_forms_of_a_directory(path: str, reason: str) -> None:
    with pytest.raises(Bad) as refused:
        checked_cwd(path)
    assert refused.value.reason == reason


@pytest.mark.parametrize("path", ["/a/b", "a", "./a", "/a/..b/c..", "/a b/\u00e9", "/mup/globalroot", "/" + "x" * 4095])
def test_plain_directories_are_taken_trimmed(path: str) -> None:
    assert checked_cwd(f"  {path}\n") == path


@pytest.mark.parametrize("path", ["relative", "/a/./b", "/a/../b", "", "/.", "//x"])
def test_the_place_of_a_worktree_is_absolute_and_has_no_dots(path: str) -> None:
    with pytest.raises(Bad):
        checked_worktree_path(path)
    assert checked_worktree_path(" /a/b ") == "/a/b"


@pytest.mark.parametrize("path", ["../x", "a/../b", "..", "", " ", "C:x", "\\\\x", "x" * 4097])
def test_owned_paths_that_are_none(path: str) -> None:
    with pytest.raises(Bad) as refused:
        checked_owned_path(path)
    assert refused.value.reason == "ownedPathInvalid"


PATHS = st.lists(st.sampled_from(["a", "b", "ab", "a.b"]), max_size=4).map(lambda parts: "/" + "/".join(parts))


@given(PATHS, PATHS)
def test_containment_goes_by_components(outer: str, inner: str) -> None:
    parts, others = ([part for part in path.split("/") if part] for path in (outer, inner))
    assert contains(outer, inner) == (others[: len(parts)] == parts)
    if contains(outer, inner):
        rest = relative(outer, inner)
        assert rest == ("/".join(others[len(parts) :]) or ".")


@given(PATHS, PATHS)
def test_overlap_has_no_direction(one: str, other: str) -> None:
    assert overlap(one, other) == overlap(other, one) == (contains(one, other) or contains(other, one))
    assert not overlap("", one)
    assert not overlap(one, "")


def test_owned_paths_hold_what_is_below_them_and_nothing_beside_them() -> None:
    assert outside(["docs/a", "docs2/b", "src", "src/x"], ["docs", "src/x"]) == ["docs2/b", "src"]
    assert outside(["a"], []) == []
    assert is_owned("a/b", ["."])


# --------------------------------------------------------------------------------- lock

ROOTS = {"p": "/root", "q": "/elsewhere"}
CHILD = Place("p", "/root/delegated")


@pytest.mark.parametrize(
    ("places", "locked"),
    [
        pytest.param([Place(None, "/root")], True, id="a-folder-around-it"),
        pytest.param([Place(None, "/root/delegated/x")], True, id="a-folder-in-it"),
        pytest.param([Place("p", "/root/sibling")], True, id="the-same-project"),
        pytest.param([Place(None, "/root/sibling")], True, id="a-folder-that-the-project-holds"),
        pytest.param([Place("p", None)], True, id="the-project-alone"),
        pytest.param([Place("q", "/elsewhere")], False, id="another-project"),
        pytest.param([Place("q", None), Place("p", "/root")], True, id="a-session-elsewhere-than-it-says"),
        pytest.param([Place(None, "/rootless")], False, id="a-name-that-begins-alike"),
        pytest.param([Place(None, "")], False, id="a-blank-folder"),
        pytest.param([], False, id="nothing"),
    ],
)
def test_writes_that_the_lock_of_a_read_only_child_covers(places: list[Place], locked: bool) -> None:
    assert is_locked(targets(places, ROOTS), [CHILD]) == locked


@pytest.mark.parametrize(
    ("workdir", "locked"),
    [("/root/delegated", True), ("/root/delegated/deep", True), ("/root", True), ("/elsewhere", False)],
)
def test_of_a_child_that_is_gone_its_directory_still_locks(workdir: str, locked: bool) -> None:
    assert is_locked(Targets(frozenset(), frozenset({workdir})), [Place(None, "/root/delegated")]) == locked


def test_a_project_brings_its_root_along() -> None:
    assert targets([Place("p", None)], ROOTS) == Targets(frozenset({"p"}), frozenset({"/root"}))
    assert targets([Place(None, "/root/x")], ROOTS) == Targets(frozenset({"p"}), frozenset({"/root/x"}))
    assert targets([Place("gone", None)], ROOTS) == Targets(frozenset({"gone"}), frozenset())
