"""What the runtime workers said of agents that end right after their start. In memory alone; decides nothing else."""

from collections.abc import Callable, Collection
from time import monotonic

from msgspec.structs import replace

from termal.bus.loop import Loop
from termal.procs.agents import Readiness
from termal.wire.agent_operations import AgentTrouble


class Troubles:
    """``on_over`` is called when an agent may be started again: its pause is over, or its trouble is."""

    def __init__(self, loop: Loop) -> None:
        self.on_over: list[Callable[[], None]] = []
        self._loop = loop
        self._known: dict[str, dict[str, AgentTrouble]] = {}

    def told(self, worker: str, troubles: list[AgentTrouble]) -> None:
        """All that ``worker`` knows now."""
        before = self._known.pop(worker, {})
        now = {trouble.agent: trouble for trouble in troubles}
        if now:
            self._known[worker] = now
        for trouble in troubles:
            if (trouble.only or not trouble.parked) and trouble != before.get(trouble.agent):
                self._loop.later(max(0.0, trouble.until_s - monotonic()), self._over)
        if not before.keys() <= now.keys():
            self._over()

    def has(self, worker: str) -> bool:
        return worker in self._known

    def forget(self, worker: str) -> None:
        """It has ended, and its next life begins without any."""
        if worker in self._known:
            self.told(worker, [])

    def keep(self, workers: Collection[str]) -> None:
        """Only these are there."""
        for worker in [worker for worker in self._known if worker not in workers]:
            self.forget(worker)

    def forgive(self, worker: str, agent: str) -> None:
        """``worker`` may start ``agent`` again."""
        self.told(worker, [known for known in self._known.get(worker, {}).values() if known.agent != agent])

    def why_not(self, agent: str, session_id: str) -> str | None:
        """A sentence when a turn of ``session_id`` would have to start ``agent``, and it must not be started now."""
        trouble = self._of(agent)
        if trouble is None or session_id in trouble.alive:
            return None
        parked = trouble.parked and trouble.only in ("", session_id)
        return trouble.text if parked or monotonic() < trouble.until_s else None

    def shown(self, row: Readiness) -> Readiness:
        """``row`` with what is wrong with its agent."""
        trouble = self._of(row.agent)
        if trouble is None:
            return row
        return replace(row, status="needsSetup", detail=trouble.text)

    def _of(self, agent: str) -> AgentTrouble | None:
        for known in self._known.values():
            if agent in known:
                return known[agent]
        return None

    def _over(self) -> None:
        for hook in self.on_over:
            hook()
