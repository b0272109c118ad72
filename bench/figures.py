"""Medians and percentiles, and how a row of the result is printed."""

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


def row(what: str, figure: str, budget: str, good: bool) -> bool:
    print(f"  {'ok ' if good else 'OVER'}  {what:58s} {figure:>34s}   budget {budget}")
    return good
