"""Mailbox wakes in the prompt queue of a session: what `wake` and `coordination` ask of `state`."""

import msgspec

from termal.wire.mail_operations import Outcome
from termal.wire.operation import read, write
from termal.wire.turns import Anything


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that tells a session of mail: ``sequence`` is the newest message that it covers, ``text`` what the agent
    reads. Who wrote that message is ``sender_id`` and ``sender_name``."""

    mailbox_id: str
    message_id: str
    sequence: int
    unread_count: int
    sender_id: str
    sender_name: str
    text: str


class OfferWake(msgspec.Struct, frozen=True):
    session_id: str
    wake: Wake


class WakeOffered(msgspec.Struct, frozen=True):
    """What became of an offer, durably. ``reason`` says why nothing could be woken."""

    outcome: Outcome
    reason: str = ""


class RetractWakes(msgspec.Struct, frozen=True):
    """Queued wakes of ``mailbox_id`` up to the sequence ``through`` are acknowledged."""

    session_id: str
    mailbox_id: str
    through: int


class MaterializeWakes(msgspec.Struct, frozen=True):
    """Put each wake to the front of the queue, or in place of an older one of its mailbox; nothing starts.

    A session that has started a turn since the daemon did is left as it is: it may be at work on that mail."""

    session_id: str
    wakes: list[Wake]


class Materialized(msgspec.Struct, frozen=True):
    """``known``: the session is there, and the wakes are in its queue. ``started``: it is there, but has started a turn
    since the daemon did, and nothing was put in."""

    known: bool
    started: bool = False


class QueuedWakes(msgspec.Struct, frozen=True):
    """Every wake that waits in a queue, as (receiver, mailbox, sequence)."""

    wakes: list[tuple[str, str, int]]


QUEUE_OFFER = write("queue.offer", OfferWake, WakeOffered, repeatable=True)
"""A repeat is known by mailbox and sequence and answered like the first attempt."""
QUEUE_RETRACT = write("queue.retract", RetractWakes, Anything, repeatable=True)
QUEUE_MATERIALIZE = write("queue.materialize", MaterializeWakes, Materialized, repeatable=True)
QUEUE_WAKES = read("queue.wakes", Anything, QueuedWakes)
