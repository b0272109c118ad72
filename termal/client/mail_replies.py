"""What the routes of mailboxes and boards answer. Unknown keys are skipped."""

from typing import Any

from termal.model.message import Record


class Participant(Record, frozen=True):
    session_id: str
    display_name: str
    processed_through: int
    left_at: str | None = None


class MailboxSummary(Record, frozen=True):
    id: str
    participants: list[Participant]
    latest_sequence: int
    unread_count: int
    latest_message_preview: str | None = None
    latest_message_at: str | None = None


class MailMessage(Record, frozen=True):
    """``notification_state`` moves on while the receiver is woken."""

    id: str
    mailbox_id: str
    sequence: int
    sender_session_id: str
    sender_name: str
    target_session_id: str
    target_name: str
    created_at: str
    body: str
    notification_state: str
    topic: str | None = None
    state_stamp: str | None = None


class BoardHead(Record, frozen=True):
    """One key of a board; ``scope_generation`` where a single one was asked for."""

    key: str
    revision: int
    value: Any
    deleted: bool
    author_session_id: str
    author_name: str
    updated_at: str
    updated_at_generation: int
    state_stamp: str | None = None
    scope_generation: int | None = None


class BoardPage(Record, frozen=True):
    generation: int
    entries: list[BoardHead]
    unchanged: bool
    next_after_key: str | None = None


class BoardReceipt(Record, frozen=True):
    key: str
    revision: int
    prior_revision: int
    generation: int
    value: Any
    deleted: bool
    author_session_id: str
    author_name: str
    updated_at: str
    duplicate: bool
    state_stamp: str | None = None
