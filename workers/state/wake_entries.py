"""Wakes as entries of a queue: made, found by their mailbox, refreshed in place, put back to the front."""

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.message import MailboxOrigin, PromptSource
from termal.model.session import PendingPrompt
from termal.model.stored import QueueEntry
from termal.wire.queue_operations import Wake
from workers.state.clock import now_text
from workers.state.registry import Registry
from workers.state.rows import queued
from workers.state.session_record import Queued, SessionRecord


def origin_of(entry: QueueEntry) -> MailboxOrigin | None:
    """The mailbox that ``entry`` tells of, None when it is no wake."""
    source = entry.pending_prompt.source
    if entry.source != "mailbox" or source is UNSET or source.mailbox is UNSET:
        return None
    return source.mailbox


def held_wake(queue: list[Queued], mailbox_id: str) -> int | None:
    """The place of the wake for ``mailbox_id``; there is at most one."""
    for place, waiting in enumerate(queue):
        origin = origin_of(waiting.entry)
        if origin is not None and origin.mailbox_id == mailbox_id:
            return place
    return None


def entry_of(wake: Wake, prompt_id: str) -> QueueEntry:
    origin = MailboxOrigin(
        mailbox_id=wake.mailbox_id,
        message_id=wake.message_id,
        sequence=wake.sequence,
        unread_count=wake.unread_count,
    )
    source = PromptSource(name=wake.sender_name, session_id=wake.sender_id, kind="mailbox", mailbox=origin)
    return QueueEntry("mailbox", PendingPrompt(id=prompt_id, timestamp=now_text(), text=wake.text, source=source))


def refresh(queue: list[Queued], place: int, entry: QueueEntry) -> bool:
    """Put ``entry`` in place of an older one under the id of that; whether it is not older itself."""
    old = queue[place].entry
    known, new = origin_of(old), origin_of(entry)
    if known is None or new is None or known.sequence > new.sequence:
        return False
    prompt = replace(entry.pending_prompt, id=old.pending_prompt.id)
    queue[place] = queued(QueueEntry(entry.source, prompt))
    return True


def put_back(registry: Registry, record: SessionRecord, entry: QueueEntry) -> None:
    """``entry`` did not become a turn: to the front under a new id, its own being in the transcript; a wake refreshes
    the one that the queue has for its mailbox meanwhile."""
    origin = origin_of(entry)
    held = held_wake(record.queue, origin.mailbox_id) if origin is not None else None
    if held is not None:
        refresh(record.queue, held, entry)
        return
    prompt = replace(entry.pending_prompt, id=registry.new_message_id())
    record.queue.insert(0, queued(replace(entry, pending_prompt=prompt)))
