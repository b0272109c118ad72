"""Answers to questions and results for an agent's own requests: what is taken, and what of it may be stored."""

import json
from typing import Any

import pytest
from msgspec import UNSET

from termal.model.message import Question, QuestionOption
from termal.rules.answers import check_answers, check_result, without_secrets
from termal.rules.verdicts import Bad


def question(identity: str, *labels: str, other: bool = False, secret: bool = False) -> Question:
    options = [QuestionOption(label=label, description="") for label in labels]
    return Question(
        id=identity, header="", question="?", is_other=other, is_secret=secret, options=options or UNSET
    )  # fmt: skip


QUESTIONS = [question("color", "red", "blue"), question("name"), question("size", "S", other=True)]
GOOD = {"color": ["red"], "name": [" Ada "], "size": ["gigantic"]}


def test_an_option_a_free_text_and_another_text_are_answers() -> None:
    check_answers(QUESTIONS, GOOD)
    check_answers([], {})


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param({"color": ["green"]}, "notOffered", id="not an offered option"),
        pytest.param({"color": ["red "]}, "notOffered", id="an option with a space"),
        pytest.param({"color": []}, "oneAnswer", id="no answer"),
        pytest.param({"color": ["red", "blue"]}, "oneAnswer", id="two answers"),
        pytest.param({"name": [" \n"]}, "oneAnswer", id="a blank answer"),
        pytest.param({"size": [""]}, "oneAnswer", id="an empty answer where any text is one"),
        pytest.param({"age": ["3"]}, "unknownQuestion", id="an unknown question"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(changed: dict[str, list[str]], reason: str) -> None:
    with pytest.raises(Bad) as refused:
        check_answers(QUESTIONS, {**GOOD, **changed})
    assert refused.value.reason == reason


@pytest.mark.parametrize("left_out", list(GOOD))
def test_every_question_needs_its_answer(left_out: str) -> None:
    with pytest.raises(Bad, match=left_out):
        check_answers(QUESTIONS, {name: text for name, text in GOOD.items() if name != left_out})


def test_a_secret_answer_is_stored_as_a_placeholder() -> None:
    questions = [question("user"), question("password", secret=True)]
    shown = without_secrets(questions, {"user": ["ada"], "password": ["hunter2"]})
    assert shown == {"user": ["ada"], "password": ["[secret]"]}


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        pytest.param(b"null", None, id="null"),
        pytest.param(b'{"a":[1,2.5,"x"]}', {"a": [1, 2.5, "x"]}, id="an object"),
        pytest.param(b'"' + b"x" * 65_534 + b'"', "x" * 65_534, id="65536 bytes"),
        pytest.param(nested(32), json.loads(nested(32)), id="32 levels"),
    ],
)
def test_a_result_within_its_limits_is_taken(encoded: bytes, value: Any) -> None:
    assert check_result(encoded) == value


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        pytest.param(b'"' + b"x" * 65_535 + b'"', "resultTooLarge", id="65537 bytes"),
        pytest.param(nested(33), "resultTooDeep", id="33 levels"),
        pytest.param(b'{"a":' * 33 + b"1" + b"}" * 33, "resultTooDeep", id="33 levels of objects"),
        pytest.param(nested(20_000), "resultTooDeep", id="20000 levels"),
        pytest.param(b"{", "json", id="no JSON"),
    ],
)
def test_a_result_beyond_its_limits_is_refused(encoded: bytes, reason: str) -> None:
    with pytest.raises(Bad) as refused:
        check_result(encoded)
    assert refused.value.reason == reason
