"""What a board says: its entries, a page of them, and the receipt of a write. Values are final JSON."""

from msgspec import UNSET, Raw, UnsetType

from termal.model.message import Record


class BoardHead(Record, frozen=True):
    """A key as it is now. ``value`` is null for a deleted one, which keeps its name and its revision."""

    key: str
    revision: int
    updated_at_generation: int
    value: Raw
    deleted: bool
    author_session_id: str
    author_name: str
    updated_at: str
    state_stamp: str | UnsetType = UNSET


class BoardEntry(BoardHead, frozen=True, kw_only=True):
    """The reply to a read of one key, which is there."""

    scope_generation: int


class BoardPage(Record, frozen=True):
    """Keys with a value, in their order. ``unchanged``: nothing was written since the known generation."""

    generation: int
    entries: list[BoardHead]
    unchanged: bool
    next_after_key: str | UnsetType = UNSET


class BoardReceipt(Record, frozen=True):
    """The result of a write, kept under its idempotency key: a repeat gets the same with ``duplicate`` true."""

    key: str
    revision: int
    prior_revision: int
    generation: int
    value: Raw
    deleted: bool
    author_session_id: str
    author_name: str
    updated_at: str
    state_stamp: str | UnsetType = UNSET
    duplicate: bool = False
