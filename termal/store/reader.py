"""Reads of a database file on own threads, each job in one snapshot: a read never queues behind a write."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import apsw

from termal.log import Log
from termal.store.connection import Cursorlike, open_reader, roll_back
from termal.store.files import StoreRefused
from termal.store.handover import Handover, Notify
from termal.store.job import until
from termal.wire.errors import Busy

__all__ = ["Cursorlike", "Reader"]

T = TypeVar("T")

_MAY_PASS = (apsw.BusyError, apsw.LockedError, apsw.IOError, apsw.CantOpenError, apsw.NoMemError)


class _Read(NamedTuple):
    run: Callable[[Cursorlike], Any]
    done: Callable[[Any, Exception | None], None]
    deadline_s: float | None


class Reader:
    """``threads`` read-only connections on one file. Results come back in the order in which the reads end.

    Raises `StoreRefused` or `StoreError` when the file cannot be opened.
    """

    def __init__(self, path: Path, *, threads: int = 1, notify: Notify, log: Log) -> None:
        self._path = path
        self._log = log
        self._handover = Handover(notify, log)
        self._queue: SimpleQueue[_Read | None] = SimpleQueue()
        self._closed = False
        self._threads: list[threading.Thread] = []
        for number, connection in enumerate([open_reader(path) for _ in range(threads)], 1):
            name = f"{path.stem}-reader-{number}"
            thread = threading.Thread(target=self._run, args=(connection,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def depth(self) -> int:
        """Reads that no thread has begun."""
        return self._queue.qsize()

    def submit(
        self,
        job: Callable[[Cursorlike], T],
        done: Callable[[T | None, Exception | None], None],
        *,
        deadline_s: float | None = None,
    ) -> None:
        """Run ``job`` in one deferred transaction; ``done(value, error)`` runs once, by `finish`.

        ``deadline_s`` (CLOCK_MONOTONIC): a job that has not begun by then ends as `Busy`. The value must not hold a
        cursor: the transaction ends with the job.
        """
        if self._closed:
            stopping = Busy("the daemon is stopping; nothing was read", code="no_mutation_attempted")
            self._handover.put([(done, (None, stopping))])
            return
        self._queue.put(_Read(job, done, deadline_s))

    def finish(self) -> None:
        """Run the callbacks of the ended reads, on the loop's thread."""
        self._handover.finish()

    def close(self, deadline_s: float) -> bool:
        """End the threads after what is queued; False when one is still reading at ``deadline_s``. Calls `finish`."""
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._queue.put(None)
        for thread in self._threads:
            thread.join(until(deadline_s))
        self.finish()
        return not any(thread.is_alive() for thread in self._threads)

    # ------------------------------------------------------------ a reader's thread

    def _run(self, connection: apsw.Connection | None) -> None:
        while (read := self._queue.get()) is not None:
            connection, value, error = self._read(connection, read)
            self._handover.put([(read.done, (value, error))])
        if connection is not None:
            connection.close()

    def _read(
        self, connection: apsw.Connection | None, read: _Read
    ) -> tuple[apsw.Connection | None, Any, Exception | None]:
        if read.deadline_s is not None and time.monotonic() > read.deadline_s:
            late = Busy("the deadline passed before the read started", code="no_mutation_attempted")
            return connection, None, late
        try:
            connection = connection or open_reader(self._path)
        except (apsw.Error, StoreRefused) as error:
            return None, None, self._trouble(error)
        try:
            connection.execute("BEGIN")
            value = read.run(connection)
            connection.execute("COMMIT")
        except apsw.Error as error:
            # A connection that met an error of the file may keep it: the next read gets a fresh one.
            connection.close(True)
            return None, None, self._trouble(error)
        except Exception as error:  # noqa: BLE001 - the border of the thread: what a job raises is its owner's
            roll_back(connection)
            return connection, None, error
        return connection, value, None

    def _trouble(self, error: Exception) -> Exception:
        self._log.repeating("store.read_failed", database=self._path.name, error=repr(error))
        if not isinstance(error, _MAY_PASS):
            return error
        busy = Busy("the database cannot be read at the moment", code="no_mutation_attempted")
        busy.__cause__ = error
        return busy
