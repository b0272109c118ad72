"""Slash commands in the prompt of a spawn: told from text, and expanded by the daemon before anything is delegated."""

import re
from typing import Any, NamedTuple

import msgspec

from termal.bridge.arguments import path_problem
from termal.bridge.backend import Backend
from termal.client.failure import ApiFailed

UNKNOWN_COMMAND = "agentCommandNotFound"
_SPACES = " \t\x0b\x0c"
_NOTE = re.compile(rf"(?:\A|(?<=[{_SPACES}]))--(?=[{_SPACES}]|\Z)")
_NAME = re.compile(r"/([^\s/]+)(?=\s|\Z)")


class Command(NamedTuple):
    """``arguments`` and ``note`` are None when they are empty."""

    name: str
    arguments: str | None
    note: str | None


class Expanded(NamedTuple):
    """What is spawned; the defaults that the command sets beside its prompt, None where it sets none."""

    prompt: str
    title: str | None = None
    mode: str | None = None
    write_policy: Any = None


class BadCommand(Exception):
    """The text says why nothing was spawned: refused here."""


def parse(prompt: str) -> Command | None:
    """The command that the prompt is: one line that begins with a slash and a name. None for any other text."""
    line = prompt.rstrip()
    named = _NAME.match(line)
    if named is None or "\n" in line or "\r" in line:
        return None
    tail = line[named.end() :]
    split = _NOTE.search(tail)
    arguments, note = (tail[: split.start()], tail[split.end() :]) if split else (tail, "")
    return Command(named[1], arguments.strip() or None, note.strip() or None)


async def expand(backend: Backend, prompt: str, cwd: str | None) -> Expanded:
    """The prompt to spawn. Raises `BadCommand`, and `ApiFailed` when the daemon could not be asked."""
    command = parse(prompt)
    literal = Expanded(prompt.strip())
    if command is None:
        return literal
    # A colon or a percent sign may stand in the name of a command; the path has them encoded.
    problem = path_problem(command.name.replace("%", ""))
    if problem:
        raise BadCommand(f"the name of the command /{command.name} {problem}")
    answer = await _resolve(backend, command, cwd)
    if answer is None:
        if cwd is not None and await _resolve(backend, command, None) is not None:
            raise BadCommand(
                f"/{command.name} is a command of this session's own directory and none of {cwd}: nothing was spawned"
            )
        return literal
    return _expanded(command, answer)


async def _resolve(backend: Backend, command: Command, cwd: str | None) -> dict[str, Any] | None:
    """None: there is no such command there."""
    # Brings the records of sessions along, which no other tool needs.
    from termal.client.routes import sessions  # noqa: PLC0415

    call = sessions.resolve_command(
        backend.session_id,
        command.name,
        arguments=command.arguments,
        note=command.note,
        cwd=cwd,
        intent="delegate",
    )
    try:
        answer: dict[str, Any] = await backend.ask(msgspec.structs.replace(call, reply=dict))
    except ApiFailed as error:
        if error.status == 404 and error.reason == UNKNOWN_COMMAND:
            return None
        raise
    return answer


def _expanded(command: Command, answer: dict[str, Any]) -> Expanded:
    prompt = _text(answer.get("expandedPrompt")) or _text(answer.get("visiblePrompt"))
    if prompt is None:
        raise BadCommand(f"the command /{command.name} has no text: nothing was spawned")
    delegation = answer.get("delegation")
    delegation = delegation if isinstance(delegation, dict) else {}
    return Expanded(
        prompt,
        _text(delegation.get("title")) or _text(answer.get("title")),
        _text(delegation.get("mode")),
        delegation.get("writePolicy"),
    )


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None
