"""Where a wake goes in its receiver's queue, and whether something starts. Values in, verdict out."""

from collections.abc import Sequence
from typing import NamedTuple

from termal.model.stored import QueueSource


class WakePlacement(NamedTuple):
    """``order``: indexes into the old queue, with ``len(queue)`` for a wake that was not in it. ``start``: the first
    one leaves the queue and becomes a turn."""

    order: tuple[int, ...]
    start: bool


def place_wake(queue: Sequence[QueueSource], held: int | None, *, busy: bool, blocked: bool) -> WakePlacement:
    """``held``: the place of the wake that the queue has for the same mailbox; it keeps its place and is refreshed.

    A blocked queue starts only for a user prompt, which then goes first: a wake alone does not lift the block, but an
    empty queue has nothing that it could overtake.
    """
    new = len(queue)
    order = tuple(range(new)) if held is not None else (*range(new), new)
    if busy:
        return WakePlacement(order, start=False)
    if not blocked or not queue:
        return WakePlacement(order, start=True)
    users = [index for index in range(new) if queue[index] == "user"]
    if not users:
        return WakePlacement(order, start=False)
    others = [index for index in order if index not in users]
    return WakePlacement((*users, *others), start=True)
