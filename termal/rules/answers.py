"""Whether what a person answers fits what was asked: questions and app requests. Values in, verdict out."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET

from termal.model.message import Question
from termal.rules.nesting import deeper_than
from termal.rules.verdicts import Bad
from termal.rules.wording import HIDDEN_ANSWER

RESULT_BYTES = 64 << 10
RESULT_DEPTH = 32

Answers = Mapping[str, Sequence[str]]


def check_answers(questions: Sequence[Question], answers: Answers) -> None:
    """Exactly one answer that is not blank for each question, an offered one unless any text is. Raises `Bad`."""
    known = {question.id for question in questions}
    for name in answers:
        if name not in known:
            raise Bad(f"there is no question {name!r}", reason="unknownQuestion")
    for question in questions:
        given = answers.get(question.id, ())
        if len(given) != 1 or not given[0].strip():
            raise Bad(f"question {question.id!r} needs exactly one answer that is not blank", reason="oneAnswer")
        if not _offered(question, given[0]):
            raise Bad(f"question {question.id!r} takes only one of its options", reason="notOffered")


def without_secrets(questions: Sequence[Question], answers: Answers) -> dict[str, list[str]]:
    """``answers`` as they may be stored and shown."""
    secret = {question.id for question in questions if question.is_secret}
    return {name: [HIDDEN_ANSWER] if name in secret else list(given) for name, given in answers.items()}


def check_result(encoded: bytes) -> object:
    """The value of an app request's result, JSON without spaces. Raises `Bad` beyond `RESULT_BYTES`, `RESULT_DEPTH`."""
    if len(encoded) > RESULT_BYTES:
        raise Bad(f"the result must have at most {RESULT_BYTES} bytes of JSON", reason="resultTooLarge")
    too_deep = Bad(f"the result must not be nested deeper than {RESULT_DEPTH}", reason="resultTooDeep")
    try:
        value: object = msgspec.json.decode(encoded)
    except RecursionError:
        raise too_deep from None
    except msgspec.DecodeError as error:
        raise Bad("the result is not JSON", reason="json") from error
    if deeper_than(value, RESULT_DEPTH):
        raise too_deep
    return value


def _offered(question: Question, text: str) -> bool:
    if question.is_other or question.options is UNSET or not question.options:
        return True
    return any(option.label == text for option in question.options)
