"""Wakes as entries of a queue: made, found by their mailbox, refreshed in place, put to the front; and what a session
remembers of those that it was offered.
"""

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.message import MailboxOrigin, PromptSource
from termal.model.session import PendingPrompt
from termal.model.stored import WAKE_KEYS, QueueEntry, WakeKey
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
    the one that the queue has for its mailbox meanwhile, and may be offered once more: that is no repeat."""
    origin = origin_of(entry)
    if origin is not None:
        forget(record, origin)
        held = held_wake(record.queue, origin.mailbox_id)
        if held is not None:
            refresh(record.queue, held, entry)
            return
    before = entry.pending_prompt.id
    prompt = replace(entry.pending_prompt, id=registry.new_message_id())
    record.queue.insert(0, queued(replace(entry, pending_prompt=prompt)))
    # What made it is still found by its key, now under the new id.
    record.prompt_keys = [
        replace(key, prompt_id=prompt.id) if key.prompt_id == before else key for key in record.prompt_keys
    ]


def to_front(registry: Registry, record: SessionRecord, wake: Wake) -> bool:
    """Put ``wake`` before everything, or in place of an older one of its mailbox; whether the queue is another one."""
    held = held_wake(record.queue, wake.mailbox_id)
    if held is None:
        prompt_id = registry.new_message_id()
        record.queue = [queued(entry_of(wake, prompt_id)), *record.queue]
        remember(record, WakeKey(mailbox_id=wake.mailbox_id, sequence=wake.sequence, prompt_id=prompt_id))
        return True
    origin = origin_of(record.queue[held].entry)
    if origin is None or (origin.sequence, origin.unread_count) == (wake.sequence, wake.unread_count):
        return False
    return refresh(record.queue, held, entry_of(wake, ""))


def known_wake(record: SessionRecord, mailbox_id: str, sequence: int) -> WakeKey | None:
    """What ``record`` was offered of that mailbox, if it covers ``sequence``."""
    for key in record.wake_keys:
        if key.mailbox_id == mailbox_id:
            return key if key.sequence >= sequence else None
    return None


def remember(record: SessionRecord, key: WakeKey) -> None:
    """The newest wake of each mailbox is kept; an older one changes nothing."""
    for known in record.wake_keys:
        if known.mailbox_id == key.mailbox_id:
            if known.sequence > key.sequence:
                return
            key = replace(key, started=max(key.started, known.started), lost=max(key.lost, known.lost))
    others = [known for known in record.wake_keys if known.mailbox_id != key.mailbox_id]
    record.wake_keys = [*others, key][-WAKE_KEYS:]


def forget(record: SessionRecord, origin: MailboxOrigin) -> None:
    """The wake of ``origin`` may be offered as if for the first time; that it was lost before stays known."""
    kept = []
    for key in record.wake_keys:
        if key.mailbox_id != origin.mailbox_id or key.sequence > origin.sequence:
            kept.append(key)
        elif key.lost:
            kept.append(replace(key, sequence=0, started=0))
    record.wake_keys = kept


def started(record: SessionRecord, entry: QueueEntry) -> None:
    """``entry`` becomes a turn: if it is a wake, a late offer of it must start nothing."""
    origin = origin_of(entry)
    if origin is not None and known_wake(record, origin.mailbox_id, origin.sequence) is None:
        prompt_id = entry.pending_prompt.id
        remember(record, WakeKey(mailbox_id=origin.mailbox_id, sequence=origin.sequence, prompt_id=prompt_id))


def back_after_loss(registry: Registry, record: SessionRecord, entry: QueueEntry) -> bool:
    """The worker that was at work on the wake ``entry`` is gone: back to the front, but only once for its messages."""
    origin = origin_of(entry)
    if origin is None:
        return False
    lost = next((key.lost for key in record.wake_keys if key.mailbox_id == origin.mailbox_id), 0)
    if lost >= origin.sequence:
        return False
    put_back(registry, record, entry)
    held = held_wake(record.queue, origin.mailbox_id)
    assert held is not None
    waits = record.queue[held].entry
    now = origin_of(waits) or origin
    key = WakeKey(
        mailbox_id=origin.mailbox_id,
        sequence=now.sequence,
        prompt_id=waits.pending_prompt.id,
        lost=origin.sequence,
    )
    remember(record, key)
    return True
