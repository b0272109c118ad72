"""Page arithmetic, selectors, and the bounds of the prompt history."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.model.message import Command, Text
from termal.rules import history_page
from termal.rules.history_page import Span
from termal.rules.prompt_history import ENTRIES, TOTAL_BYTES, bounded, prompt_in
from termal.rules.verdicts import Bad, Stale


@pytest.mark.parametrize(
    ("span", "start", "end", "more", "newer"),
    [
        pytest.param(history_page.newest(20_001, 64), 19_937, 20_001, True, False, id="newest"),
        pytest.param(history_page.before(19_937, 20_001, 64), 19_873, 19_937, True, True, id="before"),
        pytest.param(history_page.oldest(20_001, 64), 0, 64, False, True, id="start"),
        pytest.param(history_page.after(63, 20_001, 64), 64, 128, True, True, id="after"),
        pytest.param(history_page.around(50, 100, 20), 40, 60, True, True, id="around"),
        pytest.param(history_page.around(2, 100, 20), 0, 20, False, True, id="around-near-start"),
        pytest.param(history_page.around(99, 100, 20), 80, 100, True, False, id="around-near-end"),
        pytest.param(history_page.around(0, 0, 20), 0, 0, False, False, id="around-empty"),
        pytest.param(history_page.newest(0, 64), 0, 0, False, False, id="empty"),
        pytest.param(history_page.before(0, 10, 64), 0, 0, False, False, id="before-the-first"),
        pytest.param(history_page.after(9, 10, 64), 10, 10, False, False, id="after-the-last"),
    ],
)
def test_pages(span: Span, start: int, end: int, more: bool, newer: bool) -> None:
    assert (span.start, span.end) == (start, end)
    assert (span.has_more, span.has_newer) == (more, newer)


def test_around_past_the_end_is_stale() -> None:
    with pytest.raises(Stale):
        history_page.around(100, 100, 20)


@given(st.integers(0, 500), st.integers(1, 64))
def test_pages_walked_from_either_end_show_every_message_once(count: int, limit: int) -> None:
    span = history_page.newest(count, limit)
    backwards = [list(range(span.start, span.end))]
    while span.has_more:
        span = history_page.before(span.start, count, limit)
        backwards.insert(0, list(range(span.start, span.end)))
    span = history_page.oldest(count, limit)
    forwards = list(range(span.start, span.end))
    while span.has_newer:
        span = history_page.after(span.end - 1, count, limit)
        forwards += range(span.start, span.end)
    assert [at for page in backwards for at in page] == forwards == list(range(count))


@pytest.mark.parametrize(
    "selectors",
    [
        {"limit": 0},
        {"limit": 65},
        {"before": ""},
        {"after": "  "},
        {"before": "x", "after": "y"},
        {"around": 1, "from_start": True},
        {"around": -1},
    ],
    ids=str,
)
def test_impossible_selectors_are_refused(selectors: dict[str, Any]) -> None:
    given = {"before": None, "after": None, "around": None, "from_start": False, "limit": 64, **selectors}
    with pytest.raises(Bad):
        history_page.check_selectors(**given)


@pytest.mark.parametrize("tail", [0, 65, -1])
def test_a_tail_out_of_range_is_refused_by_name(tail: int) -> None:
    with pytest.raises(Bad, match="tail"):
        history_page.check_tail(tail)


def test_the_history_keeps_the_newest_64() -> None:
    assert bounded([f"prompt {n}" for n in range(70)]) == [f"prompt {n}" for n in range(6, 70)]
    assert ENTRIES == 64


def test_the_history_keeps_what_fits_into_its_bytes_newest_first() -> None:
    half = "x" * (TOTAL_BYTES // 2)
    assert bounded([half, half, "new"]) == [half, "new"]
    assert bounded(["ä" * TOTAL_BYTES, "new"]) == ["new"]


def test_only_prompts_of_the_user_enter_the_history() -> None:
    you: dict[str, Any] = {"id": "m", "timestamp": "now", "author": "you"}
    assert prompt_in(Text(**you, text=" hi ")) == "hi"
    assert prompt_in(Text(**you, text="  ")) is None
    assert prompt_in(Text(**you, text="x" * (TOTAL_BYTES + 1))) is None
    assert prompt_in(Text(**{**you, "author": "assistant"}, text="hi")) is None
    assert prompt_in(Command(**you, command="ls", output="", status="running")) is None
