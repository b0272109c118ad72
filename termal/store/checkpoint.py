"""Checkpoints beside the writer: what the WAL holds is copied into the file while the writer goes on.

SQLite's own way has the commit that fills the WAL wait for all of it, two syncs and a thousand pages: 5 to 10 ms. Here
a thread with a connection of its own copies them; what was written meanwhile is a handful of pages, which the writer
copies itself, so that the WAL begins anew and does not grow.
"""

import threading
from pathlib import Path

import apsw

from termal.log import Log
from termal.store.connection import CHECKPOINT_PAGES, open_checkpointer

FULL_PAGES = CHECKPOINT_PAGES
"""A WAL of this size is copied."""
MOST_PAGES = 8 * FULL_PAGES
"""One of this size is copied by the writer, wherever the thread may be."""


class Checkpointer:
    """One for each file that is written. `watch` is called for each connection that writes, by its thread or before it
    has one.

    Its connection is opened with the first of them and kept: it is of the same file, whatever is put in its place.
    """

    def __init__(self, path: Path, log: Log) -> None:
        self._path = path
        self._log = log
        self._due = threading.Event()
        self._closing = False
        self._copying = False
        self._left = False
        self._connection: apsw.Connection | None = None
        self._thread: threading.Thread | None = None

    def watch(self, connection: apsw.Connection) -> None:
        """From now on the commits of ``connection`` are followed by a checkpoint when the WAL is full."""
        if self._connection is None:
            self._connection = open_checkpointer(self._path)
            self._thread = threading.Thread(
                target=self._run, args=(self._connection,), name=f"{self._path.stem}-checkpoints", daemon=True
            )
            self._thread.start()
        connection.set_wal_hook(self._committed)

    def close(self) -> None:
        """End the thread after the copying that is under way."""
        self._closing = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()
        if self._connection is not None:
            self._connection.close()
        self._connection = self._thread = None

    def _committed(self, connection: apsw.Connection, _database: str, pages: int) -> int:
        if pages < FULL_PAGES:
            return apsw.SQLITE_OK
        if pages >= MOST_PAGES or (self._left and not self._copying):
            self._left = False
            self._copy(connection)
        elif not self._copying:
            self._copying = True
            self._due.set()
        return apsw.SQLITE_OK

    def _run(self, connection: apsw.Connection) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._closing:
                return
            # In this order: what is left for the writer is what came while this went on.
            self._left = not self._copy(connection)
            self._copying = False

    def _copy(self, connection: apsw.Connection) -> bool:
        """Whether all of the WAL is in the file now. Nobody is waited for."""
        try:
            frames, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            return False
        except apsw.Error as error:
            # Nothing is lost: the WAL is read with the file, and the next commit asks for a checkpoint again.
            self._log.repeating("store.checkpoint_failed", database=self._path.name, error=repr(error))
            return False
        return frames == copied
