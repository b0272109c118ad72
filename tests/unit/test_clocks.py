"""The wall clock is for showing: nothing is ordered, awaited or expired by it, so that setting it back changes nothing.

Proven by construction: outside of the few modules that make a time to be shown, or compare times of files and
processes that other programs wrote, none reads it.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHOWN = {
    "supervisor/worker.py",
    "termal/gateway/census.py",
    "termal/log.py",
    "workers/coordination/board_clock.py",
    "workers/coordination/mail_clock.py",
    "workers/state/clock.py",
    "workers/state/departures.py",
}
"""Make a text or a figure for people; `clock.py` also takes up a deadline that was stored in an earlier life."""
COMPARED = {
    "termal/procs/meter.py",
    "termal/procs/shim.py",
    "workers/runtime/acp_load_times.py",
    "workers/runtime/workspaces.py",
}
"""The age of a process that others started; a mark that must only be unlike others; the minute in which an agent names
its own files; whether a file was written before or after a turn began."""
_WALL = {("time", "time"), ("time", "time_ns"), ("time", "localtime"), ("time", "gmtime"), ("datetime", "now")}
_WALL |= {("datetime", "utcnow"), ("datetime", "today"), ("date", "today")}
DAEMON = ("supervisor", "workers", "termal/bus", "termal/store", "termal/worker", "termal/rules", "termal/procs")


def readers(folder: str) -> set[str]:
    """Modules below ``folder`` in which the wall clock is read."""
    found = set()
    for file in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Attribute):
                continue
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if (name, node.attr) in _WALL:
                found.add(str(file.relative_to(ROOT)))
    return found


def test_no_module_of_the_daemon_reads_the_wall_clock_but_to_show_it() -> None:
    found = set().union(*(readers(folder) for folder in DAEMON), readers("termal/gateway"))
    assert found <= SHOWN | COMPARED, "time.monotonic is what deadlines, orders and intervals are made of"


def test_nobody_imports_a_wall_clock_under_another_name() -> None:
    for folder in (*DAEMON, "termal/gateway"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module == "time":
                    names = {alias.name for alias in node.names}
                    assert not names & {"time", "time_ns", "localtime", "gmtime"}, file.name
