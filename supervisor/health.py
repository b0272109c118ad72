"""Judgements about one worker's silence and about the daemon as a whole. Pure."""

from collections.abc import Sequence
from typing import Literal

from supervisor.tree import Limits, Role
from termal.model.status import DaemonState, ProcessReport

Silence = Literal["fine", "late", "abort"]
_WELL = frozenset({"ready", "stopped"})


def judge_silence(silent_s: float, limits: Limits) -> Silence:
    """What ``silent_s`` seconds without a word from a worker mean."""
    if silent_s >= limits.abort_s:
        return "abort"
    return "late" if silent_s >= limits.late_s else "fine"


def judge_daemon(
    processes: Sequence[ProcessReport], roles: dict[str, Role], *, serving: bool
) -> tuple[DaemonState, str | None]:
    """The daemon's health and, where it is not ``ok``, one line that says why. ``serving``: the start is over."""
    wrong = [process for process in processes if process.state not in _WELL]
    core = [process for process in processes if roles.get(process.name) == "core" and process.state != "ready"]
    if core:
        return "down", _sentence(core)
    if not serving:
        return "down", f"starting: {_sentence(wrong)}" if wrong else "starting"
    return ("degraded", _sentence(wrong)) if wrong else ("ok", None)


def _sentence(processes: Sequence[ProcessReport]) -> str:
    return "; ".join(f"{row.name} is {row.state}" + (f" ({row.detail})" if row.detail else "") for row in processes)
