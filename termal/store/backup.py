"""A consistent copy of one database file, made while others write to it. Changes nothing in the source."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from termal.store.connection import open_copy, open_reader
from termal.store.files import SIDECARS, StoreRefused

PAGES_PER_STEP = 512
"""2 MiB at a time: often enough to be told to stop, rarely enough to cost nothing."""


def back_up(source: Path, target: Path, *, on_step: Callable[[int, int], None] | None = None) -> int:
    """Copy the last committed state of ``source`` to the new file ``target`` (0600), and return its size in bytes.

    The copy is of one instant: a read transaction is held from the first page to the last, so writers go on and only
    the WAL grows meanwhile. ``target`` gets its name when it is complete and on the disk. ``on_step(left, total)``
    in pages may raise to give up. Raises `StoreRefused` (``target`` is there, ``source`` is missing or damaged),
    `StoreError` (disk full).
    """
    if target.exists() or target.is_symlink():
        raise StoreRefused(f"{target} is there already: give another place for the backup")
    partial = target.with_name(target.name + ".partial")
    _remove(partial)
    try:
        _copy(source, partial, on_step)
        _sync(partial)
        partial.replace(target)
        _sync(target.parent)
    finally:
        _remove(partial)
    return target.stat().st_size


def _copy(source: Path, partial: Path, on_step: Callable[[int, int], None] | None) -> None:
    with contextlib.closing(open_reader(source)) as reader, contextlib.closing(open_copy(partial)) as writer:
        reader.execute("BEGIN")
        # The snapshot is taken by the first read, not by BEGIN.
        reader.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        with writer.backup("main", reader, "main") as copy:
            while not copy.done:
                copy.step(PAGES_PER_STEP)
                if on_step is not None:
                    on_step(copy.remaining, copy.page_count)
        reader.execute("COMMIT")


def _sync(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(partial: Path) -> None:
    for suffix in ("", "-journal", *SIDECARS):
        partial.with_name(partial.name + suffix).unlink(missing_ok=True)
