"""Whether and when a dead worker is started again. Pure: what happened goes in, a verdict comes out."""

import msgspec

from termal.wire.control import EXIT_REFUSED, EXIT_USAGE

NEVER_AGAIN = frozenset({EXIT_USAGE, EXIT_REFUSED})
"""Exit statuses that another attempt cannot change."""
_JITTER_SHARE = 0.2


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of the policy, times in seconds.

    The first restart is immediate, then after ``first_s``, doubling to ``longest_s``; ``healthy_s`` of serving forgets
    all that was. More than ``most`` ends within ``window_s``, or ``most_missed`` starts in a row that ran into their
    limit: from then on one attempt each ``hold_s``, until one of them stays healthy.
    """

    first_s: float = 0.1
    longest_s: float = 5.0
    healthy_s: float = 60.0
    window_s: float = 30.0
    most: int = 5
    most_missed: int = 2
    hold_s: float = 30.0


class Ended(msgspec.Struct, frozen=True):
    """The end of one run. ``served_s``: seconds since it was READY, None when it never was. ``missed_start``: it was
    ended because it did not become READY in time."""

    code: int | None
    served_s: float | None = None
    missed_start: bool = False


class History(msgspec.Struct, frozen=True):
    """What a worker's runs since it was last healthy came to. ``ends``: monotonic times within the window."""

    ends: tuple[float, ...] = ()
    streak: int = 0
    missed: int = 0
    held: bool = False


class RestartNow(msgspec.Struct, frozen=True):
    pass


class RestartAt(msgspec.Struct, frozen=True):
    at: float


class Hold(msgspec.Struct, frozen=True):
    """It keeps failing: one attempt at ``until``."""

    until: float


class GiveUp(msgspec.Struct, frozen=True):
    code: int


Verdict = RestartNow | RestartAt | Hold | GiveUp


def remember(history: History, ended: Ended, now: float, rules: Rules) -> History:
    """The history with this end in it."""
    if ended.served_s is not None and ended.served_s >= rules.healthy_s:
        history = History()
    ends = (*(at for at in history.ends if now - at <= rules.window_s), now)
    missed = history.missed + 1 if ended.missed_start else 0
    held = history.held or len(ends) > rules.most or missed >= rules.most_missed
    return History(ends, history.streak + 1, missed, held)


def next_restart(history: History, ended: Ended, now: float, *, jitter: float, rules: Rules) -> Verdict:
    """The verdict on ``ended``, which ``history`` holds already. ``jitter``, -1 to 1, spreads the delays by a fifth."""
    if ended.code is not None and ended.code in NEVER_AGAIN:
        return GiveUp(ended.code)
    if history.held:
        return Hold(now + rules.hold_s)
    if history.streak <= 1:
        return RestartNow()
    # The exponent is bounded: the delay has long reached its limit, and 2.0**1100 would overflow.
    delay_s = min(rules.longest_s, rules.first_s * 2.0 ** min(history.streak - 2, 32))
    return RestartAt(now + delay_s * (1 + _JITTER_SHARE * jitter))
