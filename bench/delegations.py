"""Delegations: what a spawn takes, beside many finished ones too, and how soon a parent is resumed; nobody is lost."""

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import median, percentile, row
from bench.http1 import Connection
from tests.support.daemon import Daemon
from tests.support.delegating import Delegating, a_house, packet
from tests.support.lost_wakeups import one_round
from tests.support.waiting import wait_until

FINISHED = 1000
SPAWNS = int(os.environ.get("TERMAL_BENCH_SPAWNS", "60"))
FAN_INS = 200
ROUNDS = int(os.environ.get("TERMAL_BENCH_WAKEUPS", "25"))
"""Of 500, which take minutes, `tests.chaos.test_lost_wakeups` can be told as well."""
AGENT = Path(__file__).parents[1] / "tests" / "support" / "acp_agent.py"
SPAWN_MS = 40.0
RATIO = 1.1
RESUME_MS = (25.0, 100.0)


def finished_row(number: int, parent: str) -> tuple[str, str]:
    """A stored delegation that is over, as large as a usual one."""
    name = f"delegation-00000000-0000-4000-8000-{number:012d}"
    result = {"delegationId": name, "childSessionId": f"session-{9000 + number}", "status": "completed"}
    record = {
        "id": name,
        "parentSessionId": parent,
        "childSessionId": f"session-{9000 + number}",
        "mode": "explorer",
        "status": "completed",
        "title": f"Task {number}",
        "agent": "Demo",
        "model": "auto",
        "prompt": "x" * 600,
        "writePolicy": {"kind": "readOnly"},
        "policyEnforcement": "requested",
        "cwd": "/tmp",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "completedAt": "2026-01-01T00:01:00.000Z",
        "resultParserVersion": 5,
        "result": {**result, "summary": "Looked at it. " * 40},
    }
    return name, json.dumps(record)


class Spawner:
    """One daemon with a parent session; a spawn is timed, its end is not."""

    def __init__(self, daemon: Daemon) -> None:
        self._connection = Connection(daemon.url)
        folder = str(daemon.home.root)
        self.parent: str = self._post("/api/sessions", {"agent": "Demo", "workdir": folder})["sessionId"]

    def close(self) -> None:
        self._connection.close()

    def spawn_ms(self) -> float:
        path = f"/api/sessions/{self.parent}/delegations"
        began = time.perf_counter()
        made = self._post(path, {"prompt": "Look around.", "mode": "explorer", "agent": "quick"})
        took = (time.perf_counter() - began) * 1e3
        self._post(f"{path}/{made['delegation']['id']}/cancel", {})
        return took

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        status, answer = self._connection.request("POST", path, body)
        assert status in (200, 201), answer
        return json.loads(answer)


def with_agent(home: Path) -> None:
    """An agent whose start costs little and that works until it is stopped: the children are not what is measured."""
    home.mkdir(mode=0o700)
    script, log = home.with_suffix(".json"), home.with_suffix(".log")
    steps = [{"wait_for": "session/cancel"}, {"result": {"stopReason": "cancelled"}}]
    script.write_text(json.dumps({"log": str(log), "prompt": steps}))
    command = json.dumps([sys.executable, "-S", str(AGENT), str(script)])
    (home / "config.toml").write_text(f"[agents.quick]\ncommand = {command}\n")


def spawns() -> bool:
    with tempfile.TemporaryDirectory(prefix="tml-") as folder:
        for name in ("empty", "full"):
            with_agent(Path(folder) / name)
        empty = Daemon(Path(folder) / "empty", faults=False)
        full = Daemon(Path(folder) / "full", faults=False)
        with empty, full:
            full.start()
            parent = Spawner(full)
            full.stop()
            store(full, parent.parent)
            full.start()
            empty.start()
            alone, beside = Spawner(empty), Spawner(full)
            pairs = [(alone.spawn_ms(), beside.spawn_ms()) for _ in range(SPAWNS)][5:]
            for spawner in (parent, alone, beside):
                spawner.close()
    alone_ms, beside_ms = (median(times) for times in zip(*pairs, strict=True))
    ratio = beside_ms / alone_ms
    good = row(f"spawn to 201 beside {FINISHED}", f"p50 {beside_ms:.2f} ms", f"{SPAWN_MS:g} ms", beside_ms < SPAWN_MS)
    return good & row("against none", f"{ratio:.2f} x {alone_ms:.2f} ms", f"{RATIO} x", ratio <= RATIO)


def store(daemon: Daemon, parent: str) -> None:
    import apsw  # noqa: PLC0415 - only to fill a store behind a daemon that is not there

    connection = apsw.Connection(str(daemon.home.termal_db))
    rows = [finished_row(number, parent) for number in range(FINISHED)]
    with connection:
        connection.executemany("INSERT INTO delegations VALUES (?, ?)", rows)
    connection.close()


def fan_ins() -> bool:
    """From the end that the last child's worker reports to the prompt that the parent's worker is handed."""
    with a_house() as house:
        times = [fan_in_ms(house.work()) for _ in range(FAN_INS)]
    p50, p99 = median(times), percentile(times, 0.99)
    good = p50 < RESUME_MS[0] and p99 < RESUME_MS[1]
    limits = f"{RESUME_MS[0]:g} / {RESUME_MS[1]:g} ms"
    return row("last child's end to the parent's prompt", f"p50 {p50:.2f} p99 {p99:.2f} ms", limits, good)


def fan_in_ms(work: Delegating) -> float:
    first, last = work.spawn(), work.spawn()
    work.finish(first, packet())
    work.child_turn(last)
    work.wait_for(first, last)
    began = time.perf_counter()
    work.finish_now(work.child_turn(last))
    wait_until(lambda: work.turns_of(work.parent), "the parent to be resumed")
    return (time.perf_counter() - began) * 1e3


def wake_ups() -> bool:
    chance = random.Random(7)
    with a_house() as house, tempfile.TemporaryDirectory() as folder:
        kills = sum(one_round(house, Path(folder) / str(number), chance) for number in range(ROUNDS))
    return row(f"rounds of a wait, {kills} of them killed", "none lost, none twice", "all", kills > 0)


def main() -> bool:
    good = spawns()
    good &= fan_ins()
    return wake_ups() & good
