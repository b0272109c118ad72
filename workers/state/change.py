"""One client-visible commit: what it does to memory, which rows it dirties, which events it publishes, one revision."""

from collections.abc import Callable

from msgspec import UNSET

from termal.model import delta
from termal.model.delegation import DelegationRecord
from termal.model.message import Command, Message, ParallelAgents
from termal.rules.closing import Cause, closed
from termal.wire.codec import encode_json
from termal.wire.events import Published
from workers.state.journal import Callback, Journal
from workers.state.projections import Projections, summary_session
from workers.state.registry import Registry
from workers.state.session_record import SessionRecord

Event = Callable[[int], delta.AnyDelta]
"""Makes one event once its revision, and everything else of the commit, is known."""


class Book:
    """Memory, journal and projections together: where every change begins."""

    def __init__(self, registry: Registry, journal: Journal, projections: Projections) -> None:
        self.registry = registry
        self.journal = journal
        self.projections = projections
        journal.late_updates = self._publish_late

    def change(self) -> "Change":
        self.journal.changes += 1
        return Change(self)

    def extend_text(self, record: SessionRecord, position: int, piece: str) -> None:
        """Append a streamed piece of text and publish it; it is on disk within the journal's stream time."""
        before, preview = record.extend(position, piece)
        registry = self.registry
        revision = registry.next_revision()
        registry.stamp(record)
        event = delta.TextDelta(
            revision=revision,
            session_id=record.id,
            message_id=record.messages[position - record.start].id,
            message_index=position,
            message_count=record.count,
            session_mutation_stamp=record.stamp,
            delta=piece,
            text_start_byte=before,
            preview=UNSET if preview is None else preview,
        )
        self.journal.stream(record, 1, before)
        self.journal.emit(Published("delta", revision, encode_json(event)), streamed=True)

    def stream_update(self, record: SessionRecord, position: int, message: Message) -> None:
        """Put ``message`` in place and publish that at once, as part of a stream."""
        if record.at(position) == message:
            return
        record.put(message, position)
        self._publish_update(record, position)

    def extend_quietly(self, record: SessionRecord, position: int, piece: str) -> None:
        """Append a streamed piece to a message whose event carries all of it: published when it is stored."""
        record.extend(position, piece)
        record.late_updates.add(position)
        self.journal.stream(record, 0, record.size_bytes(position))

    def replace_text(self, record: SessionRecord, position: int, message: Message, text: str) -> None:
        """Put the authoritative ``message`` (its text is ``text``) in place of what was streamed."""
        before = record.preview
        record.put(message, position)
        registry = self.registry
        revision = registry.next_revision()
        registry.stamp(record)
        event = delta.TextReplace(
            revision=revision,
            session_id=record.id,
            message_id=message.id,
            message_index=position,
            message_count=record.count,
            session_mutation_stamp=record.stamp,
            text=text,
            preview=record.preview if record.preview != before else UNSET,
        )
        self.journal.stream(record, 1)
        self.journal.emit(Published("delta", revision, encode_json(event)), streamed=True)

    def _publish_update(self, record: SessionRecord, position: int) -> None:
        revision = self.registry.next_revision()
        self.registry.stamp(record)
        event = _updated(record, record.at(position), position, record.count, revision)
        self.journal.stream(record, 1)
        self.journal.emit(Published("delta", revision, encode_json(event)), streamed=True)

    def _publish_late(self, record: SessionRecord) -> None:
        positions, record.late_updates = sorted(record.late_updates), set()
        for position in positions:
            revision = self.registry.next_revision()
            self.registry.stamp(record)
            event = _updated(record, record.at(position), position, record.count, revision)
            self.journal.emit(Published("delta", revision, encode_json(event)), streamed=True)


