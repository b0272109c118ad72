"""Sums of what turns took: tokens always, the cost where an agent tells it. Pure."""

from msgspec import UNSET, UnsetType

from termal.model.message import TurnUsage
from termal.model.session import SessionUsage


def counted(total: SessionUsage | UnsetType, turn: TurnUsage, *, first: bool) -> SessionUsage:
    """``total`` with ``turn`` in it; ``first``: the turn was not counted before."""
    before = SessionUsage(turns=0, input_tokens=0, output_tokens=0) if total is UNSET else total
    return SessionUsage(
        turns=before.turns + first,
        input_tokens=before.input_tokens + turn.input_tokens,
        output_tokens=before.output_tokens + turn.output_tokens,
        cost_usd=_sum(before.cost_usd, turn.cost_usd),
    )


def added(known: TurnUsage | UnsetType, more: TurnUsage) -> TurnUsage:
    """An agent may tell the usage of one turn in several pieces."""
    if known is UNSET:
        return more
    return TurnUsage(
        input_tokens=known.input_tokens + more.input_tokens,
        output_tokens=known.output_tokens + more.output_tokens,
        cost_usd=_sum(known.cost_usd, more.cost_usd),
    )


def _sum(one: float | UnsetType, other: float | UnsetType) -> float | UnsetType:
    if one is UNSET or other is UNSET:
        return other if one is UNSET else one
    return one + other
