"""What real agents say of themselves to a session that has no turn yet: their models, and the commands they know."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.kit import Scene, require
from tests.support.daemon import Daemon, Person

pytestmark = [pytest.mark.agents, pytest.mark.system, pytest.mark.timeout(180)]


@pytest.fixture
def daemon(scene: Scene, run_dir: Path) -> Iterator[Daemon]:
    with Daemon(run_dir / "home", environment=scene.environment()) as running:
        yield running.start()


def refreshed(daemon: Daemon, session_id: str) -> dict[str, Any]:
    with daemon.client(60) as http:
        reply = http.post(f"/api/sessions/{session_id}/model-options/refresh")
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = next(session for session in reply.json()["sessions"] if session["id"] == session_id)
        return found


@pytest.mark.parametrize("agent", ["Claude", "Codex", "Gemini", "OpenCode"])
def test_an_agent_says_its_models_before_its_first_turn(daemon: Daemon, scene: Scene, agent: str) -> None:
    require(agent)
    person = Person(daemon, agent, agent=agent, workdir=scene.work)
    session = refreshed(daemon, person.session_id)
    assert len(session["modelOptions"]) >= 1
    assert all(option["label"] and option["value"] for option in session["modelOptions"])
    assert (session["status"], session["messageCount"]) == ("idle", 0)
    person.prompt("say hello", key="first")
    ended = person.wait_idle(90.0)
    assert (ended["status"], bool(ended["externalSessionId"])) == ("idle", True)
    if agent == "Claude":
        with daemon.client() as http:
            commands = http.get(f"/api/sessions/{person.session_id}/agent-commands").json()["commands"]
        assert "compact" in {command["name"] for command in commands if command["kind"] == "nativeSlash"}
        assert ended["agentCommandsRevision"] == 1
    person.close()
