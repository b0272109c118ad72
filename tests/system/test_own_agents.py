"""An agent that only config.toml knows, from the shell and over HTTP: found, started in its mode, asked, answered."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from termal.cli import main as cli
from tests.support.acp_script import DONE, ask, text
from tests.support.daemon import Daemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system]

AGENT = str(Path(__file__).parents[1] / "support" / "acp_agent.py")
MODES = {"availableModes": [{"id": "ask"}, {"id": "code"}], "currentModeId": "ask"}
MODELS = {"availableModels": [{"modelId": "k2", "name": "K2"}], "currentModelId": "k2"}


@pytest.fixture
def script(run_dir: Path) -> Path:
    file = run_dir / "script.json"
    begun = {"result": {"sessionId": "conversation-1", "modes": MODES, "models": MODELS}}
    steps = [
        text("may I?"),
        ask("t1", ("yes", "allow_once"), ("no", "reject_once"), kind="execute", title="make"),
        {"wait_for": 101},
        text("done"),
        DONE,
    ]
    file.write_text(json.dumps({"log": str(run_dir / "log"), "answers": {"session/new": begun}, "prompt": steps}))
    return file


@pytest.fixture
def daemon(home_dir: Path, script: Path) -> Iterator[Daemon]:
    command = json.dumps([sys.executable, AGENT, str(script)])
    config = f'[agents.kimi]\ncommand = {command}\nmode = "code"\n[agents.gone]\ncommand = ["/no/such/agent"]\n'
    home_dir.mkdir(mode=0o700)
    (home_dir / "config.toml").write_text(config)
    with Daemon(home_dir) as running:
        yield running.start()


def test_an_agent_of_the_configuration_works_like_a_built_in_one(
    daemon: Daemon, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["agents", "--home", str(daemon.home.root), "--json"])
    assert not ended.value.code
    rows = {row["agent"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["kimi"]["status"], rows["kimi"]["detail"]) == ("ready", "kimi is ready (as configured).")
    assert "version" not in rows["kimi"], "what an interpreter says of itself is nothing about the agent"
    assert rows["gone"]["status"] == "needsSetup"
    assert "/no/such/agent" in rows["gone"]["detail"]
    with daemon.client() as http:
        ready = {row["agent"]: row["status"] for row in http.get("/api/state").json()["agentReadiness"]}
        assert (ready["kimi"], ready["gone"]) == ("ready", "needsSetup")
        assert http.post("/api/sessions", json={"agent": "gone"}).status_code == 400
        made = http.post("/api/sessions", json={"agent": "kimi", "workdir": str(run_dir)}).json()
        path = f"/api/sessions/{made['sessionId']}"
        assert (made["session"]["agent"], made["session"]["emoji"]) == ("kimi", "KI")
        refreshed = http.post(f"{path}/model-options/refresh").json()
        assert "K2" in json.dumps(refreshed)
        assert http.post(f"{path}/messages", json={"text": "go"}).status_code == 202
        card = wait_until(lambda: asked(http, path), "the question", 20)
        answers = f"{path}/approvals/{card['id']}"
        assert http.post(answers, json={"decision": "acceptedForSession"}).status_code == 409
        assert http.post(answers, json={"decision": "accepted"}).status_code == 200
        session = wait_until(lambda: idle(http, path), "the end of the turn", 20)
        assert [one["text"] for one in session["messages"] if one["type"] == "text"] == ["go", "may I?", "done"]
        assert http.post(f"{path}/settings", json={"claudeEffort": "max"}).status_code == 400
        assert http.post(f"{path}/kill").status_code == 200
    received = [json.loads(line) for line in (run_dir / "log").read_text().splitlines()]
    assert [one["params"]["modeId"] for one in received if one.get("method") == "session/set_mode"] == ["code"]


def asked(http: httpx.Client, path: str) -> dict[str, Any] | None:
    messages = http.get(path).json()["session"]["messages"]
    return next((one for one in messages if one["type"] == "approval" and one["decision"] == "pending"), None)


def idle(http: httpx.Client, path: str) -> dict[str, Any] | None:
    session: dict[str, Any] = http.get(path).json()["session"]
    return session if session["status"] == "idle" else None
