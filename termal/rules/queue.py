"""Where a new prompt goes, and whether something starts. The order is FIFO; a source is no priority by itself."""

from collections.abc import Sequence
from typing import NamedTuple

from termal.model.stored import QueueSource


class Placement(NamedTuple):
    """``order``: indexes into the old queue, with ``len(queue)`` for the new prompt. ``start``: the first one leaves
    the queue and becomes a turn."""

    order: tuple[int, ...]
    start: bool


def place_prompt(queue: Sequence[QueueSource], *, busy: bool, blocked: bool) -> Placement:
    """A client's prompt meets ``queue``. ``blocked``: automatic dispatch is stopped until some turn starts."""
    new = len(queue)
    fifo = (*range(new), new)
    if busy:
        return Placement(fifo, start=False)
    if not queue:
        return Placement((new,), start=True)
    if not blocked:
        return Placement(fifo, start=True)
    if "user" in queue:
        users = [index for index in range(new) if queue[index] == "user"]
        others = [index for index in range(new) if queue[index] != "user"]
        return Placement((*users, new, *others), start=True)
    return Placement((new, *range(new)), start=True)


def drains(queue: Sequence[QueueSource], *, blocked: bool) -> bool:
    """After a turn that ended by itself or was stopped: the head starts."""
    return bool(queue) and not blocked


def drains_after_loss(queue: Sequence[QueueSource], *, blocked: bool) -> bool:
    """After the death of an agent or of its worker, and after a restart: a workflow prompt is an activation itself.

    A user prompt is a barrier; a wake ahead of the workflow prompt runs first.
    """
    if blocked:
        return False
    for source in queue:
        if source != "mailbox":
            return source == "orchestrator"
    return False
