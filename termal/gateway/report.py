"""The supervisor's report as this process reads it, and what it says of the daemon as a whole. Decides nothing else."""

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from termal.home import Home
from termal.model.status import DaemonReport, DaemonState

ESSENTIAL = ("state", "coordination")
"""Without one of these the daemon is down: nothing can be read or written."""


class Verdict(NamedTuple):
    """``reason`` is a sentence, None when all is well."""

    state: DaemonState
    reason: str | None = None


_decode = msgspec.json.Decoder(DaemonReport).decode


def read_report(home: Home) -> DaemonReport | None:
    """None when there is none, or it cannot be read. The file is small and replaced whole."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return _decode(home.report.read_bytes())
    return None


def judge(report: DaemonReport | None, is_up: Callable[[str], bool]) -> Verdict:
    """``is_up`` tells whether this process has a link to a worker: it knows of a death before the report does."""
    states = {row.name: row.state for row in report.processes} if report is not None else {}
    for worker in ESSENTIAL:
        shown = states.get(worker, "ready")
        if shown != "ready" or not is_up(worker):
            return Verdict("down", f"{worker} is {shown if shown != 'ready' else 'away'}")
    if report is None:
        return Verdict("degraded", "the supervisor's report cannot be read")
    return Verdict(report.state, report.reason)
