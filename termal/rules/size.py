"""How large a message may grow, and how much of a transcript one reply carries; beyond it is split or shortened."""

from collections.abc import Sequence
from typing import Literal

MESSAGE_BYTES = 512 << 10
"""A streamed message beyond this goes on in a new one: each piece makes it be written anew."""
OUTPUT_CHARACTERS = 512 << 10
KEPT_CHARACTERS = 128 << 10
"""Output beyond its limit keeps this much of its start and of its end."""
REPLY_BYTES = 24 << 20
"""Messages in one reply, so that it fits into one message between processes. One message always fits."""


def shortened(output: str) -> str:
    """``output`` without its middle when it is too long."""
    if len(output) <= OUTPUT_CHARACTERS:
        return output
    left_out = len(output) - 2 * KEPT_CHARACTERS
    return f"{output[:KEPT_CHARACTERS]}\n[... {left_out} characters left out ...]\n{output[-KEPT_CHARACTERS:]}"


def fitting(sizes_bytes: Sequence[int], keep: Literal["start", "end"]) -> slice:
    """The part of a page that one reply carries, taken from the side to ``keep``; one message at least."""
    total = 0
    ordered = sizes_bytes if keep == "start" else list(reversed(sizes_bytes))
    for number, size_bytes in enumerate(ordered):
        total += size_bytes
        if number and total > REPLY_BYTES:
            return slice(0, number) if keep == "start" else slice(len(sizes_bytes) - number, len(sizes_bytes))
    return slice(0, len(sizes_bytes))
