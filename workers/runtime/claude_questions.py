"""Claude's own tool for questions: its call as questions for a person, their answers as what the tool takes. Pure."""

import msgspec

from termal.wire.turns import AskedOption, AskedQuestion, QuestionAsked
from workers.runtime.claude_messages import Json
from workers.runtime.json_values import records, valid_text

TOOL = "AskUserQuestion"
QUESTIONS = 16
OPTIONS = 32
TEXT_CHARACTERS = 4096
"""More than this is no question that a person answers."""
_TITLE = "Claude asks"

_decode_answers = msgspec.json.Decoder(dict[str, list[str]]).decode


def asked_of(name: str, arguments: Json) -> QuestionAsked | None:
    """The event under the request ``name``, None when the call holds no questions. Any text is an answer: the tool
    takes one beside its options, and several of them as one text."""
    questions = [
        AskedQuestion(
            id=_id(number),
            header=_text(record.get("header")),
            question=_text(record.get("question")),
            is_other=True,
            is_secret=False,
            options=_options(record.get("options")),
        )
        for number, record in enumerate(records(arguments.get("questions"))[:QUESTIONS], 1)
    ]
    if not questions:
        return None
    only = questions[0].question if len(questions) == 1 else ""
    return QuestionAsked(name, only or _TITLE, "", questions)


def updated_input(arguments: Json, payload: bytes) -> Json:
    """The call's arguments with the answers in them, by the text of each question. Raises `ValueError`."""
    given = _decode_answers(payload)
    answers = {
        str(record.get("question") or ""): given[_id(number)][0]
        for number, record in enumerate(records(arguments.get("questions"))[:QUESTIONS], 1)
        if given.get(_id(number))
    }
    if not answers:
        raise ValueError("there are no answers")
    return {**arguments, "answers": answers}


def _id(number: int) -> str:
    return f"question-{number}"


def _options(value: object) -> list[AskedOption]:
    return [
        AskedOption(_text(record.get("label")), _text(record.get("description")))
        for record in records(value)[:OPTIONS]
        if record.get("label")
    ]


def _text(value: object) -> str:
    return valid_text(str(value or "")[:TEXT_CHARACTERS])
