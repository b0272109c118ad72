"""What a prompt asks of the demo agent: lines that are directives, in order. Pure."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple


class Say(NamedTuple):
    text: str


class Think(NamedTuple):
    text: str


class Wait(NamedTuple):
    seconds: float


class Run(NamedTuple):
    command: str


class Edit(NamedTuple):
    path: str
    text: str


class Tool(NamedTuple):
    """A call of a tool of the injected MCP server; ``arguments`` may refer to the result of the one before."""

    name: str
    arguments: dict[str, Any]


class Flood(NamedTuple):
    size_bytes: int


class Garbage(NamedTuple):
    pass


class Complain(NamedTuple):
    """A line on standard error."""

    text: str


class Fail(NamedTuple):
    text: str


class Exit(NamedTuple):
    code: int


class Hang(NamedTuple):
    pass


Directive = Say | Think | Wait | Run | Edit | Tool | Flood | Garbage | Complain | Fail | Exit | Hang


def _tool(found: re.Match[str]) -> Directive:
    if found["json"] is None:
        return Tool(found["name"], {})
    try:
        arguments = json.loads(found["json"])
    except ValueError as error:
        return Fail(f"the arguments of tool {found['name']} are no JSON: {error}")
    return Tool(found["name"], arguments)


_FORMS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], Directive]]] = [
    (re.compile(r"say (?P<text>.+)"), lambda found: Say(found["text"])),
    (re.compile(r"think (?P<text>.+)"), lambda found: Think(found["text"])),
    (re.compile(r"wait (?P<seconds>\d+(?:\.\d+)?)\s*"), lambda found: Wait(float(found["seconds"]))),
    (re.compile(r"run (?P<command>.+)"), lambda found: Run(found["command"])),
    (re.compile(r"edit (?P<path>\S+) (?P<text>.+)"), lambda found: Edit(found["path"], found["text"])),
    (re.compile(r"tool (?P<name>[A-Za-z0-9_-]+)(?: (?P<json>\{.*))?\s*"), _tool),
    (re.compile(r"flood (?P<bytes>\d{1,12})\s*"), lambda found: Flood(int(found["bytes"]))),
    (re.compile(r"garbage\s*"), lambda _: Garbage()),
    (re.compile(r"stderr (?P<text>.+)"), lambda found: Complain(found["text"])),
    (re.compile(r"fail (?P<text>.+)"), lambda found: Fail(found["text"])),
    (re.compile(r"exit (?P<code>\d{1,3})\s*"), lambda found: Exit(int(found["code"]))),
    (re.compile(r"hang\s*"), lambda _: Hang()),
]


def directives(prompt: str) -> list[Directive]:
    """The directives in ``prompt``, empty when no line is one. Each begins in the first column, in lower case."""
    found = []
    for line in prompt.splitlines():
        for pattern, make in _FORMS:
            match = pattern.fullmatch(line)
            if match is not None:
                found.append(make(match))
                break
    return found


def with_last(value: Any, last: Any) -> Any:
    """``value`` with each ``$LAST.field`` in its strings replaced by that field of ``last`` (dots go deeper).

    A string that is nothing else becomes the field itself, of whatever type. Raises KeyError where it is not there.
    """
    if isinstance(value, dict):
        return {key: with_last(inner, last) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_last(inner, last) for inner in value]
    if not isinstance(value, str):
        return value
    whole = _LAST.fullmatch(value)
    if whole is not None:
        return _field(last, whole[1])
    return _LAST.sub(lambda found: _as_text(_field(last, found[1])), value)


_LAST = re.compile(r"\$LAST((?:\.[A-Za-z0-9_]+)+)")


def _field(value: Any, path: str) -> Any:
    for name in path.split(".")[1:]:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise KeyError(f"the last tool result has no field {path[1:]}")
    return value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
