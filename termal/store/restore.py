"""Putting the files of a backup in the place of those that are there. The caller holds the data directory's lock.

What was there before is kept beside the other backups. An end in the middle leaves a mark that keeps a daemon from
starting on files that do not belong together; doing it again goes on from there.
"""

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from termal.faults import fault
from termal.store.connection import StoreError, open_writer
from termal.store.files import SIDECARS, StoreRefused, files_of, secure, sync
from termal.store.manifest import Manifest

_SUFFIX = ".restoring"


def put_back_files(
    backup: Path, manifest: Manifest, root: Path, names: Sequence[str], *, aside: Path, mark: Path
) -> Path:
    """Replace the databases ``names`` of ``root`` by those of ``backup``, which were verified; where the old ones are.

    One that the backup does not have is taken away. ``aside``: a new folder for what was there; ``mark``: a file that
    exists from the first change to the last. Raises `StoreRefused` or OSError; up to the mark nothing has changed.
    """
    wanted = [entry.name for entry in manifest.files if entry.name in names]
    for name in names:
        secure(root / name)
    for name in wanted:
        _prepare(backup / name, root / (name + _SUFFIX))
    sync(root)
    if mark.exists():
        # What is there now is a mixture; the first attempt has kept what was there before it.
        aside = Path(mark.read_text("utf-8"))
    else:
        aside.mkdir(mode=0o700)
        for name in names:
            _settle(root / name)
            _keep(root / name, aside)
        sync(aside)
        _write(mark, str(aside))
    for name in names:
        fault("restore.file")
        for suffix in SIDECARS:
            # Of the old file; the new one must never be read together with it.
            (root / (name + suffix)).unlink(missing_ok=True)
        if name in wanted:
            (root / (name + _SUFFIX)).replace(root / name)
        else:
            (root / name).unlink(missing_ok=True)
    sync(root)
    mark.unlink()
    sync(mark.parent)
    return aside


def _write(mark: Path, text: str) -> None:
    partial = mark.with_name(mark.name + ".partial")
    partial.write_text(text, "utf-8")
    partial.chmod(0o600)
    partial.replace(mark)
    sync(mark.parent)


def _prepare(source: Path, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as target, source.open("rb") as content:
        shutil.copyfileobj(content, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())


def _settle(path: Path) -> None:
    """Move what its WAL holds into the file, where that is possible: a damaged one is kept as it lies."""
    if path.exists():
        with contextlib.suppress(StoreError, StoreRefused):
            # Closing the last connection does it.
            open_writer(path, durability="normal").close()


def _keep(path: Path, aside: Path) -> None:
    """A second name for each file: nothing of it is gone before the new one stands in its place."""
    for file in files_of(path):
        if file.exists():
            try:
                (aside / file.name).hardlink_to(file)
            except OSError:
                # A file system without links, or the folder of backups is on another one.
                shutil.copy2(file, aside / file.name)
