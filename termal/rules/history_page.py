"""Which positions one history page holds: at most 64 messages by one of four selectors."""

from typing import NamedTuple

from termal.rules.verdicts import Bad, Stale

PAGE_MESSAGES = 64
RESIDENT_MESSAGES = 64
TAIL_MESSAGES = 20


class Span(NamedTuple):
    """Positions ``start``..``end`` (exclusive) of a transcript of ``total`` messages."""

    start: int
    end: int
    total: int

    @property
    def has_more(self) -> bool:
        """Older messages exist before this page; false for an empty page."""
        return self.start > 0 and self.end > self.start

    @property
    def has_newer(self) -> bool:
        return self.end < self.total and self.end > self.start


def check_selectors(*, before: str | None, after: str | None, around: int | None, from_start: bool, limit: int) -> None:
    """Raises `Bad` for what can never be answered."""
    if not 1 <= limit <= PAGE_MESSAGES:
        raise Bad(f"limit must be 1..{PAGE_MESSAGES}")
    if (before is not None) + (after is not None) + (around is not None) + from_start > 1:
        raise Bad("give at most one of before, after, around and from")
    for name, cursor in (("before", before), ("after", after)):
        if cursor is not None and not cursor.strip():
            raise Bad(f"{name} must be a message id")
    if around is not None and around < 0:
        raise Bad("around must be a position from 0")


def newest(count: int, limit: int) -> Span:
    return Span(max(0, count - limit), count, count)


def oldest(count: int, limit: int) -> Span:
    return Span(0, min(limit, count), count)


def before(position: int, count: int, limit: int) -> Span:
    return Span(max(0, position - limit), position, count)


def after(position: int, count: int, limit: int) -> Span:
    return Span(min(position + 1, count), min(count, position + 1 + limit), count)


def around(position: int, count: int, limit: int) -> Span:
    """Raises `Stale` for a position that the transcript does not have (any more)."""
    if count and position >= count:
        raise Stale(f"position {position} is past the end of {count} messages; read the overview again")
    start = max(0, position - limit // 2)
    end = min(count, start + limit)
    return Span(max(0, end - limit), end, count)


def check_tail(tail: int) -> None:
    if not 1 <= tail <= RESIDENT_MESSAGES:
        raise Bad(f"the session query 'tail' must be 1..{RESIDENT_MESSAGES}")
