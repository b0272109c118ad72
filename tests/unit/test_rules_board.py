"""What a board takes: keys, texts, values and their one form, and when a key may be written."""

import hashlib
import itertools
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.rules import board_field
from termal.rules.board_field import author_name, check_page, checked_key, checked_text
from termal.rules.board_scope import board_of
from termal.rules.board_value import checked_value, compact, read_value
from termal.rules.board_write import Known, Verdict, decide, intent_hash
from termal.rules.nesting import deeper_than
from termal.rules.verdicts import Bad, Malformed, Missing

WRONG_KEYS = ["", ".a", "a.", "a..b", "A.b", "_a", "-a", ".".join("abcdefghi"), "a b", "a\n", "é", "a" * 129, "a.-b"]
GOOD_KEYS = ["a", "0", "activity.rust-suite", "a_b-c.9_", ".".join("abcdefgh"), "a" * 128]


# ------------------------------------------------------------------------- fields


@pytest.mark.parametrize("key", GOOD_KEYS)
def test_a_key_of_the_grammar_is_taken_as_it_is(key: str) -> None:
    assert checked_key(key) == key


@pytest.mark.parametrize("key", WRONG_KEYS)
def test_any_other_key_is_refused(key: str) -> None:
    with pytest.raises(Bad, match="afterKey ") as refused:
        checked_key(key, "afterKey")
    assert refused.value.reason == "boardKey"


@given(st.text(st.sampled_from("aZ09_-. é\n"), max_size=40))
def test_the_grammar_is_segment_by_segment(key: str) -> None:
    segments = key.split(".")
    fits = len(segments) <= 8 and all(re.fullmatch(r"[a-z0-9][a-z0-9_-]*", segment) for segment in segments)
    if fits:
        assert checked_key(key) == key
    else:
        with pytest.raises(Bad):
            checked_key(key)


@pytest.mark.parametrize("text", ["x", " x ", "k" * 256, "é" * 128, "😀" * 64, "a\u2028b"])
def test_a_text_is_taken_as_it_is(text: str) -> None:
    assert checked_text(text, "stateStamp") == text


@pytest.mark.parametrize("text", ["", " \u2003", "k" * 257, "é" * 129, "a\tb", "a\x7f", "a\x9fb", "\x00"])
def test_a_blank_long_or_unprintable_text_is_refused(text: str) -> None:
    with pytest.raises(Bad, match="stateStamp"):
        checked_text(text, "stateStamp")


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("Lead", "Lead"),
        ("  Lead\n", "Lead"),
        ("a\tb\x9fc", "a b c"),
        ("", board_field.UNNAMED),
        ("\x01\x02", board_field.UNNAMED),
        ("a" * 300, "a" * 256),
        ("é" * 200, "é" * 128),
        ("a" + "é" * 200, "a" + "é" * 127),
        ("a" * 255 + " b", "a" * 255),
    ],
    ids=[
        "as it is",
        "trimmed",
        "controls",
        "empty",
        "only controls",
        "cut",
        "cut at a character",
        "odd",
        "cut at a space",
    ],
)
def test_an_author_is_named_in_one_line_of_at_most_256_bytes(name: str, kept: str) -> None:
    assert author_name(name) == kept


@given(st.text(max_size=300))
def test_a_name_of_an_author_can_always_be_stored(name: str) -> None:
    assert checked_text(author_name(name), "name") == author_name(name)


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ((None, 1, None, None), True),
        ((None, 200, None, 3), True),
        ((None, 100, 3, None), True),
        ((None, 100, 3, 3), True),
        (("a.b", 100, 3, None), True),
        (("a.b", 100, None, None), False),
        (("a.b", 100, 3, 3), False),
        (("", 100, 3, None), False),
        (("A", 100, 3, None), False),
        ((None, 0, None, None), False),
        ((None, 201, None, None), False),
    ],
)
def test_which_pages_may_be_asked_for(asked: tuple[str | None, int, int | None, int | None], fits: bool) -> None:
    if fits:
        check_page(*asked)
    else:
        with pytest.raises(Bad):
            check_page(*asked)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (("", "project-1", "local"), None),
        (("", None, None), "noProject"),
        (("", "project-1", None), "unknownProject"),
        (("", "project-1", "remote"), "remoteProject"),
        (("delegated", "project-1", "local"), "delegated"),
        (("hidden", "project-1", "local"), "hidden"),
        (("remote", "project-1", "local"), "remote"),
    ],
)
def test_whose_board_a_session_uses(seen: tuple[str, str | None, str | None], reason: str | None) -> None:
    if reason is None:
        assert board_of(*seen) == "project-1"
    else:
        with pytest.raises(Bad) as refused:
            board_of(*seen)
        assert refused.value.reason == reason


