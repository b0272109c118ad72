"""How the changes of one path add up, and what a turn says of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.rules.file_changes import FileKind, added_up, merged, title_of

KINDS: tuple[FileKind, ...] = ("created", "modified", "deleted", "other")


@pytest.mark.parametrize(
    ("before", "now", "together"),
    [
        ("created", "deleted", "modified"),
        ("deleted", "created", "deleted"),
        ("deleted", "modified", "deleted"),
        ("modified", "deleted", "deleted"),
        ("other", "deleted", "deleted"),
        ("created", "modified", "created"),
        ("modified", "created", "created"),
        ("other", "created", "created"),
        ("other", "modified", "modified"),
        ("modified", "other", "modified"),
        *((kind, kind, kind) for kind in KINDS),
    ],
)
def test_two_changes_of_one_path_add_up(before: FileKind, now: FileKind, together: FileKind) -> None:
    assert added_up(before, now) == together


def test_paths_beyond_the_limit_are_left_out_and_known_ones_still_change() -> None:
    before: dict[str, FileKind] = {"a": "created", "b": "modified"}

    assert not merged(before, [("c", "created"), ("b", "deleted")], most=2)
    assert before == {"a": "created", "b": "deleted"}
    assert merged(before, [("a", "modified")], most=2)
    assert before["a"] == "created"


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(KINDS)), max_size=12), st.integers(0, 12))
def test_it_does_not_matter_how_the_changes_came_together(changes: list[tuple[str, FileKind]], cut: int) -> None:
    whole: dict[str, FileKind] = {}
    parts: dict[str, FileKind] = {}

    merged(whole, changes)
    merged(parts, changes[:cut])
    merged(parts, changes[cut:])
    assert parts == whole


@pytest.mark.parametrize(
    ("count", "more", "title"),
    [(1, False, "1 file changed"), (2, False, "2 files changed"), (2000, True, "More than 2000 files changed")],
)
def test_the_title_has_the_number_of_files(count: int, more: bool, title: str) -> None:
    assert title_of(count, more=more) == title
