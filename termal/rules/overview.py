"""One byte per message of a transcript: its kind and whether a user wrote it. Kept beside the rows for a whole map."""

from termal.model.message import (
    Approval,
    Asked,
    Command,
    Diff,
    FileChanges,
    Message,
    ParallelAgents,
)

TEXT = 0
COMMAND = 1
DIFF = 2
ERROR = 3
USER_BIT = 4
_FAILED_DECISIONS = frozenset({"interrupted", "canceled", "rejected"})
_FAILED_STATES = frozenset({"interrupted", "canceled"})


class BadOverview(ValueError):
    """A stored map that has a hole, or another length than its transcript."""


def kind_of(message: Message) -> int:
    """`TEXT`, `COMMAND`, `DIFF` or `ERROR`."""
    if _failed(message):
        return ERROR
    if isinstance(message, Command):
        return COMMAND
    return DIFF if isinstance(message, Diff | FileChanges) else TEXT


def byte_of(message: Message) -> int:
    return kind_of(message) | (USER_BIT if message.author == "you" else 0)


def spliced(stored: bytes, changes: dict[int, int], count: int) -> bytes:
    """``stored`` with ``changes`` (position -> byte) put in and appended, of length ``count``.

    Raises `BadOverview` when the result would have a hole or another length.
    """
    out = bytearray(stored)
    for position in sorted(changes):
        if position > len(out):
            raise BadOverview(f"the overview ends at {len(out)}, before position {position}")
        if position == len(out):
            out.append(changes[position])
        else:
            out[position] = changes[position]
    if len(out) != count:
        raise BadOverview(f"an overview of {len(out)} bytes for {count} messages")
    return bytes(out)


def _failed(message: Message) -> bool:
    if isinstance(message, Command):
        return message.status == "error"
    if isinstance(message, ParallelAgents):
        return any(agent.status == "error" for agent in message.agents)
    if isinstance(message, Approval):
        return message.decision in _FAILED_DECISIONS
    if isinstance(message, Asked):
        return message.state in _FAILED_STATES
    return False
