"""Moments that are stored, and what is left of a deadline after a restart."""

import pytest

from workers.state.clock import left_s, now_text, text_in

HOUR_S = 3600.0


def test_a_moment_to_come_is_told_in_the_form_of_every_other() -> None:
    assert len(text_in(HOUR_S)) == len(now_text()) == len("2026-01-01T00:00:00.000Z")
    assert text_in(HOUR_S) > now_text()


@pytest.mark.parametrize(
    ("begun_s", "end_s", "least", "most"),
    [
        pytest.param(-10.0, HOUR_S, HOUR_S - 60, HOUR_S, id="some of it is left"),
        pytest.param(-HOUR_S, -10.0, 0.0, 0.0, id="it is over"),
        pytest.param(10 * HOUR_S, 11 * HOUR_S, HOUR_S - 1, HOUR_S + 1, id="the clock was put back"),
    ],
)
def test_a_deadline_goes_on_after_a_restart(begun_s: float, end_s: float, least: float, most: float) -> None:
    assert least <= left_s(text_in(begun_s), text_in(end_s)) <= most


@pytest.mark.parametrize(("begun", "end"), [("", "2026-01-01T00:00:00Z"), ("2026-01-01T00:00:00Z", "soon")])
def test_nobody_waits_for_what_is_no_moment(begun: str, end: str) -> None:
    assert left_s(begun, end) == 0.0
