"""Many sessions of a real agent at once, and the death of the whole daemon under them."""

from pathlib import Path

import psutil
import pytest

from tests.agents.kit import Scene, require
from tests.agents.recorder import AGENT_LIMIT_S
from tests.agents.scenario import sent
from tests.support.daemon import Daemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.agents, pytest.mark.system, pytest.mark.timeout(240)]

CROWD = 8
RESIDENT_MB = 500
"""Each of them; they have about 250 after a turn."""


def agents_below(daemon: Daemon) -> list[psutil.Process]:
    if daemon.row("runtime-claude") is None:
        return []
    return [child for shim in psutil.Process(daemon.pid_of("runtime-claude")).children() for child in shim.children()]


def test_eight_sessions_work_at_once_and_survive_the_death_of_everything(scene: Scene, run_dir: Path) -> None:
    require("Claude")
    scene.model.play(
        [
            {"match": "again$", "turns": [[{"text": "I remember"}]]},
            *(
                {"match": f"color {number}$", "turns": [[{"gate": "go"}, {"text": f"noted {number}"}]]}
                for number in range(CROWD)
            ),
        ]
    )
    with Daemon(run_dir / "home", environment=scene.environment()) as daemon:
        daemon.start()
        with daemon.client() as http:
            made = [
                http.post("/api/sessions", json={"agent": "Claude", "workdir": str(scene.work)}).json()["sessionId"]
                for _ in range(CROWD)
            ]

            def statuses(wanted: str) -> bool:
                return all(http.get(f"/api/sessions/{each}").json()["session"]["status"] == wanted for each in made)

            for number, each in enumerate(made):
                assert http.post(f"/api/sessions/{each}/messages", json={"text": f"color {number}"}).status_code == 202
            wait_until(lambda: len(agents_below(daemon)) == CROWD, "all agents to run", 2 * AGENT_LIMIT_S)
            assert statuses("active")
            scene.model.gate("go").opened.set()
            wait_until(lambda: statuses("idle"), "all turns to end", 2 * AGENT_LIMIT_S)
            for number, each in enumerate(made):
                messages = http.get(f"/api/sessions/{each}").json()["session"]["messages"]
                assert [row["text"] for row in messages] == [f"color {number}", f"noted {number}"]
        for entry in scene.model.asked():
            asked_about = [number for number in range(CROWD) if f"color {number}" in str(entry["body"])]
            assert len(asked_about) <= 1, "what one session was asked reached another one"
        resident_mb = [process.memory_info().rss >> 20 for process in agents_below(daemon)]
        assert max(resident_mb) < RESIDENT_MB
        processes = [process for each in agents_below(daemon) for process in (each, *each.children(recursive=True))]
        daemon.kill_supervisor()
        wait_until(lambda: not any(map(is_alive, processes)), "the end of all agents", AGENT_LIMIT_S)
        daemon.start()
        with daemon.client() as http:
            path = f"/api/sessions/{made[5]}"
            assert http.post(f"{path}/messages", json={"text": "again"}).status_code == 202
            wait_until(
                lambda: http.get(path).json()["session"]["messages"][-1].get("text") == "I remember",
                "the answer",
                AGENT_LIMIT_S,
            )
        assert "color 5" in sent(scene)
        assert "color 4" not in sent(scene)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
