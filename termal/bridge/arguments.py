"""The arguments of a tool call, checked before anything is sent. Raises `ToolFailed` with the name of the field."""

import re
from typing import Any

from termal.bridge.failures import ToolFailed

Arguments = dict[str, Any]

_FORBIDDEN = re.compile(r"[/\\?#%\x00-\x1f\x7f-\x9f]")
_KEY = re.compile(r"[a-z0-9._-]{1,128}")
_DOTS = (".", "..")


def path_problem(text: str) -> str:
    """Why ``text`` cannot stand in a path, empty when it can."""
    if not text:
        return "must not be empty"
    if text in _DOTS or _FORBIDDEN.search(text):
        return "must not contain /, \\, ?, #, % or control characters, nor be . or .."
    return ""


def required(arguments: Arguments, field: str) -> str:
    """A text that is not blank, trimmed."""
    value = arguments.get(field)
    if not isinstance(value, str) or not value.strip():
        raise ToolFailed(f"{field} is required and must be a string that is not blank")
    return value.strip()


def optional(arguments: Arguments, field: str) -> str | None:
    """A text that is not blank, trimmed; everything else counts as absent."""
    value = arguments.get(field)
    return value.strip() or None if isinstance(value, str) else None


def path_id(arguments: Arguments, field: str) -> str:
    return _id(required(arguments, field), field)


def path_ids(arguments: Arguments, field: str) -> list[str]:
    """At least one id; repeated ones once, in order."""
    value = arguments.get(field)
    if not isinstance(value, list) or not value:
        raise ToolFailed(f"{field} is required and must be a list of at least one id")
    found: dict[str, None] = {}
    for item in value:
        if not isinstance(item, str) or not item.strip():
            raise ToolFailed(f"{field} must hold ids that are strings and not blank")
        found[_id(item.strip(), field)] = None
    return list(found)


def unsigned(arguments: Arguments, field: str, default: int | None = None, *, most: int | None = None) -> int:
    """A whole number from 0, ``default`` when it is absent (None: it must be there)."""
    value = arguments.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ToolFailed(f"{field} must be a whole number, 0 or more")
    if most is not None and value > most:
        raise ToolFailed(f"{field} must be at most {most}")
    return value


def one_of(arguments: Arguments, field: str, words: tuple[str, ...]) -> str | None:
    value = arguments.get(field)
    if value is None:
        return None
    if value not in words:
        raise ToolFailed(f"{field} must be one of {', '.join(words)}")
    return str(value)


def board_key(arguments: Arguments, field: str = "key") -> str:
    """Just what keeps the address in one piece; the board owns the grammar."""
    key = required(arguments, field)
    if _KEY.fullmatch(key) is None or key in _DOTS:
        raise ToolFailed(f"{field} must be 1 to 128 of a-z, 0-9, '.', '_' and '-', and not . or ..")
    return key


def _id(text: str, field: str) -> str:
    problem = path_problem(text)
    if problem:
        raise ToolFailed(f"{field} {problem}")
    return text
