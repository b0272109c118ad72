"""What mail may say, how cursors move, what a list shows of a message."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.rules.mail import (
    PREVIEW_CHARS,
    check_class,
    check_forward,
    check_mail,
    cursor_move,
    mail_preview,
    mailbox_key,
    page_rows,
    refused_parties,
    refused_session,
)
from termal.rules.verdicts import Bad, Missing, Refused, Stale


@pytest.mark.parametrize("kind", [None, "routine"])
def test_routine_is_the_only_class(kind: str | None) -> None:
    check_class(kind)


@pytest.mark.parametrize("kind", ["stop", "urgent", "", "Routine", "routine "])
def test_every_other_class_is_refused(kind: str) -> None:
    with pytest.raises(Bad, match="routine"):
        check_class(kind)


@pytest.mark.parametrize(
    ("sender", "target", "words", "kind", "target_alone"),
    [
        ("unknown", "unknown", "sending", Missing, False),
        ("hidden", "unknown", "target", Missing, False),
        ("", "unknown", "target", Missing, True),
        ("unknown", "", "sending", Missing, False),
        ("hidden", "remote", "sending", Bad, False),
        ("", "delegated", "target", Bad, True),
        ("delegated", "", "sending", Bad, False),
    ],
)
def test_what_is_missing_is_told_first_and_the_sender_before_the_target(
    sender: str, target: str, words: str, kind: type[Refused], target_alone: bool
) -> None:
    refused, alone = refused_parties(sender, target)
    assert type(refused) is kind
    assert refused is not None
    assert words in refused.text
    assert alone is target_alone


def test_two_roots_are_not_refused() -> None:
    assert refused_parties("", "") == (None, False)
    assert refused_session("the session", "") is None


OK = {"target_id": "t", "key": "k", "body": "b", "topic": None, "stamp": None}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"target_id": " "}, "target"),
        ({"key": "\t"}, "key"),
        ({"body": "\u2003\n"}, "message"),
        ({"key": "é" * 129}, "256"),
        ({"body": "x" * 262_145}, "262144"),
        ({"topic": "x" * 4_097}, "4096"),
        ({"stamp": "x" * 4_097}, "4096"),
        ({"topic": "delegation-review-result/v1"}, "reserved"),
        # Blank is told before too long, and in the order of the fields.
        ({"key": " " * 300, "body": "x" * 262_145}, "blank"),
        ({"key": "k" * 257, "body": "x" * 262_145}, "key has"),
        ({"body": "x" * 262_145, "topic": "x" * 4_097}, "message has"),
        ({"topic": "x" * 4_097, "stamp": "x" * 4_097}, "topic has"),
    ],
    ids=str,
)
def test_what_mail_may_not_be(wrong: dict[str, str], words: str) -> None:
    with pytest.raises(Bad, match=words):
        check_mail(**{**OK, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fine",
    [
        {},
        {"topic": "", "stamp": ""},
        {"key": "é" * 128},
        {"body": " x "},
        {"body": "é" * 131_072},
        {"topic": "x" * 4_096, "stamp": "x" * 4_096},
        {"key": "\x00\n", "body": "\x00"},
    ],
    ids=str,
)
def test_what_mail_may_be(fine: dict[str, str]) -> None:
    check_mail(**{**OK, **fine})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cursor", "expected", "through", "result"),
    [
        (0, 0, 3, "move"),
        (3, 0, 3, "keep"),
        (3, 0, 2, "keep"),
        (3, 3, 3, "keep"),
        (3, 0, 4, Stale),
        (3, 4, 5, Stale),
        (3, 4, 4, Stale),
        (3, 5, 4, Bad),
        (3, 3, 6, Bad),
        (5, 1, 4, "keep"),
    ],
)
def test_an_acknowledgement_with_5_messages(cursor: int, expected: int, through: int, result: object) -> None:
    def decide() -> str:
        check_forward(expected, through)
        return cursor_move(cursor, 5, expected, through)

    if isinstance(result, str):
        assert decide() == result
        return
    with pytest.raises(Refused) as caught:
        decide()
    assert type(caught.value) is result


def test_beyond_the_latest_names_both_numbers() -> None:
    with pytest.raises(Bad, match=r"6.*5"):
        cursor_move(3, 5, 3, 6)


numbers = st.integers(0, 12)


@given(numbers, numbers, numbers, numbers)
def test_a_cursor_never_goes_back_and_never_beyond_the_latest(
    cursor: int, latest: int, expected: int, through: int
) -> None:
    cursor = min(cursor, latest)
    try:
        check_forward(expected, through)
        move = cursor_move(cursor, latest, expected, through)
    except Refused:
        return
    after = through if move == "move" else cursor
    assert cursor <= after <= latest
    assert after >= through


@pytest.mark.parametrize(("limit", "rows"), [(0, 1), (1, 1), (50, 50), (200, 200), (5000, 200)])
def test_a_page_has_1_to_200_rows(limit: int, rows: int) -> None:
    assert page_rows(limit) == rows


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("hello", "hello"),
        ("  two\n\n words\t", "two words"),
        ("x" * 160, "x" * 160),
        ("x" * 161, "x" * 160 + "…"),
        ("x " * 80, "x " * 79 + "x"),
        (" " * 5000 + "late", "late"),
        ("a" + " " * 5000 + "b" * 200, "a " + "b" * 158 + "…"),
        ("x" * 160 + " " * 5000, "x" * 160),
        ("é" * 161, "é" * 160 + "…"),
    ],
    ids=range(9),
)
def test_a_preview_is_one_line_of_160_characters(body: str, shown: str) -> None:
    assert mail_preview(body) == shown


@given(st.text(alphabet=" ab\n\t", max_size=4000))
def test_a_preview_is_that_of_the_whole_body(body: str) -> None:
    line = " ".join(body.split())
    assert mail_preview(body) == (line if len(line) <= PREVIEW_CHARS else line[:PREVIEW_CHARS] + "…")


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_mailbox_has_one_key_whoever_writes_first(one: str, other: str) -> None:
    key = mailbox_key(one, other)
    assert key == mailbox_key(other, one)
    assert sorted(json.loads(key)) == sorted((one, other))
    assert mailbox_key("b", "a") == '["a","b"]'
