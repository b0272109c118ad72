"""Takes a shell command apart as bash would, as far as it is plain. What it does not know for sure, it refuses."""

import re
from typing import NamedTuple

LOOP_VALUES = 64
LOOP_COMMANDS = 16
_OPERATORS = ("&&", "||", "|", ";")
_SPECIAL = frozenset("<>(){}*?[]`&#!\n\r\0")
"""Redirections, groups, globs, substitutions, background work, comments: none of them is plain."""
_SILENT = re.compile(r"2>/dev/null(?=[\s|&;]|$)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
"""Of the variable of a loop. In capitals it could be one that programs obey, like PATH."""
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_VALUE = re.compile(r"[A-Za-z0-9_./:@%+=,-]+")

Command = list[str]


class NotPlain(Exception):
    """Something in the command goes beyond what is read here."""


class _Operator(NamedTuple):
    text: str


class _Variable(NamedTuple):
    name: str


class _Word(NamedTuple):
    """``bare``: nothing of it was quoted, so that it may be a word of the language."""

    pieces: tuple[str | _Variable, ...]
    bare: bool

    def value(self, name: str = "", value: str = "") -> str:
        for piece in self.pieces:
            if isinstance(piece, _Variable) and piece.name != name:
                raise NotPlain("an expansion")
        return "".join(value if isinstance(piece, _Variable) else piece for piece in self.pieces)

    def says(self, word: str) -> bool:
        return self.bare and self.pieces == (word,)


_Token = _Word | _Operator


def commands_of(text: str) -> list[Command]:
    """Every simple command that ``text`` would run, loops expanded. Raises `NotPlain`."""
    tokens = _tokens(text)
    if tokens and isinstance(tokens[0], _Word) and tokens[0].says("for"):
        return _loop(tokens)
    if any(token == _Operator(";") for token in tokens):
        raise NotPlain("a sequence")
    return [[word.value() for word in words] for words in _simple(tokens)]


def _loop(tokens: list[_Token]) -> list[Command]:
    """``for x in a b; do ...; done`` and nothing else, once for each value."""
    ends = [at for at, token in enumerate(tokens) if token == _Operator(";")]
    if len(ends) < 2 or ends[-1] != len(tokens) - 2 or not _says(tokens[-1], "done"):
        raise NotPlain("a loop")
    head, body = tokens[1 : ends[0]], tokens[ends[0] + 1 : ends[-1]]
    if len(head) < 3 or not _says(head[1], "in") or not body or not _says(body[0], "do"):
        raise NotPlain("a loop")
    words = [token for token in head if isinstance(token, _Word)]
    name, values = words[0].value(), [word.value() for word in words[2:]]
    commands = _simple(body[1:])
    if len(words) != len(head) or not words[0].bare or not _NAME.fullmatch(name):
        raise NotPlain("a loop")
    if len(values) > LOOP_VALUES or len(commands) > LOOP_COMMANDS or not all(map(_VALUE.fullmatch, values)):
        raise NotPlain("a loop")
    return [[word.value(name, value) for word in command] for value in values for command in commands]


def _says(token: _Token, word: str) -> bool:
    return isinstance(token, _Word) and token.says(word)


def _simple(tokens: list[_Token]) -> list[list[_Word]]:
    """The words between operators; an empty command is none."""
    commands: list[list[_Word]] = [[]]
    for token in tokens:
        if isinstance(token, _Operator):
            commands.append([])
        else:
            commands[-1].append(token)
    if not all(commands):
        raise NotPlain("an empty command")
    return commands


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
            continue
        silent = _SILENT.match(text, at)
        operator = next((one for one in _OPERATORS if text.startswith(one, at)), None)
        if silent:
            at = silent.end()
        elif operator:
            tokens.append(_Operator(operator))
            at += len(operator)
        else:
            word, at = _word(text, at)
            tokens.append(word)
    return tokens


def _word(text: str, at: int) -> tuple[_Word, int]:
    """One word from ``at``, and where it ends."""
    pieces: list[str | _Variable] = []
    bare = True
    while at < len(text) and text[at] not in " \t;|":
        char = text[at]
        if char == "'":
            end = text.find("'", at + 1)
            _check(end >= 0 and "\n" not in text[at:end] and "\0" not in text[at:end])
            pieces.append(text[at + 1 : end])
            bare, at = False, end + 1
        elif char == '"':
            at = _quoted(text, at + 1, pieces)
            bare = False
        elif char == "\\":
            _check(at + 1 < len(text) and text[at + 1] not in "\n\r\0")
            pieces.append(text[at + 1])
            bare, at = False, at + 2
        elif char == "$":
            at = _expansion(text, at, pieces)
        elif text.startswith("&&", at):
            break
        else:
            # A `!` or a `#` inside a word means nothing to bash, but no plain command needs it there.
            _check(char not in _SPECIAL and not (char.isspace() or char < " " or char == "\x7f"))
            pieces.append(char)
            at += 1
    return _Word(_joined(pieces), bare), at


def _quoted(text: str, at: int, pieces: list[str | _Variable]) -> int:
    """The rest of a double-quoted part; where it ends."""
    pieces.append("")
    while at < len(text) and text[at] != '"':
        char = text[at]
        _check(char not in "`\n\r\0")
        if char == "$":
            at = _expansion(text, at, pieces)
        elif char == "\\" and text[at + 1 : at + 2] in ('"', "\\", "$", "`"):
            pieces.append(text[at + 1])
            at += 2
        else:
            pieces.append(char)
            at += 1
    _check(at < len(text))
    return at + 1


def _expansion(text: str, at: int, pieces: list[str | _Variable]) -> int:
    found = _VARIABLE.match(text, at)
    if found is None:
        raise NotPlain("an expansion")
    pieces.append(_Variable(found[1] or found[2]))
    return found.end()


def _joined(pieces: list[str | _Variable]) -> tuple[str | _Variable, ...]:
    joined: list[str | _Variable] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    return tuple(joined)


def _check(plain: bool) -> None:
    if not plain:
        raise NotPlain("more than plain words")
