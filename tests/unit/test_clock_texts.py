"""Moments as the texts that are stored and shown."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.clock import microsecond_text, millisecond_text


@pytest.mark.parametrize(
    ("at_ns", "milliseconds", "microseconds"),
    [
        (0, "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000000+00:00"),
        (1_769_860_800_001_999_999, "2026-01-31T12:00:00.001Z", "2026-01-31T12:00:00.001999+00:00"),
        (1_769_860_799_999_999_999, "2026-01-31T11:59:59.999Z", "2026-01-31T11:59:59.999999+00:00"),
    ],
)
def test_a_moment_is_cut_off_never_rounded_up(at_ns: int, milliseconds: str, microseconds: str) -> None:
    assert (millisecond_text(at_ns), microsecond_text(at_ns)) == (milliseconds, microseconds)


@given(st.lists(st.integers(0, 4_102_444_800 * 10**9), min_size=2, max_size=4))
def test_texts_sort_as_their_moments_do(moments: list[int]) -> None:
    for text in (millisecond_text, microsecond_text):
        texts = [text(at_ns) for at_ns in sorted(moments)]
        assert texts == sorted(texts)
    for at_ns in moments:
        read = datetime.fromisoformat(microsecond_text(at_ns))
        assert round(read.timestamp() * 1_000_000) == at_ns // 1000
