"""Which shell commands are proven to read only. Decides from the text alone and fails closed."""

import posixpath
import re
from collections.abc import Callable

from termal.rules.delegation_sed import sed_reads_only
from termal.rules.delegation_shell import NotPlain, commands_of

COMMAND_CHARS = 16384
"""A longer one is not looked at."""
_HARMLESS = frozenset(
    [
        "cat",
        "cksum",
        "echo",
        "grep",
        "head",
        "ls",
        "md5sum",
        "nl",
        "pwd",
        "sha1sum",
        "sha256sum",
        "sha512sum",
        "tail",
        "true",
        "wc",
    ]
)
_DATE = frozenset({"-u", "--utc", "--universal"})
_FIND = ("-exec", "-ok", "-delete", "-fprint", "-fls")
_RG = ("--pre", "--hostname-bin", "--search-zip")
_GIT_GLOBAL = frozenset({"--no-pager", "-P", "--no-optional-locks"})
_GIT = frozenset(
    [
        "diff",
        "log",
        "show",
        "blame",
        "describe",
        "ls-files",
        "rev-parse",
        "shortlog",
        "status",
        "patch-id",
        "grep",
        "branch",
        "remote",
    ]
)
_GIT_REFUSED = (
    "--output",
    "--ext-diff",
    "--textconv",
    "--help",
    "--open-files-in-pager",
    "--paginate",
    "--show-signature",
)
"""They write files, run other programs, open a pager or show help; so does every abbreviation of them."""
_BRANCH_FLAGS = frozenset(
    [
        "-a",
        "-r",
        "-v",
        "-vv",
        "-i",
        "--all",
        "--remotes",
        "--list",
        "--verbose",
        "--show-current",
        "--no-color",
        "--color",
        "--ignore-case",
        "--abbrev",
        "--no-abbrev",
        "--column",
        "--no-column",
        "--merged",
        "--no-merged",
        "--contains",
        "--no-contains",
    ]
)
_BRANCH_VALUES = ("--sort=", "--format=", "--color=", "--abbrev=", "--column=", "--points-at=")
_BRANCH_POINTS = ("--merged=", "--no-merged=", "--contains=", "--no-contains=")
_BRANCH_LISTS = frozenset({"--list", "--contains", "--no-contains", "--merged", "--no-merged"})
_GIT_WORD = re.compile(r"(?<![a-z0-9_])git(?![a-z0-9_])", re.I)
_QUOTES = str.maketrans("", "", "'\"\\")


def reads_only(command: str, cwd: str) -> bool:
    """Whether ``command``, run by bash in ``cwd``, cannot write. False for everything that is not proven."""
    if len(command) > COMMAND_CHARS:
        return False
    try:
        commands = commands_of(command.strip(" \t"))
    except NotPlain:
        return False
    with_git = any(words[0] == "git" for words in commands)
    return bool(commands) and all(_reads_only(words, cwd, with_git) for words in commands)


def names_git(command: str) -> bool:
    """Whether the word git is anywhere in ``command``, however it is quoted."""
    return _GIT_WORD.search(command) is not None or _GIT_WORD.search(command.translate(_QUOTES)) is not None


def _reads_only(words: list[str], cwd: str, with_git: bool) -> bool:
    head, arguments = words[0], words[1:]
    if head in _HARMLESS:
        return True
    if head == "cd":
        return _cd(arguments, cwd, with_git)
    check = _CHECKS.get(head)
    return check is not None and check(arguments)


def _cd(arguments: list[str], cwd: str, with_git: bool) -> bool:
    """Another folder may hold a repository whose settings run programs."""
    if len(arguments) != 1 or not arguments[0] or arguments[0].startswith("-"):
        return False
    return not with_git or posixpath.normpath(posixpath.join(cwd, arguments[0])) == posixpath.normpath(cwd)


def _date(arguments: list[str]) -> bool:
    return all(argument.startswith("+") or argument in _DATE for argument in arguments)


def _rg(arguments: list[str]) -> bool:
    for argument in arguments:
        if argument.startswith("--"):
            if argument.startswith(_RG) or any(name.startswith(argument) for name in _RG if len(argument) > 2):
                return False
        elif argument.startswith("-") and "z" in argument:
            return False
    return True


def _find(arguments: list[str]) -> bool:
    return not any(argument.startswith(_FIND) for argument in arguments)


def _git(arguments: list[str]) -> bool:
    rest = list(arguments)
    while rest and rest[0] in _GIT_GLOBAL:
        rest.pop(0)
    if not rest or rest[0] not in _GIT:
        return False
    name, options = rest[0], rest[1:]
    if any(_is_refused(option) for option in options):
        return False
    if name == "remote":
        return options in ([], ["-v"], ["--verbose"])
    if name == "branch":
        return _branch(options)
    if name == "grep":
        return not any(re.match(r"-[^-]*O", option) for option in options)
    return True


def _is_refused(option: str) -> bool:
    name = option.partition("=")[0]
    if "%G" in option or "signature" in option:
        # Whoever shows signatures has a program check them.
        return True
    return name == "-h" or (len(name) > 2 and any(refused.startswith(name) for refused in _GIT_REFUSED))


def _branch(options: list[str]) -> bool:
    """Lists only: a bare name would make a branch, unless it is a pattern or a point to compare with."""
    lists = not _BRANCH_LISTS.isdisjoint(options)
    for option in options:
        if option.startswith("-"):
            if option not in _BRANCH_FLAGS and not option.startswith(_BRANCH_VALUES + _BRANCH_POINTS):
                return False
        elif not lists:
            return False
    return True


_CHECKS: dict[str, Callable[[list[str]], bool]] = {
    "date": _date,
    "rg": _rg,
    "find": _find,
    "sed": sed_reads_only,
    "git": _git,
}
