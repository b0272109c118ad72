"""Pages of an output: whole characters, no byte lost, no byte twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.rules.delegation_output import LEAST_BYTES, MOST_BYTES, checked_limit, page
from termal.rules.verdicts import Bad


@pytest.mark.parametrize("limit", [0, 255, 8193, -1])
def test_a_limit_out_of_range_is_refused(limit: int) -> None:
    with pytest.raises(Bad) as refused:
        checked_limit(limit)
    assert refused.value.reason == "outputLimitOutOfRange"
    assert [checked_limit(one) for one in (256, 8192)] == [256, 8192]


@given(st.text(st.sampled_from("a\u00e9\u20ac\U0001f600\n"), max_size=900), st.integers(LEAST_BYTES, 300))
def test_the_pages_of_an_output_are_the_output(output: str, limit: int) -> None:
    pieces, offset = [], 0
    while True:
        one = page(output, offset, limit)
        assert one.total == len(output.encode())
        assert len(one.text.encode()) <= limit
        pieces.append(one.text)
        if one.next_offset is None:
            assert one.complete
            break
        assert len(one.text.encode()) > limit - 4
        assert one.next_offset == offset + len(one.text.encode())
        offset = one.next_offset
    assert "".join(pieces) == output


@pytest.mark.parametrize(
    ("output", "offset"),
    [("\U0001f600", 1), ("\U0001f600", 3), ("a\u20acb", 2), ("abc", -1), ("abc", 4), ("", 1)],
)
def test_an_offset_in_a_character_or_behind_the_end_is_refused(output: str, offset: int) -> None:
    with pytest.raises(Bad) as refused:
        page(output, offset, 256)
    assert refused.value.reason == "outputOffsetInvalid"


def test_the_end_itself_is_an_empty_last_page() -> None:
    last = page("abc", 3, 256)
    assert (last.text, last.offset, last.next_offset, last.total, last.complete) == ("", 3, None, 3, True)
    assert page("", 0, MOST_BYTES).complete
