"""What the end of a turn does to its session."""

from typing import Literal, NamedTuple

from termal.model.session import SessionStatus
from termal.rules import wording
from termal.rules.closing import Cause

Ending = Literal["completed", "interrupted", "failed", "lost", "refused", "stopped"]


class Verdict(NamedTuple):
    """The new status; how open parts close; the closing text, if any; whether the queue's head may start next.

    ``drain``: ``head`` always, ``workflow`` only when a workflow prompt is what waits, ``no`` never.
    """

    status: SessionStatus
    close: Cause
    text: str | None
    drain: Literal["head", "workflow", "no"]


def end_of_turn(ending: Ending, agent: str, detail: str = "") -> Verdict:
    """``detail`` is a sentence of the agent or of its worker, empty when there is none."""
    if ending == "completed":
        return Verdict("idle", "ended", None, "head")
    if ending == "interrupted":
        return Verdict("idle", "ended", detail or None, "head")
    if ending == "stopped":
        return Verdict("idle", "cut", wording.STOPPED, "head")
    text = wording.FAILED_PREFIX + (detail or wording.exited(agent))
    if ending == "failed":
        return Verdict("error", "cut", text, "head")
    return Verdict("error", "cut", text, "workflow" if ending == "lost" else "no")


def is_busy(status: SessionStatus) -> bool:
    """A turn is under way. An ``error`` is not busy: the next prompt runs as from ``idle``."""
    return status in ("active", "approval")
