"""Command files of a working directory: plain files under `.claude/commands`, read without following any link."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

FOLDER = (".claude", "commands")
SUFFIX = ".md"
FILE_BYTES = 1 << 20
FILES = 1000
"""More than this in one folder are not looked at."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Without ``O_NONBLOCK`` the opening of a named pipe would wait for its writer."""


class CommandFile(NamedTuple):
    name: str
    text: str

    @property
    def source(self) -> str:
        return "/".join((*FOLDER, self.name + SUFFIX))


def all_commands(workdir: str) -> list[CommandFile]:
    """By lower-cased name; what is no plain, readable file of at most `FILE_BYTES` is left out."""
    with _folder(workdir) as folder:
        if folder is None:
            return []
        found = ((name, _read(folder, name + SUFFIX)) for name in _names(folder))
        return [CommandFile(name, text) for name, text in found if text is not None]


def one_command(workdir: str, wanted: str) -> CommandFile | None:
    """The file that is called so, else one whose name differs in case alone."""
    with _folder(workdir) as folder:
        if folder is None:
            return None
        same = [name for name in _names(folder) if name.lower() == wanted.lower()]
        for name in sorted(same, key=lambda name: name != wanted):
            text = _read(folder, name + SUFFIX)
            if text is not None:
                return CommandFile(name, text)
    return None


@contextmanager
def _folder(workdir: str) -> Iterator[int | None]:
    """A descriptor of the folder, None when it is not there or a link leads to it."""
    opened: list[int] = []
    try:
        with suppress(OSError, ValueError):
            opened.append(os.open(workdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for part in FOLDER:
                opened.append(os.open(part, _FOLDER_FLAGS, dir_fd=opened[-1]))
        yield opened[-1] if len(opened) == 1 + len(FOLDER) else None
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _names(folder: int) -> list[str]:
    names = []
    with suppress(OSError):
        for name in os.listdir(folder):
            stem = name.removesuffix(SUFFIX)
            # A name that is no text cannot be shown and cannot be asked for.
            if stem != name and stem.strip() and stem.isprintable():
                names.append(stem)
    return sorted(names, key=lambda name: (name.lower(), name))[:FILES]


def _read(folder: int, name: str) -> str | None:
    try:
        descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES:
            return None
        data = b""
        while len(data) <= FILE_BYTES and (piece := os.read(descriptor, FILE_BYTES + 1 - len(data))):
            data += piece
        return data.decode("utf-8", "replace") if len(data) <= FILE_BYTES else None
    except OSError:
        return None
    finally:
        os.close(descriptor)
