"""Structured review results as rows of the parent's mailbox: appended and found by `state` alone; nobody is woken."""

import msgspec

from termal.wire.operation import read, write


class AppendReview(msgspec.Struct, frozen=True, kw_only=True):
    """``body`` is the whole JSON envelope of ``attempt``; topic, stamp and key are derived here."""

    delegation_id: str
    attempt: int
    child_session_id: str
    child_name: str
    parent_session_id: str
    parent_name: str
    body: str


class ReviewReceipt(msgspec.Struct, frozen=True):
    mailbox_id: str
    message_id: str
    sequence: int
    unread_depth: int
    duplicate: bool
    notification_disposition: str = "durableButNotWoken"


class FindReview(msgspec.Struct, frozen=True):
    delegation_id: str
    attempt: int
    child_session_id: str


class FoundReview(msgspec.Struct, frozen=True):
    """The stored row of that attempt as it is; ``found`` False when there is none. Who asks judges it."""

    found: bool
    target_session_id: str = ""
    topic: str | None = None
    state_stamp: str | None = None
    body: str = ""


REVIEW_APPEND = write("review.append", AppendReview, ReviewReceipt, repeatable=True)
"""A different body under the same attempt is a `Conflict`."""
REVIEW_FIND = read("review.find", FindReview, FoundReview)
"""Waits in the writer's queue behind appends: the answer holds for everything accepted before it."""
