"""Consistent copies of database files, made while others write to them. Changes nothing in the sources."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import apsw

from termal.store.connection import open_copy, open_reader
from termal.store.files import SIDECARS, StoreRefused, sync

PAGES_PER_STEP = 512
"""2 MiB at a time: often enough to be told to stop, rarely enough to cost nothing."""
_INSTANTS = 50
"""Attempts to see several files at one instant while the first of them is written; each takes some 0.1 ms."""

OnStep = Callable[[int, int], None]


def back_up(source: Path, target: Path, *, on_step: OnStep | None = None) -> int:
    """Copy the last committed state of ``source`` to the new file ``target`` (0600), and return its size in bytes.

    The copy is of one instant: a read transaction is held from the first page to the last, so writers go on and only
    the WAL grows meanwhile. ``target`` gets its name when it is complete and on the disk. ``on_step(left, total)``
    in pages may raise to give up. Raises `StoreRefused` (``target`` is there, ``source`` is missing or damaged),
    `StoreError` (disk full).
    """
    back_up_together({source: target}, on_step=on_step)
    return target.stat().st_size


def back_up_together(targets: Mapping[Path, Path], *, on_step: OnStep | None = None) -> bool:
    """Copy several files, each as `back_up` does, as they were at one instant. Copies are checked to be whole.

    The last file is seen last: when the first is written without a pause, the others may be newer than it by less than
    a millisecond, and False is returned.
    """
    for target in targets.values():
        if target.exists() or target.is_symlink():
            raise StoreRefused(f"{target} is there already: give another place for the backup")
    with contextlib.ExitStack() as readers:
        open_readers = [readers.enter_context(contextlib.closing(open_reader(source))) for source in targets]
        same_instant = _see_together(open_readers, next(iter(targets)))
        for reader, target in zip(open_readers, targets.values(), strict=True):
            with _partial(target) as partial:
                _copy(reader, partial, on_step)
                _check(partial)
                sync(partial)
                partial.replace(target)
            sync(target.parent)
    return same_instant


def _see_together(readers: list[apsw.Connection], first: Path) -> bool:
    """Open the snapshot of each reader; whether the first file was not written from its own to the last one."""
    with contextlib.closing(open_reader(first)) as witness:
        for attempt in range(_INSTANTS):
            if attempt:
                for reader in readers:
                    reader.execute("ROLLBACK")
            before = witness.pragma("data_version")
            for reader in readers:
                reader.execute("BEGIN")
                # The snapshot is taken by the first read, not by BEGIN.
                reader.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            if len(readers) == 1 or witness.pragma("data_version") == before:
                return True
    return False


def _copy(reader: apsw.Connection, partial: Path, on_step: OnStep | None) -> None:
    with contextlib.closing(open_copy(partial)) as writer:
        with writer.backup("main", reader, "main") as copy:
            while not copy.done:
                copy.step(PAGES_PER_STEP)
                if on_step is not None:
                    on_step(copy.remaining, copy.page_count)
        # A copy is one file: what it is opened with later decides whether it gets a WAL again.
        writer.pragma("journal_mode", "DELETE")
    reader.execute("COMMIT")


def _check(copy: Path) -> None:
    """Raises `StoreRefused`: a copy of damage would be found out when it is needed."""
    with contextlib.closing(open_reader(copy)) as reader:
        found = reader.execute("PRAGMA quick_check(1)").fetchall()
    if found != [("ok",)]:
        raise StoreRefused(f"what was copied to {copy.name} is damaged ({found[0][0]}): see `termal doctor`")


@contextlib.contextmanager
def _partial(target: Path) -> Iterator[Path]:
    partial = target.with_name(target.name + ".partial")
    _remove(partial)
    try:
        yield partial
    finally:
        _remove(partial)


def _remove(partial: Path) -> None:
    for suffix in ("", "-journal", *SIDECARS):
        partial.with_name(partial.name + suffix).unlink(missing_ok=True)
