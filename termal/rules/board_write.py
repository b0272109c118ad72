"""Whether a board's key may be written: compare-and-swap on its revision, and how much a scope holds."""

import hashlib
from enum import Enum, auto
from typing import NamedTuple

MOST_LIVE = 512
"""Keys with a value in one scope."""
MOST_NAMES = 4096
"""Keys that a scope ever had: a deleted one keeps its name."""
HISTORY = 100
"""Earlier revisions of a key that are kept."""
RECEIPTS = 4096
"""Of a scope, the newest ones."""
_TOMBSTONE = b"<tombstone>"


class Verdict(Enum):
    WRITE = auto()
    MOVED = auto()
    """The key is at another revision."""
    ABSENT = auto()
    """A delete of what is deleted."""
    NEVER = auto()
    """A write to a key that never existed, which expects that it does."""
    NO_NAME_LEFT = auto()
    NO_ROOM_LEFT = auto()


class Known(NamedTuple):
    """The head of a key. ``live`` is false for a deleted one."""

    revision: int
    live: bool


def decide(head: Known | None, expected_revision: int, *, delete: bool, names: int, live: int) -> Verdict:
    """``names`` and ``live`` are what the scope holds now."""
    if head is None:
        return _new(expected_revision, delete, names, live)
    if head.revision != expected_revision:
        return Verdict.MOVED
    if delete:
        return Verdict.WRITE if head.live else Verdict.ABSENT
    return Verdict.WRITE if head.live or live < MOST_LIVE else Verdict.NO_ROOM_LEFT


def _new(expected_revision: int, delete: bool, names: int, live: int) -> Verdict:
    if delete or expected_revision:
        return Verdict.NEVER
    if names >= MOST_NAMES:
        return Verdict.NO_NAME_LEFT
    return Verdict.WRITE if live < MOST_LIVE else Verdict.NO_ROOM_LEFT


def intent_hash(scope_id: str, key: str, expected_revision: int, value: bytes | None, state_stamp: str | None) -> str:
    """What a request means, apart from who sends it. ``value`` is canonical, None for a delete."""
    digest = hashlib.sha256()
    fields = (
        scope_id.encode(),
        key.encode(),
        str(expected_revision).encode(),
        _TOMBSTONE if value is None else value,
        (state_stamp or "").encode(),
    )
    for field in fields:
        digest.update(len(field).to_bytes(8, "big"))
        digest.update(field)
    return digest.hexdigest()
