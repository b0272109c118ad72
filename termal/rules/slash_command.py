"""Prompt templates: what a file of them says of itself, and the prompt that one becomes with arguments and a note."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from termal.rules.verdicts import Bad

ARGUMENTS = "$ARGUMENTS"
NOTE_HEADING = "## Additional User Note"
TEXT_BYTES = 65_536
CWD_CHARS = 4096
TITLE_CHARS = 200
_KNOWN = frozenset(
    {
        "name",
        "description",
        "metadata",
        "argument-hint",
        "argument_hint",
        "allowed-tools",
        "tools",
        "model",
        "disable-model-invocation",
        "disable_model_invocation",
    }
)
_TERMAL = "metadata.termal"
_LINE = re.compile(r"( *)([^\s:#\"'][^:]*?)\s*:(?:\s+(.*))?")
_TAG = re.compile(r"(.*)\((bundled|project|user)\)\s*", re.DOTALL)
_UNREADABLE = ("|", ">", "[", "{", "&", "*", "!", "%", "@", "`")


class Template(NamedTuple):
    """``fields``: the scalars of the front matter under dotted keys. ``body``: everything below it."""

    fields: dict[str, str]
    body: str

    @property
    def description(self) -> str:
        """What it says of itself, else its first line."""
        return self.fields.get("description") or next(filter(None, map(str.strip, self.body.splitlines())), "")

    @property
    def argument_hint(self) -> str | None:
        return self.fields.get("argument-hint") or self.fields.get("argument_hint")


class Native(NamedTuple):
    """A command that an agent knows by itself. ``of_project``: it comes from the directory that the agent runs in."""

    name: str
    description: str
    source: str
    argument_hint: str
    of_project: bool


class Resolved(NamedTuple):
    visible: str
    expanded: str
    title: str


def read_template(text: str) -> Template:
    """Front matter counts only when it is closed and has a key that means something here; else it is body."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() == "---":
        for end, line in enumerate(lines[1:], 1):
            if line.rstrip() == "---":
                fields = _fields(lines[1:end])
                if any(key in _KNOWN or key.split(".")[0] in _KNOWN for key in fields):
                    below = lines[end + 1 :]
                    if below and not below[0].strip():
                        below = below[1:]
                    return Template({key: value for key, value in fields.items() if value}, "\n".join(below))
                break
    return Template({}, "\n".join(lines))


def resolve(name: str, template: Template, arguments: str | None, note: str | None) -> Resolved:
    """Raises `Bad` for texts that are too long and for a title rule in the file that makes no sense."""
    arguments, note = _bounded("arguments", arguments), _bounded("note", note)
    visible = f"/{name} {arguments}" if arguments else f"/{name}"
    expanded = template.body.replace(ARGUMENTS, arguments)
    if note:
        expanded = f"{expanded.rstrip()}\n\n{NOTE_HEADING}\n\n{note}"
    prefix = _title_prefix(template.fields)
    prefixed = f"{prefix} {arguments.split()[0]}" if prefix and arguments else ""
    return Resolved(visible, expanded, (prefixed or template.description or visible)[:TITLE_CHARS])


def read_native(agent: str, commands: Iterable[tuple[str, str, str]]) -> list[Native]:
    """Name, description and argument hint as the agent said them; a tag behind the description is its source."""
    found = []
    for name, description, hint in commands:
        tagged = _TAG.fullmatch(description)
        text, tag = (tagged[1], tagged[2]) if tagged else (description, "native")
        if name.strip():
            found.append(Native(name.strip(), text.strip(), f"{agent} {tag} command", hint.strip(), tag == "project"))
    return found


def resolve_native(command: Native, arguments: str | None, note: str | None) -> Resolved:
    """The agent expands it itself. Raises `Bad` for a note, which it would take for arguments."""
    arguments, note = _bounded("arguments", arguments), _bounded("note", note)
    if note:
        raise Bad("a command of the agent itself takes no note", reason="nativeNoteUnsupported")
    visible = f"/{command.name} {arguments}" if arguments else f"/{command.name}"
    return Resolved(visible, "", (command.description or visible)[:TITLE_CHARS])


def _bounded(what: str, text: str | None) -> str:
    text = (text or "").strip()
    if len(text.encode(errors="replace")) > TEXT_BYTES:
        raise Bad(f"{what} must have at most {TEXT_BYTES} bytes")
    return text


def _title_prefix(fields: dict[str, str]) -> str:
    """The prefix of titles, "" for titles that have none. Raises `Bad`."""
    strategy = fields.get(f"{_TERMAL}.title.strategy")
    prefix = fields.get(f"{_TERMAL}.title.prefix", "").strip()
    if strategy == "prefixFirstArgument":
        if not prefix:
            raise Bad("the command's title strategy prefixFirstArgument needs a prefix", reason="titleMetadata")
        return prefix
    if strategy not in (None, "default"):
        raise Bad("the command's title strategy is neither default nor prefixFirstArgument", reason="titleMetadata")
    if prefix:
        raise Bad("the command has a title prefix without the strategy for it", reason="titleMetadata")
    return ""


def _fields(lines: list[str]) -> dict[str, str]:
    """Scalars and, with an empty value, the names of maps. What is written in any other way is left out."""
    fields: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in lines:
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            continue
        depth, name, value = len(found[1]), found[2], (found[3] or "").strip()
        while above and above[-1][0] >= depth:
            above.pop()
        if depth and not above:
            continue
        path = f"{above[-1][1]}.{name}" if above else name
        scalar = _scalar(value)
        if not value:
            above.append((depth, path))
        if scalar is not None:
            fields[path] = scalar
    return fields


def _scalar(value: str) -> str | None:
    """None for what this reader does not read."""
    if value[:1] in ("'", '"'):
        quote = value[0]
        end = value.find(quote, 1)
        closed = end > 0 and (not value[end + 1 :].strip() or value[end + 1 :].lstrip().startswith("#"))
        return value[1:end] if closed else None
    if value.startswith(_UNREADABLE):
        return None
    return re.split(r"\s+#", value, maxsplit=1)[0].strip()
