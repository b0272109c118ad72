"""Where a wake goes in its receiver's queue, and whether something starts. Values in, verdict out."""

from collections.abc import Sequence

from termal.model.stored import QueueSource
from termal.rules.queue import Placement


def place_wake(queue: Sequence[QueueSource], held: int | None, *, busy: bool, blocked: bool) -> Placement:
    """``held``: the place of the wake that the queue has for the same mailbox; it keeps its place and is refreshed, and
    the index ``len(queue)`` does not come up.

    A blocked queue starts only for a user prompt, which then goes first: a wake alone does not lift the block, but an
    empty queue has nothing that it could overtake.
    """
    new = len(queue)
    order = tuple(range(new)) if held is not None else (*range(new), new)
    if busy:
        return Placement(order, start=False)
    if not blocked or not queue:
        return Placement(order, start=True)
    users = [index for index in range(new) if queue[index] == "user"]
    if not users:
        return Placement(order, start=False)
    others = [index for index in order if index not in users]
    return Placement((*users, *others), start=True)
