"""Latencies and counts of operations: a fixed-size ring for the percentiles of the last minute, totals by outcome."""

import time
from collections import deque

from termal.wire.facts import OperationCount

_WINDOW_S = 60.0
_SAMPLES = 2048


class Stats:
    """Figures of one worker, written and read by its loop's thread alone."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, float]] = deque(maxlen=_SAMPLES)
        self.counts: dict[tuple[str, str], int] = {}
        self.seconds: dict[str, float] = {}

    def record(self, op: str, outcome: str, elapsed_s: float) -> None:
        """``outcome`` is ``ok`` or an error code."""
        self._recent.append((time.monotonic(), elapsed_s))
        key = (op, outcome)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.seconds[op] = self.seconds.get(op, 0.0) + elapsed_s

    def operations(self) -> list[OperationCount]:
        return [OperationCount(op, outcome, count) for (op, outcome), count in self.counts.items()]

    def percentiles_ms(self) -> tuple[float, float]:
        """p50 and p99 in milliseconds, zero without operations in the last minute."""
        edge = time.monotonic() - _WINDOW_S
        values = sorted(elapsed for at, elapsed in self._recent if at >= edge)
        if not values:
            return 0.0, 0.0
        last = len(values) - 1
        return round(values[last // 2] * 1e3, 3), round(values[int(last * 0.99)] * 1e3, 3)
