"""The one thread that writes a database file: a FIFO queue, group commit, retries while the disk says no.

No result is handed over before COMMIT returned. The loop's thread never waits here, but in `close`.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from termal.log import Log
from termal.store.checkpoint import Checkpointer
from termal.store.commit import Committer, GroupFailed
from termal.store.connection import Cursorlike, Durability
from termal.store.handover import Entry, Handover, Notify
from termal.store.job import Job, Retry, gave_up, lost, too_late, unknown, until
from termal.wire.control import EXIT_INTERNAL

__all__ = ["Cursorlike", "Writer"]

T = TypeVar("T")

GROUP = 64
"""Jobs in one commit, at most. Beyond that a commit takes longer without a higher rate."""
FIRST_DELAY_S = 0.25
LONGEST_DELAY_S = 30.0
_NEVER = float("inf")
_CHECKPOINT_S = 0.2
"""Kept from the time to close for the last checkpoint."""


class Writer:
    """All writes of one file. Raises `StoreRefused` or `StoreError` when the file cannot be opened.

    ``on_group(seconds)`` after each commit and ``on_trouble(error | None)`` when commits begin to fail and when they
    work again run by `finish`. ``on_failed`` runs on the writer's thread, after a rollback and before the next job:
    whatever jobs remembered of uncommitted work is to be forgotten there. ``others``: one more connection for each,
    with its own ``on_failed``; they are used by turns, in the order of the queue, and never write at once.
    ``on_fault`` gets what a callback raised: its owner's memory may not be what is stored any more.
    """

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability,
        notify: Notify,
        log: Log,
        on_group: Callable[[float], None] | None = None,
        on_trouble: Callable[[Exception | None], None] | None = None,
        on_failed: Callable[[], None] | None = None,
        others: Sequence[Callable[[], None]] = (),
        on_fault: Callable[[Exception], None] | None = None,
    ) -> None:
        self.commit_ms = 0.0
        """How long the last COMMIT took, its fsync included."""
        self._log = log
        self._database = path.name
        self._checkpointer = Checkpointer(path, log)
        self._committers = [
            Committer(path, durability, hook, self._checkpointer) for hook in (on_failed or _nothing, *others)
        ]
        self._on_group = on_group
        self._on_trouble = on_trouble
        self._handover = Handover(notify, log, on_fault)
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._waiting: deque[Job] = deque()
        self._door = threading.Lock()
        self._submitted = 0
        self._ended = 0
        self._delay_s = 0.0
        self._retry_at = 0.0
        self._closing = False
        self._closed = False
        self._give_up_at = _NEVER
        self._soonest = _NEVER
        self._thread = threading.Thread(target=self._run, name=f"{path.stem}-writer", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """Jobs that have not ended."""
        return self._submitted - self._ended

    def submit(
        self,
        job: Callable[[Cursorlike], T],
        done: Callable[[T | None, Exception | None], None],
        *,
        deadline_s: float | None = None,
        retry: Retry = True,
        line: int = 0,
    ) -> None:
        """Queue ``job``, from any thread; ``done(value, error)`` runs once, by `finish`, after its commit or failure.

        A job that raises fails alone, with its exception. ``deadline_s`` (CLOCK_MONOTONIC): a job that has not been
        taken up by then ends as `Busy` and is never run; one that was taken up and waits to be tried again ends as
        `OutcomeUnknown` at that time, **stays in the queue and commits later**, and ``done`` is not called again.
        When a whole group fails (disk full, I/O error, lock), jobs with ``retry`` are run again, so they must be
        able to; the others end at once as `Busy` where it is proven that nothing was written, else `OutcomeUnknown`.
        With ``retry`` ``"unstarted"`` a job waits for a lock as long as it may, and is not run again once it ran.
        ``line`` is the connection: 0, or the number of one of the others. Only neighbours of one share a commit.
        """
        with self._door:
            if not self._closed:
                self._submitted += 1
                self._queue.put(Job(job, done, deadline_s, retry, line))
                return
        self._handover.put([(done, (None, gave_up()))])

    def finish(self) -> None:
        """Run what is due on the loop's thread: ``done`` of the ended jobs in order, and the hooks."""
        self._handover.finish()

    def set_durability(self, durability: Durability) -> None:
        """From the next group on."""
        for committer in self._committers:
            committer.durability = durability

    def close(self, deadline_s: float) -> bool:
        """Write what waits, checkpoint, end the thread; at ``deadline_s`` give up what still fails. Calls `finish`.

        True when everything was written. May be called again.
        """
        with self._door:
            if not self._closed:
                self._closed = True
                self._give_up_at = deadline_s - _CHECKPOINT_S
                self._queue.put(None)
        self._thread.join(until(deadline_s))
        self.finish()
        if self._thread.is_alive():
            self._log.error("store.close_abandoned", database=self._database, waiting=self.depth)
        return not self._thread.is_alive() and not self.depth

    # ---------------------------------------------------------- the writer's thread

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - the outermost frame of the thread
            # Without this thread no write ever ends again: a new process is the only way on.
            self._log.error("store.writer_failed", database=self._database, error=repr(error))
            os._exit(EXIT_INTERNAL)

    def _work(self) -> None:
        while self._collect():
            group = self._due()
            if group:
                self._attempt(group)
        self._checkpointer.close()
        left = [committer.close(self._give_up_at + _CHECKPOINT_S) for committer in self._committers][-1]
        if left is not None:
            self._log.warning("store.checkpoint_left", database=self._database, error=str(left))

    def _collect(self) -> bool:
        """Wait for work that may be tried now. False: closed, and nothing is left to do."""
        self._wait_for_retry()
        while len(self._waiting) < GROUP:
            try:
                self._take(self._queue.get(block=not self._waiting and not self._closing))
            except Empty:
                break
        return bool(self._waiting)

    def _wait_for_retry(self) -> None:
        while self._delay_s and self._waiting:
            now = time.monotonic()
            if now >= self._give_up_at:
                self._give_up()
                return
            limit = min(self._retry_at, self._give_up_at)
            if now >= limit:
                return
            self._expire(now)
            try:
                self._take(self._queue.get(timeout=max(0.0, min(limit, self._soonest) - now)))
            except Empty:
                continue

    def _take(self, job: Job | None) -> None:
        if job is not None:
            self._waiting.append(job)
            self._soonest = min(self._soonest, job.limit_s)
            return
        self._closing = True
        # Nobody waits for the end of a long pause any more: try now, then at the shortest distance.
        self._retry_at = 0.0

    def _due(self) -> list[Job]:
        self._expire(time.monotonic())
        waiting, group = self._waiting, list[Job]()
        while waiting and len(group) < GROUP and (not group or waiting[0].line == group[0].line):
            group.append(waiting.popleft())
        return group

    def _expire(self, now: float) -> None:
        """End what is late: dropped when it was never taken up, only answered (and kept) when it was."""
        # PERF: thousands may wait for a full disk; they are looked through only when one of them is late.
        if now <= self._soonest:
            return
        kept: deque[Job] = deque()
        entries: list[Entry] = []
        for job in self._waiting:
            if now <= job.limit_s:
                kept.append(job)
            elif job.started:
                job.answered = True
                entries.append((job.done, (None, unknown())))
                kept.append(job)
            else:
                self._ended += 1
                entries.append((job.done, (None, too_late())))
        self._waiting = kept
        self._soonest = min((job.limit_s for job in kept), default=_NEVER)
        self._handover.put(entries)

    def _attempt(self, group: list[Job]) -> None:
        began = time.monotonic()
        committer = self._committers[group[0].line]
        try:
            outcomes = committer.commit(group, patience_until=self._give_up_at)
        except GroupFailed as failure:
            self._failed(group, failure)
            return
        self.commit_ms = committer.commit_ms
        entries: list[Entry] = []
        if self._delay_s:
            self._delay_s = 0.0
            self._log.info("store.recovered", database=self._database)
            self._trouble(None, entries)
        entries += [(job.done, outcome) for job, outcome in zip(group, outcomes, strict=True) if not job.answered]
        if self._on_group is not None:
            entries.append((self._on_group, (time.monotonic() - began,)))
        self._ended += len(group)
        self._handover.put(entries)
        if committer.insecure is not None:
            self._log.repeating("store.insecure", database=self._database, error=committer.insecure)

    def _failed(self, group: list[Job], failure: GroupFailed) -> None:
        ended = [job for job in group if not job.again]
        self._waiting.extendleft([job for job in reversed(group) if job.again])
        self._soonest = min(self._soonest, *(job.limit_s for job in group))
        self._ended += len(ended)
        first = self._closing or not self._delay_s
        self._delay_s = FIRST_DELAY_S if first else min(LONGEST_DELAY_S, self._delay_s * 2)
        self._retry_at = time.monotonic() + self._delay_s
        entries: list[Entry] = [
            (job.done, (None, lost(failure.cause, failure.maybe_durable))) for job in ended if not job.answered
        ]
        self._trouble(failure.cause, entries)
        self._handover.put(entries)
        self._log.repeating(
            "store.trouble",
            database=self._database,
            error=repr(failure.cause),
            waiting=len(self._waiting),
            retryInSeconds=self._delay_s,
        )

    def _give_up(self) -> None:
        entries: list[Entry] = [(job.done, (None, gave_up(job))) for job in self._waiting if not job.answered]
        self._log.error("store.gave_up", database=self._database, jobs=len(self._waiting))
        self._waiting.clear()
        self._handover.put(entries)

    def _trouble(self, error: Exception | None, entries: list[Entry]) -> None:
        if self._on_trouble is not None:
            entries.append((self._on_trouble, (error,)))


def _nothing() -> None:
    pass
