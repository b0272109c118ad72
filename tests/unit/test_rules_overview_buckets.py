"""A transcript in few buckets: against the definition, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from termal.model.marker import Marker
from termal.model.overview import Bucket, MarkerPlace
from termal.rules.overview import COMMAND, DIFF, ERROR, TEXT, USER_BIT, BadOverview
from termal.rules.overview_buckets import bucketed, check_buckets, check_map, places
from termal.rules.verdicts import Bad

WORDS = {TEXT: "text", COMMAND: "command", DIFF: "diff", ERROR: "error"}
SEVERITY = (ERROR, COMMAND, DIFF, TEXT)


def by_definition(overview: bytes, buckets: int, starts: list[int]) -> list[Bucket]:
    total = len(overview)
    number = min(buckets, max(total, 1))
    held: list[list[int]] = [[] for _ in range(number)]
    for position, byte in enumerate(overview):
        held[position * number // total].append(byte)
    marked = {start * number // max(total, 1) for start in starts}
    out = []
    for at, part in enumerate(held):
        counts = [sum(byte & ~USER_BIT == kind for byte in part) for kind in SEVERITY]
        kind = SEVERITY[counts.index(max(counts))] if part else TEXT
        out.append(Bucket(c=len(part), k=WORDS[kind], u=sum(bool(byte & USER_BIT) for byte in part), m=at in marked))
    return out


@given(
    overview=st.binary(max_size=300).map(lambda raw: bytes(byte % 8 for byte in raw)),
    buckets=st.integers(1, 512),
    starts=st.lists(st.integers(0, 299), max_size=4),
)
def test_buckets_are_what_their_definition_says(overview: bytes, buckets: int, starts: list[int]) -> None:
    inside = [min(start, max(0, len(overview) - 1)) for start in starts]
    markers = [MarkerPlace(position=start, kind="bug") for start in inside]
    assert bucketed(overview, buckets, markers) == by_definition(overview, buckets, inside)


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        pytest.param([TEXT, DIFF, COMMAND, ERROR], "error", id="error-first"),
        pytest.param([TEXT, DIFF, COMMAND], "command", id="then-command"),
        pytest.param([TEXT, DIFF], "diff", id="then-diff"),
        pytest.param([ERROR, TEXT | USER_BIT, TEXT], "text", id="users-and-agents-texts-count-together"),
    ],
)
def test_the_prevailing_kind_is_the_most_frequent_and_at_a_tie_the_most_severe(part: list[int], kind: str) -> None:
    [bucket] = bucketed(bytes(part), 1, [])
    assert bucket.k == kind


def test_a_byte_that_stands_for_nothing_is_an_error() -> None:
    check_map(bytes(range(8)))
    with pytest.raises(BadOverview, match="0x08 of position 2"):
        check_map(b"\0\1\x08\x10")


@pytest.mark.parametrize("buckets", [0, -1, 513])
def test_a_number_of_buckets_has_bounds(buckets: int) -> None:
    with pytest.raises(Bad):
        check_buckets(buckets)


@pytest.mark.parametrize(("hint", "total", "position"), [(5, 10, 5), (10, 10, 9), (3, 0, 0)], ids=str)
def test_a_marker_past_the_end_stands_at_the_end(hint: int, total: int, position: int) -> None:
    marker = Marker(
        id="marker-1",
        session_id="s",
        kind="bug",
        name=" ",
        color="#fff",
        message_id="m",
        message_index_hint=hint,
        created_at="now",
        updated_at="now",
    )
    assert places([marker], total) == [MarkerPlace(position=position, kind="bug", label=UNSET)]
