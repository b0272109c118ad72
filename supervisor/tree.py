"""Which processes make up a daemon, in which order they start and stop, and how long each may take."""

import sys
from typing import Literal

import msgspec

from supervisor.policy import Rules

Role = Literal["core", "essential", "optional"]


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the tree. Times in seconds.

    ``restart``: a ``transient`` one starts when a worker asks for it, and not again after it ended well. ``role``:
    without a ``core`` one the daemon is down; a core or ``essential`` one that keeps failing ends the daemon.
    ``after``: what must have been ready once before this starts (an optional one may have failed instead). ``stage``:
    the highest stops first, those of one stage together. ``has_boot``: it reports when its part of the start of the
    daemon is done. ``spare``: a second interpreter of it is kept waiting. ``listens``: gets the TCP socket, and is
    stopped by SIGTERM because its main process reads no line.
    """

    name: str
    argv: list[str]
    restart: Literal["permanent", "transient"] = "permanent"
    role: Role = "optional"
    after: list[str] = []
    stage: int = 0
    ready_s: float = 30.0
    stop_s: float = 5.0
    has_boot: bool = False
    spare: bool = False
    listens: bool = False


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor's times, in seconds.

    Silence of a worker: ``late_s`` is shown, after ``abort_s`` it gets SIGABRT (which writes its stacks), ``kill_s``
    after that SIGKILL. ``give_up_s``: so long may a core or essential worker fail before the daemon ends.
    """

    late_s: float = 5.0
    abort_s: float = 10.0
    kill_s: float = 2.0
    longest_extension_s: float = 3600.0
    give_up_s: float = 300.0
    stop_s: float = 9.5
    report_s: float = 1.0
    orphan_grace_s: float = 0.5
    rules: Rules = Rules()


def production() -> list[Spec]:
    """The tree of a real daemon."""
    return [
        Spec(name="state", argv=_module("workers.state"), role="core", stage=0, has_boot=True, spare=True),
        Spec(
            name="coordination",
            argv=_module("workers.coordination"),
            role="core",
            after=["state"],
            stage=1,
            has_boot=True,
            spare=True,
        ),
        Spec(
            name="wake",
            argv=_module("workers.wake"),
            after=["state", "coordination"],
            stage=2,
            has_boot=True,
            spare=True,
        ),
        Spec(name="runtime-acp", argv=_module("workers.runtime", "acp"), restart="transient", stage=3),
        Spec(name="runtime-claude", argv=_module("workers.runtime", "claude"), restart="transient", stage=3),
        Spec(name="runtime-codex", argv=_module("workers.runtime", "codex"), restart="transient", stage=3),
        Spec(
            name="gateway",
            argv=_module("termal.gateway"),
            role="essential",
            after=["state", "coordination", "wake"],
            stage=4,
            stop_s=8.0,
            listens=True,
        ),
    ]


def _module(name: str, *arguments: str) -> list[str]:
    # -P: a folder named like one of ours in the current directory must not be imported instead.
    return [sys.executable, "-P", "-m", name, *arguments]
