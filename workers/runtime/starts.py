"""Agents that end right after their start: counted until one start succeeds, and when the next one may be. Starts none.

After each such end the next start waits, longer every time; after several in a row the agent is parked until a person
or a new configuration says otherwise: for every session, or, as long as it ended in one alone, for that one. Agents
that run are not concerned.
"""

import time
from collections.abc import Callable

import msgspec

FIRST_WAIT_S = 0.5
"""Doubled with each further one."""
MOST_EXITS = 5
"""In a row: enough for a file that somebody else holds for a moment, few enough to end soon."""


class Trouble(msgspec.Struct, frozen=True):
    """Times are those of the monotonic clock: when the last start ended, and before when there is no other. ``only``:
    the one session whose starts ended, empty when there were several."""

    exits: int
    parked: bool
    at_s: float
    until_s: float
    text: str
    only: str


class Starts:
    """Of one worker. ``on_changed`` is called after each change of what `troubles` says."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.on_changed: list[Callable[[], None]] = []
        self._troubles: dict[str, Trouble] = {}

    @property
    def troubles(self) -> dict[str, Trouble]:
        """By agent. A pause that is over stays here until a start succeeds."""
        return self._troubles

    def why_not(self, agent: str, session_id: str) -> str | None:
        """A sentence when ``agent`` must not be started for ``session_id`` now."""
        trouble = self._troubles.get(agent)
        if trouble is None:
            return None
        parked = trouble.parked and trouble.only in ("", session_id)
        return trouble.text if parked or self.now() < trouble.until_s else None

    def exited(self, agent: str, session_id: str, reason: str, *, began_s: float) -> str:
        """A start that began at ``began_s`` ended at once; ``reason`` says how. What to tell whoever wanted it."""
        before = self._troubles.get(agent)
        only = session_id if before is None or before.only == session_id else ""
        if before is None or began_s >= before.at_s:
            exits, at_s = 1 if before is None else before.exits + 1, self.now()
            until_s = at_s + FIRST_WAIT_S * 2.0 ** (min(exits, MOST_EXITS) - 1)
        elif only == before.only:
            return reason
        else:
            # Begun before the last one ended: the same attempt of several sessions.
            exits, at_s, until_s = before.exits, before.at_s, before.until_s
        parked = exits >= MOST_EXITS
        text = _text(agent, reason, exits, parked=parked, only=only)
        self._troubles[agent] = Trouble(exits, parked, at_s, until_s, text, only)
        self._changed()
        return text if parked else reason

    def came_up(self, agent: str) -> None:
        self.forgive(agent)

    def forgive(self, agent: str) -> None:
        """It may be started again, as if nothing had happened."""
        if self._troubles.pop(agent, None) is not None:
            self._changed()

    def forgive_all(self) -> None:
        if self._troubles:
            self._troubles.clear()
            self._changed()

    def _changed(self) -> None:
        for hook in self.on_changed:
            hook()


def _text(agent: str, reason: str, exits: int, *, parked: bool, only: str) -> str:
    if not parked:
        return f"{reason.rstrip('.')}. {agent} is started again after a pause."
    where = f" in {only}, the only session concerned" if only else ""
    return (
        f"{reason.rstrip('.')}. So did the {exits} last starts, and {agent} is not started any more{where}: "
        f"mend it, then `termal agents --retry {agent}`."
    )
