"""From changed memory to disk to the world: what was marked in one pass becomes one job of the writer; what was
promised for it (replies, events) happens after its COMMIT, in order. Streamed pieces are published at once and stored
soon after.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from termal.bus.loop import Loop
from termal.faults import fault
from termal.log import Log
from termal.store.writer import Writer
from termal.wire.codec import encode_json
from termal.wire.events import Published
from workers.state.once import Once
from workers.state.registry import Registry
from workers.state.rows import Batch
from workers.state.session_record import SessionRecord

STREAM_S = 0.25
"""Streamed text is on disk this soon after it was published, at the latest."""
SOON_S = 0.1
"""A short message is stored this soon after it grew, and with it every other short one that grows: one commit for all
that many agents say at once."""
SHORT_BYTES = 64 << 10
REWRITE_BYTES_PER_S = 4 << 20
"""A message grows by being written anew, so a longer one is written less often."""
OPEN_DELTAS = 1000
"""Published pieces, and revisions of any kind, that are not stored: fewer than what a load adds to the revision, so
that none is ever shown twice."""
AUDIT_S = 1.0
"""An audit row of a read waits so long for the commit of something else."""
READ_PATIENCE_S = 0.25
"""A read waits this long for the commit of what it shows; a stuck disk must not stop reading."""
WAITING = 1000
"""Requests that wait for one commit; beyond it the disk has been stuck for long and new writes are refused."""

Callback = Callable[[], None]
Publish = Callable[[Published], None]
LateUpdates = Callable[[SessionRecord], None]


class Journal:
    """``failed`` is told when a job cannot be written although the disk works: then memory is not what is stored."""

    def __init__(
        self,
        loop: Loop,
        writer: Writer,
        registry: Registry,
        *,
        publish: Publish,
        failed: Callable[[Exception], None],
        log: Log,
    ) -> None:
        self.on_room: list[Callback] = []
        self.late_updates: LateUpdates | None = None
        self.changes = 0
        """Grows with every change of memory that was begun."""
        self._loop = loop
        self._writer = writer
        self._registry = registry
        self._publish = publish
        self._failed = failed
        self._log = log
        self._urgent: dict[str, SessionRecord] = {}
        self._streaming: dict[str, SessionRecord] = {}
        self._long: set[str] = set()
        self._removed: list[str] = []
        self._app_touched = False
        self._delegations: set[str] = set()
        self._audit: list[tuple[str, str]] = []
        self._audit_due = False
        self._due: dict[str, SessionRecord] = {}
        self._after: list[Callback] = []
        self._riders: list[Callback] = []
        self._events: deque[tuple[int, Published]] = deque()
        self._next = 1
        self._committed = 0
        self._in_flight = False
        self._open_deltas = 0
        self._stored_revision = self._taken_revision = registry.revision
        self._taken: list[SessionRecord] = []
        self._taken_deltas = 0
        self._stopping = False
        self._halted = False
        loop.on_pass(self._pump)

    # ---------------------------------------------------------------------- marks

    def touch(self, record: SessionRecord) -> None:
        """Store ``record`` with the next commit; a removed one stays removed."""
        self.changes += 1
        if not record.removed:
            self._urgent[record.id] = record

    def touch_metadata(self) -> None:
        self.changes += 1
        self._app_touched = True

    def touch_delegation(self, delegation_id: str) -> None:
        """Store the delegation, as it is then, with the next commit."""
        self.changes += 1
        self._delegations.add(delegation_id)

    def audit(self, parent_session_id: str, value_json: str) -> None:
        """Store one more audit row: with the next commit, which comes within `AUDIT_S`."""
        if not self._audit:
            self._loop.later(AUDIT_S, self._audit_is_due)
        self._audit.append((parent_session_id, value_json))

    def flush_audit(self) -> None:
        """Whoever reads audit rows is to see all of them."""
        self._audit_is_due()

    def _audit_is_due(self) -> None:
        self._audit_due = bool(self._audit)

    def remove(self, record: SessionRecord) -> None:
        """Delete the rows of ``record``; the tables below it follow."""
        self.changes += 1
        self._urgent.pop(record.id, None)
        self._streaming.pop(record.id, None)
        self._long.discard(record.id)
        self._due.pop(record.id, None)
        self._open_deltas -= record.open_deltas
        record.open_deltas = 0
        self._removed.append(record.id)

    def stream(self, record: SessionRecord, deltas: int, size_bytes: int = 0) -> None:
        """``record`` grew by pieces of which ``deltas`` were published: store it soon, at the latest in `STREAM_S`.

        ``size_bytes``: how large the message is that has to be written anew.
        """
        self.changes += 1
        if record.removed:
            return
        record.open_deltas += deltas
        self._open_deltas += deltas
        if size_bytes > SHORT_BYTES:
            self._long.add(record.id)
        if record.id not in self._streaming:
            self._streaming[record.id] = record
            delay_s = min(STREAM_S, SOON_S + size_bytes / REWRITE_BYTES_PER_S)
            self._loop.later(delay_s, lambda: self._stream_is_due(record))
        if self.crowded or self._stopping:
            self._due.update(self._streaming)

    def after(self, callback: Callback) -> None:
        """Run ``callback`` once everything that is marked now is committed."""
        self._after.append(callback)

    def stored(self, callback: Callback) -> None:
        """Run ``callback`` once everything that was changed until now is committed, never before, at once if it is."""
        if self._marked:
            self._after.append(callback)
        elif self._in_flight:
            self._riders.append(callback)
        else:
            callback()

    def settle(self, callback: Callback) -> None:
        """Run ``callback`` once nothing uncommitted is left of what a reader sees now, at the latest in a moment."""
        if self._marked:
            waiting = self._after
        elif self._in_flight:
            waiting = self._riders
        else:
            callback()
            return
        once = Once(callback)
        waiting.append(once.run)
        self._loop.later(READ_PATIENCE_S, once.run)

    def emit(self, event: Published, *, streamed: bool = False) -> None:
        """Publish ``event`` after the commit of what is marked now; a ``streamed`` one as soon as its turn comes."""
        self._events.append((0 if streamed else self._next, event))
        if streamed:
            self._release()

    # --------------------------------------------------------------------- figures

    @property
    def crowded(self) -> bool:
        """So much streamed text waits for the disk that no more may be taken; `on_room` tells when it may."""
        return self._open_deltas >= OPEN_DELTAS or self._open_revisions >= OPEN_DELTAS

    @property
    def full(self) -> bool:
        return len(self._after) >= WAITING or self._open_revisions >= OPEN_DELTAS

    @property
    def _open_revisions(self) -> int:
        """A reader is shown what a stuck disk does not take: after a crash these numbers must not come again."""
        return self._registry.revision - self._stored_revision

    @property
    def idle(self) -> bool:
        return not (self._in_flight or self._marked or self._streaming or self._audit)

    @property
    def depth(self) -> int:
        return len(self._after) + len(self._riders)

    def flush_streams(self) -> None:
        """The process stops: store what is streamed without waiting for more."""
        self._stopping = True
        self._audit_is_due()
        self._due.update(self._streaming)

    def halt(self) -> None:
        """Memory is half-changed: nothing of it is stored, published or answered any more."""
        self._halted = True

    @property
    def _marked(self) -> bool:
        changed = self._urgent or self._removed or self._app_touched or self._delegations
        return bool(changed or self._after or self._audit_due)

    # --------------------------------------------------------------------- commits

    def _stream_is_due(self, record: SessionRecord) -> None:
        if self._streaming.get(record.id) is record:
            self._due.update((key, each) for key, each in self._streaming.items() if key not in self._long)
            self._due[record.id] = record

    def _pump(self) -> None:
        if self._in_flight or self._halted or not (self._due or self._marked):
            return
        batch, confirms = self._collect()
        self._in_flight = True
        self._next += 1
        self._riders, self._after = [*confirms, *self._after], []
        self._writer.submit(batch.write, self._done)

    def _collect(self) -> tuple[Batch, list[Callback]]:
        records = {**self._due, **self._urgent}
        for session in records:
            self._streaming.pop(session, None)
            self._long.discard(session)
        self._due, self._urgent = {}, {}
        batch = Batch()
        confirms: list[Callback] = []
        self._taken = list(records.values())
        self._taken_deltas = 0
        for record in self._taken:
            self._take(batch, record, confirms)
        batch.removed = [(session,) for session in self._removed]
        self._removed = []
        self._app_touched = False
        for delegation_id in self._delegations:
            delegation = self._registry.delegations.get(delegation_id)
            if delegation is not None:
                batch.take_delegation(delegation)
        batch.audit, self._audit = self._audit, []
        self._delegations, self._audit_due = set(), False
        batch.metadata = encode_json(self._registry.metadata).decode()
        self._taken_revision = self._registry.revision
        return batch, confirms

    def _take(self, batch: Batch, record: SessionRecord, confirms: list[Callback]) -> None:
        if record.late_updates and self.late_updates is not None:
            self.late_updates(record)
        try:
            batch.take(record)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            # Its last good row stays; the other sessions of this commit must not suffer.
            self._log.error("journal.unwritable", sessionId=record.id, error=repr(error))
            return
        self._taken_deltas += record.open_deltas
        record.open_deltas = 0
        confirms += record.confirms
        record.confirms = []

    def _done(self, _: None, error: Exception | None) -> None:
        if error is not None:
            self._failed(error)
            return
        try:
            self._stored()
        except Exception as unforeseen:  # noqa: BLE001 - the writer's border would only log it
            self._loop.fault(unforeseen)

    def _stored(self) -> None:
        fault("state.after_commit_before_reply")
        self._in_flight = False
        self._committed = self._next - 1
        self._open_deltas -= self._taken_deltas
        self._stored_revision = self._taken_revision
        for record in self._taken:
            record.committed = True
            record.trim()
        self._taken = []
        self._release()
        riders, self._riders = self._riders, []
        for callback in riders:
            self._run(callback)
        if not self.crowded:
            for waiting in self.on_room:
                self._run(waiting)

    def _run(self, callback: Callback) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - the border between one commit and the many that wait for it
            self._loop.fault(error)

    def _release(self) -> None:
        while self._events and self._events[0][0] <= self._committed and not self._halted:
            self._publish(self._events.popleft()[1])
