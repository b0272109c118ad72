"""Reads Linux's /proc. Every answer may be empty: a process can be gone between two reads, or be another user's."""

import os
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Stat(NamedTuple):
    """``started_s`` in seconds since the machine's boot: with the pid, who it is."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started_s: float


def stat(pid: int) -> Stat | None:
    text = _read(pid, "stat")
    if not text:
        return None
    # The name in the middle may hold anything, also spaces and parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    parent, group, session = int(fields[1]), int(fields[2]), int(fields[3])
    return Stat(pid, fields[0].decode(), parent, group, session, int(fields[19]) / _TICKS_PER_S)


def environment_value(pid: int, name: str) -> str | None:
    """What ``name`` was in the environment that ``pid`` was started with."""
    head = os.fsencode(name) + b"="
    for entry in _read(pid, "environ").split(b"\0"):
        if entry.startswith(head):
            return os.fsdecode(entry[len(head) :])
    return None


def pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]  # noqa: PTH208 - names are wanted, not paths


def owner(pid: int) -> int | None:
    try:
        return (_PROC / str(pid)).stat().st_uid
    except OSError:
        return None


def children(pid: int) -> list[int]:
    """Direct children, dead ones that nobody waited for included."""
    try:
        tasks = os.listdir(_PROC / str(pid) / "task")  # noqa: PTH208 - names are wanted, not paths
        return [int(child) for task in tasks for child in (_task(pid, task) / "children").read_bytes().split()]
    except FileNotFoundError:
        return _children_by_scan(pid)
    except OSError:
        return []


def boot_time_s() -> float:
    """When the machine was started, in seconds since the epoch; moves when the clock is set."""
    for line in (_PROC / "stat").read_bytes().splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return 0.0


def _task(pid: int, task: str) -> Path:
    return _PROC / str(pid) / "task" / task


def _children_by_scan(pid: int) -> list[int]:
    # A kernel without the list of children, or a task that ended while we looked.
    found = (stat(other) for other in pids())
    return [row.pid for row in found if row is not None and row.parent == pid]


def _read(pid: int, file: str) -> bytes:
    try:
        return (_PROC / str(pid) / file).read_bytes()
    except OSError:
        return b""
