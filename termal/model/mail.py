"""Mail between root sessions as JSON shows it: receipts, summaries, messages, and what became of sent ones."""

import msgspec
from msgspec import UNSET, UnsetType

from termal.model.message import Record

CONTROL_TOPIC = "delegation-review-result/v1"
"""Of rows that are no mail: never counted, shown or woken for."""
UNWOKEN = "durableButNotWoken"
LIFECYCLES = (UNWOKEN, "queuedBehindActiveTurn", "recoveredWake", "deliveredToIdleSession")
UNDELIVERABLE = "undeliverable"


class Receipt(Record, frozen=True):
    """``unread_depth``: what the receiver had unread when the message was stored, this one included."""

    mailbox_id: str
    message_id: str
    sequence: int
    unread_depth: int
    notification_disposition: str
    duplicate: bool


class Participant(Record, frozen=True):
    session_id: str
    display_name: str
    processed_through: int
    left_at: str | UnsetType = UNSET


class MailboxSummary(Record, frozen=True):
    """One mailbox as one of its participants sees it; ``unread_count`` is the caller's."""

    id: str
    participants: list[Participant]
    latest_sequence: int
    unread_count: int
    latest_message_preview: str
    latest_message_at: str


class MailMessage(Record, frozen=True):
    id: str
    mailbox_id: str
    sequence: int
    sender_session_id: str
    sender_name: str
    target_session_id: str
    target_name: str
    created_at: str
    kind: str = msgspec.field(name="class")
    body: str
    notification_state: str
    topic: str | UnsetType = UNSET
    state_stamp: str | UnsetType = UNSET


class Undeliverable(Record, frozen=True):
    """Why a message that was not processed never will be; ``left_at`` is when its receiver left."""

    reason: str
    left_at: str


class SentMessage(Record, frozen=True):
    """A message as its sender follows it up. ``processed``: the receiver's cursor has passed it."""

    message_id: str
    mailbox_id: str
    sequence: int
    target_session_id: str
    target_name: str
    created_at: str
    preview: str
    notification_state: str
    processed: bool
    topic: str | UnsetType = UNSET
    state_stamp: str | UnsetType = UNSET
    undeliverable: Undeliverable | UnsetType = UNSET


class SentPage(Record, frozen=True):
    """Newest first; ``next_before`` is the ``before`` of the page behind this one, absent on the last."""

    messages: list[SentMessage]
    next_before: str | UnsetType = UNSET
