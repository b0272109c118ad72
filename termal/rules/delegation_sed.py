"""Whether a call of sed only prints: its options, and its script command by command. Fails closed."""

import re

_PLAIN_LONG = frozenset({"--quiet", "--silent", "--regexp-extended", "--separate", "--unbuffered", "--null-data"})
_PLAIN_SHORT = frozenset("nErsuz")
_ADDRESS = re.compile(r"\$|[0-9]+(?:~[0-9]+)?")
_SECOND = re.compile(r"[+~][0-9]+")
_SIMPLE = re.compile(r"(?:[pdPDnNhHgGx=]|[qQl][0-9]*)")
_BRACKET = re.compile(r"\[\^?\]?(?:\[:[a-z]+:\]|[^\[\]])*\]")
_DELIMITERS = frozenset("/,|:#@%!_~+=-")
"""Seds differ in what they make of others."""
_FLAGS = re.compile(r"[gpiImM0-9]*")


class _NotPlain(Exception):
    pass


def sed_reads_only(arguments: list[str]) -> bool:
    """No editing in place, no script from a file, no command or flag that writes or runs something."""
    try:
        scripts, operands = _split(arguments)
        if not scripts:
            scripts = [operands.pop(0)] if operands else []
        for script in scripts:
            _check(script)
    except _NotPlain:
        return False
    return bool(scripts)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The scripts of ``-e``, and what is no option."""
    scripts: list[str] = []
    operands: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return scripts, operands + rest
        if argument.startswith("--"):
            if argument.startswith("--expression="):
                scripts.append(argument.partition("=")[2])
            elif argument not in _PLAIN_LONG:
                raise _NotPlain
        elif argument.startswith("-") and argument != "-":
            script = _short(argument[1:], rest)
            scripts += [] if script is None else [script]
        else:
            operands.append(argument)
    return scripts, operands


def _short(letters: str, rest: list[str]) -> str | None:
    """A cluster of short options; the script of an ``e`` in it."""
    for at, letter in enumerate(letters):
        if letter == "e":
            if letters[at + 1 :]:
                return letters[at + 1 :]
            if not rest:
                raise _NotPlain
            return rest.pop(0)
        if letter not in _PLAIN_SHORT:
            raise _NotPlain
    return None


def _check(script: str) -> None:
    """Raises `_NotPlain` for everything but addresses with commands that print, delete, move or substitute."""
    if "\n" in script:
        raise _NotPlain
    at = 0
    while at < len(script):
        if script[at] in " \t;":
            at += 1
            continue
        at = _blanks(script, _addresses(script, at))
        if at < len(script) and script[at] == "!":
            at = _blanks(script, at + 1)
        at = _blanks(script, _command(script, at))
        if at < len(script) and script[at] != ";":
            raise _NotPlain


def _addresses(script: str, at: int) -> int:
    at, found = _address(script, at)
    at = _blanks(script, at)
    if found and at < len(script) and script[at] == ",":
        at = _blanks(script, at + 1)
        second = _SECOND.match(script, at)
        if second:
            return second.end()
        at, found = _address(script, at)
        if not found:
            raise _NotPlain
    return at


def _address(script: str, at: int) -> tuple[int, bool]:
    number = _ADDRESS.match(script, at)
    if number:
        return number.end(), True
    if script.startswith("/", at) or (script.startswith("\\", at) and at + 1 < len(script)):
        start = at if script[at] == "/" else at + 1
        _check_delimiter(script, start)
        at = _regex(script, start + 1, script[start])
        while at < len(script) and script[at] in "IM":
            at += 1
        return at, True
    return at, False


def _command(script: str, at: int) -> int:
    if at >= len(script):
        raise _NotPlain
    if script[at] in "sy":
        _check_delimiter(script, at + 1)
        end = _closed(script, _regex(script, at + 2, script[at + 1]), script[at + 1])
        flags = _FLAGS.match(script, end) if script[at] == "s" else None
        return flags.end() if flags else end
    simple = _SIMPLE.match(script, at)
    if simple is None:
        raise _NotPlain
    return simple.end()


def _check_delimiter(script: str, at: int) -> None:
    if at >= len(script) or script[at] not in _DELIMITERS:
        raise _NotPlain


def _regex(script: str, at: int, delimiter: str) -> int:
    """Like `_closed`. A delimiter in brackets ends an expression for some seds alone, so it is refused."""
    while at < len(script) and script[at] != delimiter:
        if script[at] == "[":
            bracket = _BRACKET.match(script, at)
            if bracket is None or delimiter in bracket[0] or "\\" in bracket[0]:
                raise _NotPlain
            at = bracket.end()
        else:
            at += 2 if script[at] == "\\" else 1
    if at >= len(script):
        raise _NotPlain
    return at + 1


def _closed(script: str, at: int, delimiter: str) -> int:
    """Behind the next ``delimiter`` that no backslash takes away."""
    while at < len(script) and script[at] != delimiter:
        at += 2 if script[at] == "\\" else 1
    if at >= len(script):
        raise _NotPlain
    return at + 1


def _blanks(script: str, at: int) -> int:
    while at < len(script) and script[at] in " \t":
        at += 1
    return at
