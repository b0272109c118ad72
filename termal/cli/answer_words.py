"""What a person types, as answers that the daemon takes: questions by number or text, a form's fields by type. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from termal.model.message import Question


def answers_from(questions: Sequence[Question], words: Sequence[str]) -> dict[str, list[str]]:
    """One answer for each question, in their order. Raises ValueError when their number differs."""
    if len(words) != len(questions):
        wanted = "one answer is" if len(questions) == 1 else f"{len(questions)} answers are"
        raise ValueError(f"{wanted} wanted, not {len(words)}")
    return {question.id: [word] for question, word in zip(questions, words, strict=True)}


def question_lines(questions: Sequence[Question], question: Question) -> list[str]:
    """The question with its options, numbered."""
    number = f"{questions.index(question) + 1}. " if len(questions) > 1 else ""
    options = [] if question.options is UNSET else question.options
    shown = [
        f"   {index}) {option.label}" + (f" - {option.description}" if option.description else "")
        for index, option in enumerate(options, 1)
    ]
    return [f"{number}{question.question}", *shown]


def interactive_text(question: Question, typed: str) -> str:
    """The label of the option whose number was typed, else what was typed."""
    labels = [] if question.options is UNSET else [option.label for option in question.options]
    word = typed.strip()
    if word in labels or not word.isascii() or not word.isdigit() or not 1 <= int(word) <= len(labels):
        return typed
    return labels[int(word) - 1]


def content_from(request: dict[str, Any], words: Sequence[str]) -> dict[str, Any] | None:
    """What fills the form of ``request``, from ``NAME=VALUE``; None for a request that has no form.

    The value of a text field is the text itself, of any other one JSON. Raises ValueError.
    """
    if request.get("mode") != "form":
        if words:
            raise ValueError("this request has no form to fill")
        return None
    schema = request.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    fields = properties if isinstance(properties, dict) else {}
    content: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in fields:
            raise ValueError(f"{word!r} is no NAME=VALUE of the form, whose fields are: {', '.join(fields) or 'none'}")
        content[name] = _value(name, fields[name], value)
    return content


def _value(name: str, field: object, text: str) -> Any:
    if not isinstance(field, dict) or field.get("type") == "string":
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"{name} wants {field.get('type')} as JSON") from error
