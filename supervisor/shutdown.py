"""The order in which a daemon ends: stage by stage, each within its time, all of it before one deadline."""

from collections.abc import Sequence

from supervisor.worker import Worker
from termal.log import Log

_RESERVE_S = 0.5
"""What a slow stage must leave to each stage after it: a database is closed in less."""


class Shutdown:
    """Call `advance` until it says that nobody is left. ``deadline`` in monotonic seconds."""

    def __init__(self, workers: Sequence[Worker], log: Log, deadline: float) -> None:
        self._log = log
        self._deadline = deadline
        stages = sorted({worker.spec.stage for worker in workers}, reverse=True)
        self._stages = [[worker for worker in workers if worker.spec.stage == stage] for stage in stages]
        self._stage_until: float | None = None
        self._killed = False

    def advance(self, now: float) -> float | None:
        """Take the next step; when to call again at the latest, None when all have ended."""
        while self._stages:
            stage = self._stages[0]
            if self._stage_until is None:
                self._stage_until = self._begin(stage, now)
            waiting = [worker for worker in stage if not worker.gone]
            if waiting and now < self._stage_until:
                return self._stage_until
            if waiting and not self._killed:
                self._kill(waiting)
            if waiting:
                return now + _RESERVE_S
            self._stages.pop(0)
            self._stage_until = None
        return None

    def kill_all(self) -> None:
        """The operator will not wait."""
        for stage in self._stages:
            for worker in stage:
                worker.kill()

    def _begin(self, stage: Sequence[Worker], now: float) -> float:
        self._killed = False
        later = len(self._stages) - 1
        longest_s = max(worker.spec.stop_s for worker in stage)
        until = max(now, min(now + longest_s, self._deadline - later * _RESERVE_S))
        for worker in stage:
            worker.stop(until)
        return until

    def _kill(self, waiting: Sequence[Worker]) -> None:
        self._killed = True
        for worker in waiting:
            self._log.warning("worker.stop_overdue", worker=worker.name, child=worker.pid)
            worker.kill()
