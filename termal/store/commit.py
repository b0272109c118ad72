"""The transaction of one group of jobs on the writing connection. Decides nothing about queues, retries or answers."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from termal.faults import fault
from termal.store.checkpoint import Checkpointer
from termal.store.connection import BUSY_MS, Durability, open_writer, roll_back, set_durability
from termal.store.files import StoreRefused, secure
from termal.store.job import Job, until
from termal.store.presence import FilesTaken, Presence, put_back

Outcome = tuple[Any, Exception | None]

_WHOLE_GROUP = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.IOError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.NoMemError,
    apsw.ProtocolError,
)
"""Faults of the file or the machine, not of the job that met them."""
_SAME_CONNECTION = (apsw.BusyError, apsw.LockedError, apsw.FullError)
_SECURE_S = 1.0


class GroupFailed(Exception):
    """Nothing of the group is committed. ``maybe_durable``: a file system error at COMMIT, which a recovery of the
    file may still turn into a commit if this process ends before the next one."""

    def __init__(self, cause: Exception, *, maybe_durable: bool) -> None:
        super().__init__(repr(cause))
        self.cause = cause
        self.maybe_durable = maybe_durable


class Committer:
    """The writing connection, used by one thread. ``on_failed`` runs after every rollback, before the next job.

    Fault points: ``STEM.in_group`` before COMMIT, ``STEM.after_commit`` behind it.
    """

    def __init__(
        self, path: Path, durability: Durability, on_failed: Callable[[], None], checkpointer: Checkpointer
    ) -> None:
        self.durability: Durability = durability
        self.commit_ms = 0.0
        self.insecure: str | None = None
        """Why the files are open to others and could not be closed to them."""
        self._path = path
        self._on_failed = on_failed
        self._checkpointer = checkpointer
        self._in_group = f"{path.stem}.in_group"
        self._after_commit = f"{path.stem}.after_commit"
        self._applied = durability
        self._secured_at = 0.0
        self._connection: apsw.Connection | None = open_writer(path, durability=durability)
        self._presence = Presence(path)
        # No reader is there yet and none is waited for: what the last life left in the WAL goes into the file.
        self._truncate(0.0)
        checkpointer.watch(self._connection)

    def commit(self, group: list[Job], *, patience_until: float) -> list[Outcome]:
        """The outcome of each job, after COMMIT. A lock is waited for as long as the first owner waits, at most.

        Raises `GroupFailed` after a rollback; a job that fails by itself fails alone. Raises `FilesTaken`, after which
        this process must not go on, when the files are not there any more.
        """
        committing = False
        try:
            connection = self._ready(group, patience_until)
            connection.execute("BEGIN IMMEDIATE")
            outcomes = [self._one(connection, job) for job in group]
            fault(self._in_group)
            committing = True
            began = time.monotonic()
            connection.execute("COMMIT")
        except Exception as error:
            # Not only SQLite's own errors: whatever it is, the thread must go on with a clean connection.
            self._roll_back(error)
            raise GroupFailed(error, maybe_durable=committing and not isinstance(error, _SAME_CONNECTION)) from error
        self.commit_ms = (time.monotonic() - began) * 1e3
        fault(self._after_commit)
        if self._presence.lost():
            self._rescue(connection)
        self._secure()
        return outcomes

    def _rescue(self, connection: apsw.Connection) -> None:
        """Raises `FilesTaken` once everything, this commit included, has a name again; else `GroupFailed`."""
        replaced = self._presence.replaced
        try:
            saved = put_back(connection, self._path, replaced=replaced)
        except (apsw.Error, OSError) as error:
            self._on_failed()
            raise GroupFailed(error, maybe_durable=True) from error
        what = "replaced" if replaced else "removed"
        raise FilesTaken(f"{self._path.name} was {what} while it was open; its content is in {saved.name}")

    def close(self, deadline_s: float) -> Exception | None:
        """Move the WAL into the file and close; the reason when a reader or a lock kept a part of it there."""
        left = None
        if self._connection is not None:
            left = self._truncate(min(1.0, until(deadline_s)))
            self._drop()
        return left

    def _ready(self, group: list[Job], patience_until: float) -> apsw.Connection:
        connection = self._connection
        if connection is None:
            connection = self._connection = open_writer(self._path, durability=self.durability)
            self._checkpointer.watch(connection)
            self._presence = Presence(self._path)
            self._applied = self.durability
        if self._applied != self.durability:
            set_durability(connection, self.durability)
            self._applied = self.durability
        patience_s = min(patience_until, *(job.limit_s for job in group)) - time.monotonic()
        connection.set_busy_timeout(max(1, int(min(patience_s, BUSY_MS / 1e3) * 1e3)))
        return connection

    def _one(self, connection: apsw.Connection, job: Job) -> Outcome:
        job.started = True
        connection.execute("SAVEPOINT job")
        try:
            value = job.run(connection)
            connection.execute("RELEASE job")
        except Exception as error:
            if isinstance(error, _WHOLE_GROUP) or not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
            self._on_failed()
            return None, error
        return value, None

    def _roll_back(self, error: Exception) -> None:
        connection = self._connection
        if connection is not None:
            try:
                roll_back(connection)
            except apsw.Error:
                self._drop()
            if not isinstance(error, _SAME_CONNECTION):
                self._drop()
        self._on_failed()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                connection.close(True)

    def _truncate(self, patience_s: float) -> Exception | None:
        assert self._connection is not None
        self._connection.set_busy_timeout(int(patience_s * 1e3))
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            # Nothing is lost: the WAL is read with the file, and goes into it at the next checkpoint.
            return error
        return None

    def _secure(self) -> None:
        now = time.monotonic()
        if now - self._secured_at < _SECURE_S:
            return
        self._secured_at = now
        try:
            secure(self._path)
            self.insecure = None
        except StoreRefused as error:
            self.insecure = str(error)
