"""Named points where a test may kill this process. Without ``TERMAL_FAULTS`` a point costs one check of a constant.

``TERMAL_FAULTS`` names a directory. A point fires when a file of its name is there: whoever removes the file first
acts as its content says (``kill``: SIGKILL to this process; ``hold``: wait until the file ``NAME.go`` appears;
``raise``: an error that nobody foresaw; ``kill N``, ``hold N``: the N-th time that the point is passed).
"""

import os
import time
from pathlib import Path

_DIRECTORY = os.environ.get("TERMAL_FAULTS")
_SIGKILL = 9
_POLL_S = 0.002
_HOLD_LIMIT_S = 30.0


def fault(point: str) -> None:
    """Do what a test asked for at ``point``; nothing in every other case."""
    if _DIRECTORY is not None:
        _fire(Path(_DIRECTORY), point)


def _fire(directory: Path, point: str) -> None:
    file = directory / point
    if not file.exists():
        # Passing a point takes no descriptor: tests of a process without any are armed too.
        return
    try:
        action = file.read_text("utf-8").split()
    except FileNotFoundError:
        return
    if len(action) == 2 and int(action[1]) > 1:
        file.write_text(f"{action[0]} {int(action[1]) - 1}", "utf-8")
        return
    try:
        file.unlink()
    except FileNotFoundError:
        return
    if action[:1] == ["kill"]:
        os.kill(os.getpid(), _SIGKILL)
    elif action[:1] == ["raise"]:
        raise RuntimeError(f"a test wanted a fault at {point}")
    elif action[:1] == ["hold"]:
        (directory / f"{point}.held").touch()
        gate, limit = directory / f"{point}.go", time.monotonic() + _HOLD_LIMIT_S
        while not gate.exists() and time.monotonic() < limit:
            time.sleep(_POLL_S)
