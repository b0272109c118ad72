"""What is typed at a terminal for a question."""

import pytest

from termal.cli.answer_words import interactive_text
from termal.model.message import Question, QuestionOption

OPTIONS = [QuestionOption("red", ""), QuestionOption("3", "")]
CHOICE = Question(id="q", header="", question="?", is_other=True, is_secret=False, options=OPTIONS)
OPEN = Question(id="q", header="", question="?", is_other=True, is_secret=False)


@pytest.mark.parametrize(
    ("question", "typed", "text"),
    [
        (CHOICE, "1", "red"),
        (CHOICE, " 2 ", "3"),
        (CHOICE, "3", "3"),
        (CHOICE, "7", "7"),
        (CHOICE, "green", "green"),
        (OPEN, "1", "1"),
    ],
    ids=["a number", "with spaces", "a label that is a number", "no such option", "another text", "no options"],
)
def test_a_number_stands_for_an_option(question: Question, typed: str, text: str) -> None:
    assert interactive_text(question, typed) == text
