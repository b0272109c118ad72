"""Mailboxes: what the gateway, `state` and `wake` ask of `coordination`. Replies for people are made there as JSON."""

from typing import Literal

import msgspec

from termal.wire.operation import read, write
from termal.wire.turns import Anything, JsonReply

Outcome = Literal["durableButNotWoken", "queuedBehindActiveTurn", "deliveredToIdleSession"]
"""``notificationDisposition`` of a receipt."""


class SendMail(msgspec.Struct, frozen=True, kw_only=True):
    """One message from ``session_id`` to ``target_session_id``; ``kind`` is the ``class`` of the request."""

    session_id: str
    target_session_id: str
    message: str
    idempotency_key: str
    topic: str | None = None
    state_stamp: str | None = None
    kind: str | None = None


class AboutSession(msgspec.Struct, frozen=True):
    session_id: str


class ReadMailbox(msgspec.Struct, frozen=True):
    """Messages with a sequence above ``after_sequence``, ascending; ``limit`` is clamped to 1..200."""

    session_id: str
    mailbox_id: str
    after_sequence: int = 0
    limit: int = 50


class ReadMessage(msgspec.Struct, frozen=True):
    session_id: str
    message_id: str


class AcknowledgeMail(msgspec.Struct, frozen=True):
    session_id: str
    mailbox_id: str
    expected_processed_through: int
    processed_through: int


class ListSent(msgspec.Struct, frozen=True):
    """The caller's own messages, newest first; ``state`` keeps those of one notification state or ``undeliverable``.
    ``before`` is the cursor of the page before."""

    session_id: str
    state: str | None = None
    limit: int = 50
    before: str | None = None


class Depart(msgspec.Struct, frozen=True):
    """Sessions that were deleted on purpose, at ``at`` (RFC 3339 UTC)."""

    session_ids: list[str]
    at: str


class AskUnwoken(msgspec.Struct, frozen=True):
    """``head``: mailbox and sequence of the wake at the head of the queue, whose mail may be read by now."""

    session_id: str
    limit: int = 16
    head: tuple[str, int] | None = None


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """The newest unread inbound message of one mailbox for one receiver, and how many are unread in all."""

    mailbox_id: str
    session_id: str
    message_id: str
    sequence: int
    unread_count: int
    sender_id: str
    sender_name: str


class Unwoken(msgspec.Struct, frozen=True):
    """``mail``: never-woken mail, newest first. ``head``: the unread mail of the asked wake's mailbox, None when all of
    it is acknowledged (or no head was asked). ``settled``: nothing is left out, neither for the limit nor because its
    own dispatch is under way."""

    mail: list[Unread]
    head: Unread | None = None
    settled: bool = False


class ListUnread(msgspec.Struct, frozen=True):
    """A page over all (receiver, mailbox) pairs with unread inbound mail, ordered by receiver, then time, then mailbox;
    ``after`` is (receiver, mailbox) of the last one seen. ``only_unwoken`` keeps pairs with a never-woken row that is
    not being finalized."""

    after: tuple[str, str] | None = None
    limit: int = 1000
    only_unwoken: bool = False


class UnreadPage(msgspec.Struct, frozen=True):
    """``next`` is the ``after`` of the next page, None on the last one. ``skipped``: never-woken messages that are left
    out because their own dispatch is under way."""

    mail: list[Unread]
    next: tuple[str, str] | None = None
    skipped: int = 0


class UnreadOf(msgspec.Struct, frozen=True):
    session_id: str
    mailbox_id: str


class MaybeUnread(msgspec.Struct, frozen=True):
    mail: Unread | None = None


class AskStale(msgspec.Struct, frozen=True):
    """Wakes that wait in queues, as (receiver, mailbox, sequence)."""

    wakes: list[tuple[str, str, int]]


class Stale(msgspec.Struct, frozen=True):
    """Those of them whose receiver has nothing unread in the mailbox."""

    wakes: list[tuple[str, str, int]]


class Mark(msgspec.Struct, frozen=True):
    """A wake of ``mailbox_id`` that covers everything up to ``through`` was accepted by the receiver's runtime
    (``delivered``), put into its queue by never-woken recovery or after a refusal (``recovered``), or put there by a
    start or after the death of the worker that held its turn (``rewoken``)."""

    session_id: str
    mailbox_id: str
    through: int
    event: Literal["delivered", "recovered", "rewoken"]


class Marks(msgspec.Struct, frozen=True):
    """What became of wakes, in the order in which it was committed."""

    marks: list[Mark]


READING_S = 5.0
"""A read may have to clear a stale departure first."""

MAILBOX_SEND = write("mailbox.send", SendMail, JsonReply, repeatable=True)
MAILBOX_LIST = read("mailbox.list", AboutSession, JsonReply, timeout_s=READING_S)
MAILBOX_READ = read("mailbox.read", ReadMailbox, JsonReply, timeout_s=READING_S)
MAILBOX_MESSAGE = read("mailbox.message", ReadMessage, JsonReply, timeout_s=READING_S)
MAILBOX_ACKNOWLEDGE = write("mailbox.acknowledge", AcknowledgeMail, JsonReply, repeatable=True)
MAILBOX_SENT = read("mailbox.sent", ListSent, JsonReply, timeout_s=READING_S)
SESSION_DEPART = write("session.depart", Depart, Anything, repeatable=True, timeout_s=None)
"""Sent by state until it is confirmed; an earlier departure is never overwritten."""
MAILBOX_UNWOKEN = read("mailbox.unwoken", AskUnwoken, Unwoken)
MAILBOX_UNREAD = read("mailbox.unread", ListUnread, UnreadPage)
MAILBOX_UNREAD_OF = read("mailbox.unread_of", UnreadOf, MaybeUnread)
MAILBOX_MARK = write("mailbox.mark", Marks, Anything, repeatable=True, timeout_s=None)
MAILBOX_STALE = read("mailbox.stale", AskStale, Stale)
