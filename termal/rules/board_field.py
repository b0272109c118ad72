"""What the keys, ids and texts of a board may look like, and how its author is named."""

import re

from termal.rules.verdicts import Bad

KEY_BYTES = 128
KEY_SEGMENTS = 8
TEXT_BYTES = 256
PAGE_ENTRIES = 100
MOST_PAGE_ENTRIES = 200
UNNAMED = "Unnamed session"

_KEY = re.compile(r"[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*)*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""All of Unicode's category Cc."""


def checked_key(key: str, what: str = "key") -> str:
    """Raises `Bad`."""
    if not 0 < len(key.encode()) <= KEY_BYTES:
        raise Bad(f"{what} has 1 to {KEY_BYTES} bytes", reason="boardKey")
    if _KEY.fullmatch(key) is None:
        raise Bad(
            f"{what} is segments joined by dots, each a-z or 0-9 first and a-z, 0-9, _ and - after it",
            reason="boardKey",
        )
    if key.count(".") >= KEY_SEGMENTS:
        raise Bad(f"{what} has at most {KEY_SEGMENTS} segments", reason="boardKey")
    return key


def checked_text(text: str, what: str) -> str:
    """A text of a request or an id, taken as it is. Raises `Bad` for a blank, long or unprintable one."""
    if not text.strip():
        raise Bad(f"{what} must not be blank", reason="boardText")
    if len(text.encode()) > TEXT_BYTES:
        raise Bad(f"{what} has at most {TEXT_BYTES} bytes", reason="boardText")
    if _CONTROL.search(text):
        raise Bad(f"{what} must not have control characters", reason="boardText")
    return text


def author_name(name: str) -> str:
    """The name of a session as an entry keeps it: one line of at most 256 bytes, never empty."""
    flat = _CONTROL.sub(" ", name.strip())
    cut = flat.encode()[:TEXT_BYTES].decode(errors="ignore").strip()
    return cut or UNNAMED


def check_page(
    after_key: str | None, limit: int, snapshot_generation: int | None, known_generation: int | None
) -> None:
    """Raises `Bad` for a page that nobody may ask for."""
    if after_key is not None:
        checked_key(after_key, "afterKey")
        if snapshot_generation is None:
            raise Bad("afterKey goes with snapshotGeneration, the generation of the first page", reason="boardPage")
        if known_generation is not None:
            raise Bad("knownGeneration is for the first page, without afterKey", reason="boardPage")
    if not 1 <= limit <= MOST_PAGE_ENTRIES:
        raise Bad(f"limit must be a number from 1 to {MOST_PAGE_ENTRIES}", reason="boardPage")
