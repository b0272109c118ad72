"""Rows that a start of the daemon sets aside: asked of the code that decides it, in a process of its own, read-only."""

import contextlib
import os
import subprocess
from pathlib import Path

import msgspec

from termal.cli.inspection import inspect
from termal.home import Home

_MODULE = "workers.state.inspection"
_EXIT_OLDER = 3
_MODE = 0o600


class InspectionFailed(Exception):
    """The file cannot be inspected, or has no such row. The text is for the operator."""


class NotUpgraded(InspectionFailed):
    """The file is of an older build: which rows are set aside is decided by the next start."""


class Aside(msgspec.Struct, frozen=True, rename="camel"):
    """A row that cannot be used and is kept as it is. ``messages``: rows of its transcript; ``size_bytes``: its own."""

    table: str
    id: str
    reason: str
    messages: int
    size_bytes: int


_decode = msgspec.json.Decoder(Aside).decode


def rows_aside(home: Home) -> list[Aside]:
    """What a start on this directory sets aside; empty without a database. Raises `InspectionFailed`."""
    if not home.termal_db.exists():
        return []
    return [_decode(line) for line in _ask(str(home.termal_db)).splitlines()]


def export_row(home: Home, row_id: str, target: Path) -> int:
    """Write every stored byte of one such row to the new file ``target`` (0600), a JSON object a line; its size.

    Raises `InspectionFailed`; ``target`` is then not there, or was there before.
    """
    if not home.termal_db.exists():
        raise InspectionFailed(f"{home.termal_db} is not there")
    try:
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    except OSError as error:
        raise InspectionFailed(f"{target} cannot be made ({error.strerror})") from error
    try:
        _ask(str(home.termal_db), row_id, output=file)
        return os.fstat(file).st_size
    except BaseException:
        with contextlib.suppress(OSError):
            target.unlink()
        raise
    finally:
        os.close(file)


def _ask(*arguments: str, output: int = subprocess.PIPE) -> bytes:
    found = inspect(_MODULE, *arguments, output=output)
    if found.code:
        kind = NotUpgraded if found.code == _EXIT_OLDER else InspectionFailed
        raise kind(found.words)
    return found.output
