"""CPU, memory, descriptors and threads of processes, from psutil alone. Nothing is estimated, and no call waits."""

import contextlib
import time
from collections.abc import Iterable
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """``cpu_percent``: of one core, since this meter's last look at the process; at the first look over its whole life.

    ``uss_bytes`` is what would be freed if it ended; None where the system does not say.
    """

    cpu_percent: float
    rss_bytes: int
    uss_bytes: int | None
    fds: int
    threads: int


class TreeUsage(NamedTuple):
    """A process with everything below it. ``rss_bytes`` counts shared pages once for each process."""

    processes: int
    cpu_percent: float
    rss_bytes: int


class Meter:
    """Remembers the last look at each process. One per reader; forgets processes that were not asked for again."""

    def __init__(self) -> None:
        self._samples: dict[tuple[int, float], tuple[float, float]] = {}

    def usage(self, pids: Iterable[int]) -> dict[int, Usage]:
        """The figures of those that are alive."""
        found: dict[int, Usage] = {}
        kept: dict[tuple[int, float], tuple[float, float]] = {}
        for pid in pids:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                with process.oneshot():
                    found[pid] = self._look(process, kept)
        self._samples = kept
        return found

    def tree_usage(self, pids: Iterable[int]) -> dict[int, TreeUsage]:
        """The figures of each of ``pids`` together with everything below it."""
        trees: dict[int, TreeUsage] = {}
        kept: dict[tuple[int, float], tuple[float, float]] = {}
        for pid in pids:
            with contextlib.suppress(psutil.Error):
                root = psutil.Process(pid)
                trees[pid] = self._look_at_tree([root, *root.children(recursive=True)], kept)
        self._samples = kept
        return trees

    def _look_at_tree(
        self, processes: list[psutil.Process], kept: dict[tuple[int, float], tuple[float, float]]
    ) -> TreeUsage:
        count, cpu, rss = 0, 0.0, 0
        for process in processes:
            with contextlib.suppress(psutil.Error), process.oneshot():
                cpu += self._cpu_percent(process, kept)
                rss += process.memory_info().rss
                count += 1
        return TreeUsage(count, round(cpu, 1), rss)

    def _look(self, process: psutil.Process, kept: dict[tuple[int, float], tuple[float, float]]) -> Usage:
        cpu = self._cpu_percent(process, kept)
        memory = process.memory_info()
        return Usage(round(cpu, 1), memory.rss, _uss(process), _fds(process), process.num_threads())

    def _cpu_percent(self, process: psutil.Process, kept: dict[tuple[int, float], tuple[float, float]]) -> float:
        times = process.cpu_times()
        spent, now, key = times.user + times.system, time.monotonic(), (process.pid, process.create_time())
        before = self._samples.get(key)
        kept[key] = (now, spent)
        if before is None:
            # Over its whole life, which only the wall clock knows; one that was set back since knows nothing.
            age_s = time.time() - key[1]
            return spent / age_s * 100 if age_s > 0 else 0.0
        return max(0.0, spent - before[1]) / max(now - before[0], 0.01) * 100


def _uss(process: psutil.Process) -> int | None:
    try:
        uss: int | None = process.memory_full_info().uss
    except (psutil.Error, OSError, AttributeError):
        return None
    return uss


def _fds(process: psutil.Process) -> int:
    try:
        return process.num_fds()
    except psutil.Error:
        return 0