def test_an_unknown_session_is_missing() -> None:
    with pytest.raises(Missing):
        board_of("unknown", None, None)


# ------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('{"z":0,"a":{"z":2,"a":1}}', '{"a":{"a":1,"z":2},"z":0}'),
        (' [ 1 , "\\u00e9\\/" , null ] ', '[1,"é/",null]'),
        ('{"\\uffff":1,"\\ud83d\\ude00":2,"é":3,"e":4}', '{"e":4,"é":3,"\uffff":1,"😀":2}'),
        ('{"a":1,"b":2,"a":{"c":3,"c":4}}', '{"a":{"c":4},"b":2}'),
        ('"\\u0001\\b\\f\\n\\r\\t\\u007f\\u2028"', '"\\u0001\\b\\f\\n\\r\\t\x7f\u2028"'),
        ("1.0", "1.0"),
        ("1", "1"),
        ("1e5", "100000.0"),
        ("-0", "-0.0"),
        ("-0.0", "-0.0"),
        ('["2026-01-01",{"a":-0}]', '["2026-01-01",{"a":-0.0}]'),
        ("0.00001", "0.00001"),
        ("0.0000099", "9.9e-6"),
        ("1e15", "1000000000000000.0"),
        ("1e16", "1e16"),
        ("1.5e300", "1.5e300"),
        ("5e-324", "5e-324"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744073709552e19"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-9223372036854775809", "-9.223372036854776e18"),
        ("[[99999999999999999999]]", "[[1e20]]"),
    ],
)
def test_a_value_has_one_form(text: str, form: str) -> None:
    assert checked_value(read_value(text.encode())).decode() == form
    assert compact(text.encode()).decode() == form


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e400",
        b"1" * 400,
        b'"\\ud800"',
        b'{"\\udc00":1}',
        b'"\xff"',
        b'"\x01"',
        b"[1,]",
        b"{} {}",
        b"'a'",
        b"[" * 128 + b"]" * 128,
        b'{"a":' * 500 + b"1" + b"}" * 500,
        b"[" * 100_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_is_no_json_has_no_form_of_a_value(text: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        read_value(text)
    assert refused.value.reason == "json"


def nested(levels: int) -> bytes:
    return b"[" * levels + b"0" + b"]" * levels


def depth(value: object) -> int:
    """The one limit that is just not exceeded."""
    return next(levels for levels in itertools.count() if not deeper_than(value, levels))


def test_a_value_is_32_levels_deep_at_most_and_read_up_to_127() -> None:
    assert depth(read_value(nested(32))) == 32
    assert checked_value(read_value(nested(32))) == nested(32)
    for levels in (33, 127):
        with pytest.raises(Bad, match="32 levels"):
            checked_value(read_value(nested(levels)))


def test_a_value_has_4096_bytes_at_most_without_its_white_space() -> None:
    assert len(checked_value(read_value(b'"%b"' % (b"a" * 4094)))) == 4096
    assert len(checked_value(read_value(b'  "%b"  ' % (b"\\u0061" * 4094)))) == 4096
    with pytest.raises(Bad, match="4096 bytes"):
        checked_value(read_value(b'"%b"' % (b"a" * 4095)))


@pytest.mark.parametrize(
    ("value", "levels"), [(1, 0), (None, 0), ([], 1), ({}, 1), ([[], {"a": [1]}], 3), ({"a": 1, "b": []}, 2)]
)
def test_the_depth_counts_what_is_around(value: object, levels: int) -> None:
    assert depth(value) == levels
    assert not deeper_than(value, levels)
    assert levels == 0 or deeper_than(value, levels - 1)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


def seen(value: object) -> object:
    """``value`` as a board sees it."""
    if isinstance(value, dict):
        return {key: seen(part) for key, part in value.items()}
    if isinstance(value, list):
        return [seen(part) for part in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return float(value)
    return value


@given(values)
def test_the_form_of_a_value_reads_as_that_value_and_is_its_own_form(value: object) -> None:
    text = json.dumps(value, ensure_ascii=True, indent=1).encode()
    form = compact(text)
    assert json.loads(form) == seen(value)
    assert compact(form) == form
    assert depth(read_value(text)) == depth(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_plain_in_the_middle_and_exponential_outside(number: float) -> None:
    form = compact(json.dumps(number).encode()).decode()
    assert float(form) == number
    assert math.copysign(1, float(form)) == math.copysign(1, number)
    plain = number == 0 or 1e-5 <= abs(number) < 1e16
    assert re.fullmatch(r"-?\d+\.\d+" if plain else r"-?\d(\.\d+)?e-?[1-9]\d*", form)


# -------------------------------------------------------------------------- writes

LIVE, GONE = Known(3, live=True), Known(3, live=False)


@pytest.mark.parametrize(
    ("delete", "expected", "head", "verdict"),
    [
        (False, 0, None, Verdict.WRITE),
        (False, 0, LIVE, Verdict.MOVED),
        (False, 0, GONE, Verdict.MOVED),
        (False, 3, LIVE, Verdict.WRITE),
        (False, 3, GONE, Verdict.WRITE),
        (False, 2, LIVE, Verdict.MOVED),
        (False, 4, GONE, Verdict.MOVED),
        (False, 2**70, LIVE, Verdict.MOVED),
        (False, 5, None, Verdict.NEVER),
        (True, 3, LIVE, Verdict.WRITE),
        (True, 2, LIVE, Verdict.MOVED),
        (True, 0, LIVE, Verdict.MOVED),
        (True, 3, GONE, Verdict.ABSENT),
        (True, 2, GONE, Verdict.MOVED),
        (True, 0, GONE, Verdict.MOVED),
        (True, 0, None, Verdict.NEVER),
        (True, 5, None, Verdict.NEVER),
    ],
)
def test_a_key_is_written_at_the_revision_that_is_expected(
    delete: bool, expected: int, head: Known | None, verdict: Verdict
) -> None:
    assert decide(head, expected, delete=delete, names=10, live=5) is verdict


@pytest.mark.parametrize(
    ("head", "expected", "names", "live", "verdict"),
    [
        (None, 0, 4095, 0, Verdict.WRITE),
        (None, 0, 4096, 0, Verdict.NO_NAME_LEFT),
        (None, 0, 600, 511, Verdict.WRITE),
        (None, 0, 600, 512, Verdict.NO_ROOM_LEFT),
        (GONE, 3, 4096, 511, Verdict.WRITE),
        (GONE, 3, 4096, 512, Verdict.NO_ROOM_LEFT),
        (LIVE, 3, 4096, 512, Verdict.WRITE),
        (LIVE, 2, 4096, 512, Verdict.MOVED),
    ],
)
def test_a_board_has_so_many_names_and_so_many_keys_with_a_value(
    head: Known | None, expected: int, names: int, live: int, verdict: Verdict
) -> None:
    assert decide(head, expected, delete=False, names=names, live=live) is verdict


def test_a_delete_needs_no_room() -> None:
    assert decide(LIVE, 3, delete=True, names=4096, live=512) is Verdict.WRITE


def test_the_hash_of_an_intent_is_over_its_five_fields_with_their_lengths() -> None:
    def digest(*fields: bytes) -> str:
        return hashlib.sha256(b"".join(len(field).to_bytes(8, "big") + field for field in fields)).hexdigest()

    assert intent_hash("p", "a.b", 12, b'{"x":"\xc3\xa9"}', None) == digest(
        b"p", b"a.b", b"12", b'{"x":"\xc3\xa9"}', b""
    )
    assert intent_hash("p", "a", 0, None, "é") == digest(b"p", b"a", b"0", b"<tombstone>", "é".encode())
    assert intent_hash("project-1", "gates.union", 1, b"true", "s") == (
        "04d6b9b8becf8393a509b69acd556ed4cc633b7813359de2d0d5e5ab71a63114"
    )
