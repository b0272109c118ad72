"""What a search answers, and the first and last line of an exported session."""

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from termal.model.message import Author, Record

EXPORT_FORMAT: Literal["termal-session"] = "termal-session"
EXPORT_VERSION = 1


class Range(Record, frozen=True):
    """Characters (Unicode code points) of a snippet's text, ``end`` not included."""

    start: int
    end: int


class Snippet(Record, frozen=True):
    """Plain text with white space collapsed; ``ranges`` are the words that were looked for."""

    text: str
    ranges: list[Range]


class Hit(Record, frozen=True):
    session_id: str
    session_name: str
    message_id: str
    position: int
    author: Author
    type: str
    snippet: Snippet
    timestamp: str | UnsetType = UNSET


class SearchResponse(Record, frozen=True):
    """Hits from the newest message to the oldest. ``complete`` is false while older messages are not indexed yet."""

    hits: list[Hit]
    complete: bool
    next_cursor: str | UnsetType = UNSET


class ExportHeader(Record, frozen=True, kw_only=True):
    """The first line. ``session`` has the keys of a session without what only its own daemon knows."""

    format: Literal["termal-session"] = EXPORT_FORMAT
    version: int = EXPORT_VERSION
    session: dict[str, Any]


class ExportFooter(Record, frozen=True, kw_only=True):
    """The last line. ``sha256`` is that of every byte before this line, in hexadecimal digits."""

    end: Literal[True] = True
    count: int
    sha256: str
