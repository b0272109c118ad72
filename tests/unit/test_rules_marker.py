"""What a marker may say, and how a stored one is read."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from termal.model.marker import MARKER_KINDS, Marker
from termal.rules.marker import anchored, checked_body, checked_color, checked_kind, checked_name
from termal.rules.verdicts import Bad

BASE: dict[str, Any] = {
    "id": "marker-1",
    "session_id": "session-1",
    "kind": "review",
    "name": "N",
    "color": "#fff",
    "message_id": "a",
    "message_index_hint": 0,
    "created_at": "now",
    "updated_at": "now",
}


@pytest.mark.parametrize("color", ["#abc", "#ABCD", "#a1B2c3", "#01234567"])
def test_colors_are_stored_in_lower_case(color: str) -> None:
    assert checked_color(color) == color.lower()


@pytest.mark.parametrize(
    "color", ["", "abc", "#ab", "#abcde", "#abcdefa", "#ggg", "#abc ", "#abc\n", "#\u0661\u0662\u0663"]
)
def test_other_colors_are_refused(color: str) -> None:
    with pytest.raises(Bad):
        checked_color(color)


def test_names_are_trimmed_and_bounded() -> None:
    assert checked_name("  N \n") == "N"
    assert checked_name("x" * 120 + " ") == "x" * 120
    for name in ("", "  ", "x" * 121):
        with pytest.raises(Bad):
            checked_name(name)


def test_a_blank_body_is_none_and_a_long_one_is_refused() -> None:
    assert [checked_body(body) for body in (None, "", " \n", " b ")] == [None, None, None, " b "]
    assert checked_body("ü" * 4000) == "ü" * 4000
    with pytest.raises(Bad):
        checked_body("x" * 4001)


def test_a_kind_is_one_of_seven_and_an_unknown_stored_one_is_custom() -> None:
    assert [checked_kind(kind) for kind in MARKER_KINDS] == list(MARKER_KINDS)
    with pytest.raises(Bad):
        checked_kind("decison")
    stored = msgspec.json.encode({**msgspec.to_builtins(Marker(**BASE)), "kind": "decison", "later": 1})
    assert msgspec.json.decode(stored, type=Marker).kind == "custom"


@pytest.mark.parametrize(
    ("end", "positions", "hints"),
    [
        pytest.param(UNSET, {"a": 4}, (4, UNSET), id="one-message"),
        pytest.param("b", {"a": 4, "b": 9}, (4, 9), id="a-span"),
        pytest.param("a", {"a": 4}, (4, 4), id="a-span-of-one"),
    ],
)
def test_hints_are_the_positions_of_the_anchors(end: Any, positions: dict[str, int], hints: tuple[int, Any]) -> None:
    marker = anchored(Marker(**BASE, end_message_id=end, end_message_index_hint=77), positions)
    assert (marker.message_index_hint, marker.end_message_index_hint) == hints


@pytest.mark.parametrize(
    ("end", "positions"),
    [
        pytest.param(UNSET, {}, id="no-start"),
        pytest.param("b", {"a": 4}, id="no-end"),
        pytest.param("b", {"a": 4, "b": 3}, id="end-before-start"),
    ],
)
def test_anchors_that_do_not_fit_are_refused(end: Any, positions: dict[str, int]) -> None:
    with pytest.raises(Bad):
        anchored(Marker(**BASE, end_message_id=end), positions)
