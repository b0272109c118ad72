"""A whole transcript drawn in few buckets: how many messages each holds, what kind prevails, where markers start.

Works on the map of one byte per message, never on messages.
"""

from collections.abc import Sequence
from itertools import pairwise, repeat
from operator import add, sub

from msgspec import UNSET

from termal.model.marker import Marker
from termal.model.overview import Bucket, MarkerPlace
from termal.rules.overview import COMMAND, DIFF, ERROR, TEXT, USER_BIT, BadOverview
from termal.rules.verdicts import Bad

BUCKETS = 200
MOST_BUCKETS = 512
_KNOWN = bytes(range(USER_BIT * 2))
_ASCENDING = ((TEXT, "text"), (DIFF, "diff"), (COMMAND, "command"), (ERROR, "error"))
"""By severity: of equally many kinds the last one prevails."""


def check_buckets(buckets: int) -> None:
    """Raises `Bad`."""
    if not 1 <= buckets <= MOST_BUCKETS:
        raise Bad(f"buckets must be 1..{MOST_BUCKETS}")


def check_map(overview: bytes) -> None:
    """Raises `BadOverview` for a byte that stands for no kind of message."""
    if overview.translate(None, _KNOWN):
        at = next(position for position, byte in enumerate(overview) if byte not in _KNOWN)
        raise BadOverview(f"the overview says {overview[at]:#04x} of position {at}")


def bucketed(overview: bytes, buckets: int, markers: Sequence[MarkerPlace]) -> list[Bucket]:
    """At most ``buckets`` buckets, one per message at most; an empty transcript has one that is empty.

    PERF: all buckets at once, one kind after the other: 20 times faster than message by message.
    """
    total = len(overview)
    if not total:
        return [Bucket(c=0, k="text", u=0, m=bool(markers))]
    number = min(buckets, total)
    edges = [(at * total + number - 1) // number for at in range(number + 1)]
    parts = [overview[start:end] for start, end in pairwise(edges)]
    sizes = list(map(len, parts))
    counts = _counts(overview, parts, sizes)
    users = _sum([found for byte, found in counts.items() if byte & USER_BIT]) or [0] * number
    kinds = [
        (severity, _sum([found for byte, found in counts.items() if byte & ~USER_BIT == kind]))
        for severity, (kind, _) in enumerate(_ASCENDING)
    ]
    # One number for count and severity: the largest is of the most frequent kind, the most severe one at a tie.
    scores = [[count << 2 | severity for count in found] for severity, found in kinds if found]
    best = list(map(max, *scores)) if len(scores) > 1 else scores[0]
    marked = {place.position * number // total for place in markers}
    return [
        Bucket(c=size, k=_ASCENDING[score & 3][1], u=by_users, m=at in marked)
        for at, size, score, by_users in zip(range(number), sizes, best, users, strict=True)
    ]


def _counts(overview: bytes, parts: list[bytes], sizes: list[int]) -> dict[int, list[int]]:
    """How often each byte that occurs is in each part; the last one is what the others leave."""
    *others, last = [byte for byte in _KNOWN if byte in overview]
    counts = {byte: list(map(bytes.count, parts, repeat(byte))) for byte in others}
    rest = sizes
    for found in counts.values():
        rest = list(map(sub, rest, found))
    counts[last] = rest
    return counts


def _sum(columns: list[list[int]]) -> list[int]:
    """Row by row; empty without a column."""
    total: list[int] = []
    for column in columns:
        total = list(map(add, total, column)) if total else column
    return total


def places(markers: Sequence[Marker], total: int) -> list[MarkerPlace]:
    """Where each marker starts, inside a transcript of ``total`` messages."""
    return [
        MarkerPlace(
            position=max(0, min(marker.message_index_hint, total - 1)),
            kind=marker.kind,
            label=marker.name if marker.name.strip() else UNSET,
        )
        for marker in markers
    ]
