"""``termal restore``: the databases of a backup in the place of those of a data directory that no daemon uses."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from termal.cli.backup import KEYS
from termal.cli.console import Home, Json, command_app, fail, say, say_json
from termal.home import Home as Directory
from termal.home import find_home, prepare
from termal.procs.lock import DirectoryLock, Locked, Owner
from termal.procs.tree import find_marked, start_time
from termal.store.connection import StoreRefused
from termal.store.manifest import Manifest, read_manifest, verify
from termal.store.restore import put_back_files
from termal.wire.control import EXIT_LOCKED

app = command_app()


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `termal backup` has written.")],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Put the databases of a backup in place. The daemon must be stopped; what was there is kept in `backups/`."""
    place = find_home(home)
    try:
        manifest = read_manifest(folder)
        verify(folder, manifest)
        names = {entry.name for entry in manifest.files}
        if "termal.sqlite" not in names or names - {*KEYS}:
            raise StoreRefused(f"{folder} is no backup of a data directory")
        prepare(place)
        aside = _put_back(place, folder, manifest)
    except Locked as error:
        fail(f"stop the daemon first: {error}", EXIT_LOCKED)
    except (StoreRefused, OSError) as error:
        fail(f"the backup was not put back: {error}")
    if as_json:
        say_json({"home": str(place.root), "kept": str(aside), "createdAt": manifest.created_at})
    else:
        say(f"{place.root} is as it was at {manifest.created_at}; what was there before is in {aside}")


def _put_back(home: Directory, folder: Path, manifest: Manifest) -> Path:
    lock = DirectoryLock(home, Owner(os.getpid(), start_time(os.getpid())))
    try:
        left = [process.pid for process in find_marked(home.mark)]
        if left:
            pids = ", ".join(map(str, left))
            raise StoreRefused(f"processes of a daemon that was killed are still there ({pids}): end them first")
        aside = home.backups / f"before-restore-{time.strftime('%Y-%m-%dT%H-%M-%SZ', time.gmtime())}-{os.getpid()}"
        return put_back_files(folder, manifest, home.root, list(KEYS), aside=aside, mark=home.restoring)
    finally:
        lock.close()
