"""How the open parts of a turn (requests, running commands) end when the turn does."""

from typing import Literal

from msgspec.structs import replace

from termal.model.message import Approval, Asked, Command, Decision, InteractionState, Message

Cause = Literal["ended", "cut", "restart"]
"""``ended``: the agent ended the turn; ``cut``: its process ended or a user stopped it; ``restart``: the daemon did."""

_DECISIONS: dict[Cause, Decision] = {"ended": "canceled", "cut": "rejected", "restart": "interrupted"}
_STATES: dict[Cause, InteractionState] = {"ended": "canceled", "cut": "canceled", "restart": "interrupted"}


def is_pending(message: Message) -> bool:
    """``message`` is a request that waits for a person."""
    if isinstance(message, Approval):
        return message.decision == "pending"
    return isinstance(message, Asked) and message.state == "pending"


def closed(message: Message, cause: Cause) -> Message | None:
    """``message`` as it stands after the turn, None when nothing of it was open."""
    if isinstance(message, Command):
        return replace(message, status="error") if message.status == "running" else None
    if not is_pending(message):
        return None
    if isinstance(message, Approval):
        return replace(message, decision=_DECISIONS[cause])
    assert isinstance(message, Asked)
    return replace(message, state=_STATES[cause])
