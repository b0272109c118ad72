"""Exports as files: written whole or not at all, read in pieces."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from termal.cli.console import fail
from termal.model.search import ExportFooter

PIECE_BYTES = 64 << 10
_FOOTER_BYTES = 4 << 10
"""More than the last line can have."""


def copy_lines(chunks: Iterable[bytes], target: IO[bytes]) -> None:
    """Write ``chunks``; fails the command when they break off before the last line of an export."""
    end = b""
    for chunk in chunks:
        target.write(chunk)
        end = (end + chunk)[-_FOOTER_BYTES:]
    target.flush()
    last = end.removesuffix(b"\n").rpartition(b"\n")[2]
    try:
        msgspec.json.decode(last, type=ExportFooter)
    except msgspec.MsgspecError:
        fail("the export broke off: the session was changed or removed meanwhile, or the daemon was stopped")


def save_lines(chunks: Iterable[bytes], path: Path) -> None:
    """The file of that name is there when all of it is, with the old one in its place until then."""
    partial = path.with_name(path.name + ".partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as target:
            copy_lines(chunks, target)
            os.fsync(target.fileno())
        partial.replace(path)
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}")
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def pieces_of(source: IO[bytes]) -> Iterator[bytes]:
    while piece := source.read(PIECE_BYTES):
        yield piece
