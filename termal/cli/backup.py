"""``termal backup``: both databases as they are at one instant, whether or not the daemon runs."""

import contextlib
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from termal import __version__
from termal.cli.console import Home, Json, command_app, fail, say, say_json
from termal.cli.figures import as_size
from termal.home import HomeRefused, find_home, own_directory
from termal.store.backup import back_up_together
from termal.store.connection import StoreError, StoreRefused, open_reader
from termal.store.manifest import BackedUp, Manifest, digest, write_manifest
from termal.store.migration import read_version

KEYS = {"termal.sqlite": "schema_version", "coordination.sqlite": "coordination_schema_version"}
"""The databases of a home, in the order in which they are copied, and where each keeps its version."""

app = command_app()


@app.command()
def backup(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A new or empty folder (else one in the data directory).")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Copy both databases, as they are at one instant, into a folder that `termal restore` takes."""
    place = find_home(home)
    target = folder if folder is not None else place.backups / time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    names = [name for name in KEYS if (place.root / name).exists()]
    if "termal.sqlite" not in names:
        fail(f"{place.root} has no databases yet: there is nothing to back up")
    try:
        manifest = _back_up(place.root, target, names)
    except (StoreRefused, StoreError, HomeRefused, OSError) as error:
        fail(f"nothing was backed up: {error}")
    if as_json:
        say_json({"folder": str(target), **_shown(manifest)})
        return
    for entry in manifest.files:
        say(f"{target / entry.name}  {as_size(entry.bytes)}")
    say(f"put it back with: termal restore {target}")


def _back_up(root: Path, target: Path, names: list[str]) -> Manifest:
    # Looked at before anything is done to it: it may be a folder of somebody else.
    there = os.path.lexists(target)
    if there and (target.is_symlink() or not target.is_dir() or any(target.iterdir())):
        raise StoreRefused(f"{target} is no empty folder: give another place for the backup")
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreRefused(f"{target} cannot be made ({error.strerror}): give another place for the backup") from error
    own_directory(target)
    try:
        same_instant = back_up_together({root / name: target / name for name in names})
        files = [_entry(target / name) for name in names]
        created_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        manifest = Manifest(created_at, __version__, files, same_instant)
        write_manifest(target, manifest)
    except BaseException:
        # A folder without its list is no backup, and the next attempt wants an empty one.
        for name in names:
            (target / name).unlink(missing_ok=True)
        if not there:
            with contextlib.suppress(OSError):
                target.rmdir()
        raise
    return manifest


def _entry(file: Path) -> BackedUp:
    with contextlib.closing(open_reader(file)) as reader:
        version = read_version(reader, KEYS[file.name])
    return BackedUp(file.name, file.stat().st_size, digest(file), version)


def _shown(manifest: Manifest) -> dict[str, object]:
    return {
        "createdAt": manifest.created_at,
        "sameInstant": manifest.same_instant,
        "files": manifest.files,
    }