class Change:
    """Collects; nothing is published and no revision is taken before `commit`."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._events: list[Event] = []
        self._records: dict[str, SessionRecord] = {}
        self._summaries: set[str] = set()
        self._snapshot = False

    def append(self, record: SessionRecord, message: Message) -> int:
        position = record.put(message)
        count = record.count
        self._touched(record)
        self._events.append(
            lambda revision: delta.MessageAdded(
                revision=revision,
                session_id=record.id,
                message_id=message.id,
                message_index=position,
                message_count=count,
                session_mutation_stamp=record.stamp,
                message=message,
                preview=record.preview,
                status=record.status,
            )
        )
        return position

    def update(self, record: SessionRecord, position: int, message: Message, *, preview: bool = True) -> None:
        record.put(message, position, preview=preview)
        count = record.count
        self._touched(record)
        self._events.append(lambda revision: _updated(record, message, position, count, revision))

    def close(self, record: SessionRecord, cause: Cause) -> None:
        """End what is still open in the resident part of the transcript."""
        for position in range(record.start, record.count):
            message = closed(record.at(position), cause)
            if message is not None:
                self.update(record, position, message, preview=False)

    def compacted(self, record: SessionRecord) -> None:
        """The transcript of ``record`` is another one now."""
        self.event(
            record,
            lambda revision: delta.MessagesCompacted(
                revision=revision,
                session_id=record.id,
                message_count=record.count,
                preview=record.preview,
                status=record.status,
                session_mutation_stamp=record.stamp,
            ),
        )

    def touch(self, record: SessionRecord) -> None:
        """Store ``record``; clients see nothing of it."""
        self._book.journal.touch(record)

    def summary(self, record: SessionRecord) -> None:
        """Publish the summary, once in this commit, at this place among its events."""
        self._touched(record)
        if record.id in self._summaries:
            return
        self._summaries.add(record.id)
        self._events.append(
            lambda revision: delta.SessionSummaryUpdated(
                revision=revision,
                session_id=record.id,
                session=summary_session(record),
                session_mutation_stamp=record.stamp,
            )
        )

    def event(self, record: SessionRecord, make: Event) -> None:
        """Store ``record`` and publish what ``make`` says of it, at this place among the events of this commit."""
        self._touched(record)
        self._events.append(make)

    def tell(self, make: Event) -> None:
        """Publish what ``make`` says, at this place among the events of this commit."""
        self._events.append(make)

    def delegation(self, record: DelegationRecord) -> None:
        """Take ``record`` in, or in place of its older self, and store it."""
        self._book.registry.delegations.put(record)
        self._book.journal.touch_delegation(record.id)

    def agents(self, record: SessionRecord, position: int, message: ParallelAgents) -> None:
        """Put ``message``, whose rows changed, in place; ``position`` need not be in memory."""
        record.put(message, position, preview=position == record.count - 1)
        count = record.count
        self._touched(record)
        self._events.append(
            lambda revision: delta.ParallelAgentsUpdate(
                revision=revision,
                session_id=record.id,
                message_id=message.id,
                message_index=position,
                message_count=count,
                session_mutation_stamp=record.stamp,
                agents=message.agents,
                preview=record.preview,
            )
        )

    @property
    def empty(self) -> bool:
        """Nothing of it would be seen by anybody."""
        return not (self._events or self._records or self._snapshot)

    def create(self, record: SessionRecord) -> None:
        self._book.registry.add(record)
        record.committed = False
        self._touched(record)
        self._events.append(
            lambda revision: delta.SessionCreated(
                revision=revision, session_id=record.id, session=summary_session(record)
            )
        )

    def remove(self, record: SessionRecord) -> None:
        """The set of sessions changes: clients get a whole snapshot."""
        self._book.registry.remove(record)
        self._book.journal.remove(record)
        self._snapshot = True

    def everything(self, *records: SessionRecord) -> None:
        """What all clients show changed, and ``records`` with it: they get a whole snapshot."""
        for record in records:
            self._touched(record)
        self._snapshot = True

    def commit(self, after: Callback | None = None) -> int:
        """Take a revision, hand rows and events to the journal; ``after`` runs once this is on disk."""
        registry, journal = self._book.registry, self._book.journal
        revision = registry.next_revision()
        for record in self._records.values():
            registry.stamp(record)
            journal.touch(record)
        for make in self._events:
            journal.emit(Published("delta", revision, encode_json(make(revision))))
        if self._snapshot:
            journal.emit(Published("state", revision, self._book.projections.state()))
        journal.touch_metadata()
        if after is not None:
            journal.after(after)
        return revision

    def _touched(self, record: SessionRecord) -> None:
        self._records[record.id] = record


def _updated(record: SessionRecord, message: Message, position: int, count: int, revision: int) -> delta.Delta:
    if isinstance(message, Command):
        return delta.CommandUpdate(
            revision=revision,
            session_id=record.id,
            message_id=message.id,
            message_index=position,
            message_count=count,
            session_mutation_stamp=record.stamp,
            command=message.command,
            command_language=message.command_language,
            output=message.output,
            output_language=message.output_language,
            status=message.status,
            preview=record.preview,
        )
    return delta.MessageUpdated(
        revision=revision,
        session_id=record.id,
        message_id=message.id,
        message_index=position,
        message_count=count,
        session_mutation_stamp=record.stamp,
        message=message,
        preview=record.preview,
        status=record.status,
    )
