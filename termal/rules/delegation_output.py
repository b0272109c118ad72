"""Pages of a child's full output: sizes and offsets in UTF-8 bytes, never through the middle of a character."""

from typing import NamedTuple

from termal.rules.verdicts import Bad

DEFAULT_BYTES = 4096
LEAST_BYTES = 256
MOST_BYTES = 8192
_CONTINUED = 0x80
"""The top bits of a byte that is not the first one of its character."""


class Page(NamedTuple):
    """``next_offset`` is None on the last page."""

    text: str
    offset: int
    next_offset: int | None
    total: int

    @property
    def complete(self) -> bool:
        return self.next_offset is None


def checked_limit(limit_bytes: int) -> int:
    """Raises `Bad`."""
    if not LEAST_BYTES <= limit_bytes <= MOST_BYTES:
        raise Bad(f"limitBytes must be {LEAST_BYTES} to {MOST_BYTES}", reason="outputLimitOutOfRange")
    return limit_bytes


def page(output: str, offset: int, limit_bytes: int) -> Page:
    """The page at ``offset``, up to 3 bytes short of the limit. Raises `Bad` for an offset that is no boundary."""
    data = output.encode("utf-8", "surrogatepass")
    if not 0 <= offset <= len(data) or not is_boundary(data, offset):
        raise Bad("offsetBytes must be the start of a character in the output", reason="outputOffsetInvalid")
    end = boundary_before(data, offset + limit_bytes)
    text = data[offset:end].decode("utf-8", "surrogatepass")
    return Page(text, offset, None if end == len(data) else end, len(data))


def is_boundary(data: bytes, offset: int) -> bool:
    return offset >= len(data) or data[offset] & 0xC0 != _CONTINUED


def boundary_before(data: bytes, offset: int) -> int:
    """The last boundary at ``offset`` or before it."""
    offset = min(offset, len(data))
    while not is_boundary(data, offset):
        offset -= 1
    return offset


def boundary_after(data: bytes, offset: int) -> int:
    """The first boundary at ``offset`` or behind it."""
    while not is_boundary(data, offset):
        offset += 1
    return offset
