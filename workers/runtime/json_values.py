"""What is read leniently from the JSON of an agent: a value of another kind counts as none. Raises nothing."""

from typing import Any


def records(value: object) -> list[dict[str, Any]]:
    """The objects of a list; empty for whatever else."""
    return [record for record in value if isinstance(record, dict)] if isinstance(value, list) else []


def text_or_none(value: object) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def valid_text(text: str) -> str:
    """JSON from an agent may hold half a surrogate pair, which no message of ours can carry."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
