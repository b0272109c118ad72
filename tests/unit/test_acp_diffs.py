"""Unified diffs of what agents changed: right for any two texts, and quick for large ones."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.runtime.acp_diffs import COMPARED_LINES, Change

lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=25)


def _apply(old: str, diff: str) -> str:
    """What a patch program makes of it."""
    source = old.splitlines(keepends=True)
    out: list[str] = []
    place = 0
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (0 if count == "0" else 1)
            out += source[place:begin]
            place = begin
        elif line.startswith(" "):
            assert source[place] == line[1:]
            out.append(line[1:])
            place += 1
        elif line.startswith("-"):
            assert source[place] == line[1:]
            place += 1
        elif line.startswith("+"):
            out.append(line[1:])
    return "".join(out + source[place:])


@given(lines, lines)
def test_a_diff_turns_the_old_text_into_the_new_one(old: list[str], new: list[str]) -> None:
    before, after = "".join(old), "".join(new)
    diff = Change("a.txt", before, after).unified()
    assert (_apply(before, diff) if diff else before) == after


@given(lines, lines, lines, lines)
def test_setting_equal_ends_aside_changes_nothing(
    head: list[str], old: list[str], new: list[str], tail: list[str]
) -> None:
    before, after = head + old + tail, head + new + tail
    diff = Change("a.txt", "".join(before), "".join(after)).unified()
    assert (_apply("".join(before), diff) if diff else "".join(before)) == "".join(after)


def test_a_small_change_of_a_large_file_is_a_small_diff_at_its_place() -> None:
    before = [f"line {number}\n" for number in range(100_000)]
    after = [*before[:50_000], "new\n", *before[50_001:]]
    assert Change("a.txt", "".join(before), "".join(after)).unified() == "".join(
        difflib.unified_diff(before[49_990:50_010], after[49_990:50_010], "a/a.txt", "b/a.txt")
    ).replace("@@ -8,7 +8,7 @@", "@@ -49998,7 +49998,7 @@")


def test_a_large_change_is_shown_as_one_replacement() -> None:
    before = "".join(f"a {number}\n" for number in range(COMPARED_LINES))
    after = "".join(f"b {number}\n" for number in range(COMPARED_LINES))
    diff = Change("a.txt", before, after).unified()
    assert diff.splitlines()[2] == f"@@ -1,{COMPARED_LINES} +1,{COMPARED_LINES} @@"
    assert _apply(before, diff) == after


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a", "b", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"),
        (None, "b\n", "@@ -0,0 +1 @@\n+b\n"),
        ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
    ],
    ids=["no line end", "new file", "emptied"],
)
def test_edges(old: str | None, new: str, expected: str) -> None:
    assert Change("a.txt", old, new).unified().split("\n", 2)[2] == expected
