"""Counts and latencies of HTTP requests and bus operations of this process: plain numbers until somebody reads them."""

from bisect import bisect_left
from typing import NamedTuple

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)


class Histogram:
    """``counts[i]`` are the values up to ``BOUNDS_S[i]``, the last one those above all bounds; not cumulative."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    def copy(self) -> "Histogram":
        twin = Histogram()
        twin.counts, twin.total_s = list(self.counts), self.total_s
        return twin


class Meters:
    """Read and written by the loop's thread alone. Routes are templates, so the number of keys is bounded."""

    def __init__(self) -> None:
        self.open_requests = 0
        self.begun = 0
        """Requests that came so far."""
        self.requests: dict[tuple[str, str, int], int] = {}
        self.request_seconds: dict[str, Histogram] = {}
        self.operation_seconds: dict[tuple[str, str], Histogram] = {}

    def request(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """``seconds`` is None for an event stream, whose length says nothing of the daemon."""
        key = (method, route, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        if seconds is not None:
            histogram = self.request_seconds.get(route)
            if histogram is None:
                histogram = self.request_seconds[route] = Histogram()
            histogram.observe(seconds)

    def operation(self, name: str, outcome: str, seconds: float) -> None:
        """``outcome`` is ``ok`` or an error code."""
        histogram = self.operation_seconds.get((name, outcome))
        if histogram is None:
            histogram = self.operation_seconds[name, outcome] = Histogram()
        histogram.observe(seconds)

    def sample(self, *, streams: int, lagged: int) -> "Sample":
        """A copy that another thread may read."""
        return Sample(
            self.open_requests,
            streams,
            lagged,
            dict(self.requests),
            {key: histogram.copy() for key, histogram in self.request_seconds.items()},
            {key: histogram.copy() for key, histogram in self.operation_seconds.items()},
        )


class Sample(NamedTuple):
    """The meters at one moment, with the number of open event streams and how often one fell behind."""

    open_requests: int
    streams: int
    lagged: int
    requests: dict[tuple[str, str, int], int]
    request_seconds: dict[str, Histogram]
    operation_seconds: dict[tuple[str, str], Histogram]
