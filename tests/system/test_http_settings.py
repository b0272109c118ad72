"""Settings, projects and commands over HTTP, with a daemon whose workers are there or not."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from tests.support.daemon import Daemon, Person
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def http(shared_daemon: Daemon) -> Iterator[httpx.Client]:
    with shared_daemon.client() as client:
        yield client


@pytest.fixture
def person(shared_daemon: Daemon, request: pytest.FixtureRequest) -> Iterator[Person]:
    user = Person(shared_daemon, request.node.name)
    yield user
    user.close()


def of(state: dict[str, Any], session_id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(session for session in state["sessions"] if session["id"] == session_id)
    return found


def test_settings_are_changed_all_or_not_at_all(http: httpx.Client, person: Person) -> None:
    path = f"/api/sessions/{person.session_id}/settings"
    reply = http.post(path, json={"name": " New ", "model": "big"})
    assert reply.status_code == 200
    session = of(reply.json(), person.session_id)
    assert (session["name"], session["model"], session["messages"]) == ("New", "big", [])
    for body, status in (
        ({"name": "X", "sandboxMode": "read-only"}, 400),
        ({"name": " "}, 400),
        ({"model": ""}, 400),
        ({"cursorMode": "fast"}, 422),
        ({"name": 7}, 422),
    ):
        assert http.post(path, json=body).status_code == status
    assert person.read() == session
    assert http.post("/api/sessions/session-999/settings", json={"name": "X"}).status_code == 404


def test_the_demo_agent_has_no_model_list(http: httpx.Client, person: Person) -> None:
    http.post(f"/api/sessions/{person.session_id}/settings", json={"model": "no such model"})
    before = person.read()
    reply = http.post(f"/api/sessions/{person.session_id}/model-options/refresh")
    assert (reply.status_code, reply.json()["reason"]) == (400, "noModelList"), reply.text
    assert person.read() == before
    http.post(f"/api/sessions/{person.session_id}/settings", json={"model": "auto"})
    person.prompt("say still there", key="after")
    assert person.wait_idle()["messages"][-1]["text"] == "still there"


def test_preferences_are_kept_and_refused_as_a_whole(http: httpx.Client) -> None:
    reply = http.post("/api/settings", json={"defaultClaudeEffort": "high", "defaultGeminiModel": "pro"})
    assert reply.status_code == 200
    assert reply.json()["preferences"]["defaultClaudeEffort"] == "high"
    for body, status in (
        ({"defaultClaudeEffort": "max", "defaultClaudeModel": "-x"}, 400),
        ({"defaultClaudeEffort": "most"}, 422),
        ({"remotes": [{"id": "a b", "name": "x", "transport": "ssh", "host": "h"}]}, 400),
        ({"remotes": [{"name": "x"}]}, 422),
    ):
        assert http.post("/api/settings", json=body).status_code == status
    preferences = http.get("/api/state").json()["preferences"]
    assert (preferences["defaultClaudeEffort"], preferences["defaultGeminiModel"]) == ("high", "pro")
    assert [remote["id"] for remote in preferences["remotes"]] == ["local"]


def test_a_state_reply_has_every_part_of_it_also_when_empty(http: httpx.Client) -> None:
    state = http.get("/api/state").json()
    assert (state["codex"], state["orchestrators"], state["workspaces"]) == ({}, [], [])
    agents = {row["agent"]: row for row in state["agentReadiness"]}
    assert {"Codex", "Claude", "Cursor", "Gemini", "OpenCode"} <= set(agents)
    assert all({"agent", "status", "blocking", "detail"} <= set(row) for row in agents.values())


def test_a_project_is_made_once_and_its_sessions_outlive_it(http: httpx.Client, tmp_path: Path) -> None:
    reply = http.post("/api/projects", json={"rootPath": str(tmp_path), "name": "Mine"})
    assert (reply.status_code, reply.json()["state"]["projects"][-1]["name"]) == (201, "Mine")
    project_id = reply.json()["projectId"]
    assert http.post("/api/projects", json={"rootPath": f"{tmp_path}/."}).json()["projectId"] == project_id
    session = http.post("/api/sessions", json={"agent": "Demo", "projectId": project_id}).json()["session"]
    assert (session["projectId"], session["workdir"]) == (project_id, str(tmp_path))
    assert http.post("/api/projects", json={"rootPath": " "}).status_code == 400
    assert http.post("/api/projects", json={}).status_code == 422
    state = http.delete(f"/api/projects/{project_id}").json()
    assert (state["projects"], "projectId" in of(state, session["id"])) == ([], False)
    assert http.delete(f"/api/projects/{project_id}").status_code == 404


def test_a_command_is_listed_and_resolved(http: httpx.Client, shared_daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "fix it.md").write_text("Fix $ARGUMENTS")
    user = Person(shared_daemon, "commands", workdir=tmp_path)
    path = f"/api/sessions/{user.session_id}/agent-commands"
    [command] = http.get(path).json()["commands"]
    assert (command["name"], command["kind"]) == ("fix it", "promptTemplate")
    resolved = http.post(f"{path}/fix%20it/resolve", json={"arguments": "it"})
    assert (resolved.status_code, resolved.json()["expandedPrompt"]) == (200, "Fix it")
    assert http.post(f"{path}/none/resolve", json={}).status_code == 404
    assert http.post(f"{path}/fix%20it/resolve", json={"cwd": "/"}).status_code == 400
    assert http.post(f"{path}/fix%20it/resolve", json={"intent": "none"}).status_code == 422
    assert user.read()["messageCount"] == 0
    user.close()


@pytest.mark.case("H27")
def test_a_project_can_be_deleted_while_coordination_is_down(daemon: Daemon, tmp_path: Path) -> None:
    with daemon.client() as http:
        project_id = http.post("/api/projects", json={"rootPath": str(tmp_path)}).json()["projectId"]
        # A stopped supervisor starts nothing again: coordination is down until it goes on.
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            daemon.kill("coordination")
            reply = http.delete(f"/api/projects/{project_id}")
            assert (reply.status_code, reply.json()["projects"]) == (200, [])
            assert pending(daemon) == [project_id]
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
        wait_until(lambda: pending(daemon) == [], "the cleanup to be confirmed", 20)


def pending(daemon: Daemon) -> list[str]:
    """The deletions that coordination has not confirmed, as stored."""
    connection = apsw.Connection(str(daemon.home.termal_db), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        metadata = json.loads(connection.execute("SELECT value_json FROM app_state").get)
        return list(metadata.get("pendingCoordinationScopeDeletions", []))
    finally:
        connection.close()


def termal(daemon: Daemon, *arguments: str, status: int = 0) -> str:
    program = [sys.executable, "-c", "from termal.cli.main import main; main()"]
    command = [*program, *arguments, "--home", str(daemon.home.root)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended.stdout.strip()


def test_projects_and_settings_from_a_shell(shared_daemon: Daemon, person: Person, tmp_path: Path) -> None:
    project_id = termal(shared_daemon, "projects", "add", str(tmp_path), "--name", "Shell")
    assert project_id in termal(shared_daemon, "projects", "list")
    listed = json.loads(termal(shared_daemon, "projects", "list", "--json"))
    assert {"id": project_id, "name": "Shell", "rootPath": str(tmp_path), "remoteId": "local"} in listed
    assert termal(shared_daemon, "projects", "remove", project_id) == f"{project_id} removed"
    termal(shared_daemon, "projects", "remove", project_id, status=1)
    termal(shared_daemon, "sessions", "set", person.session_id, "name=From a shell", "model=big")
    assert (person.read()["name"], person.read()["model"]) == ("From a shell", "big")
    termal(shared_daemon, "sessions", "set", person.session_id, "name", status=2)
    termal(shared_daemon, "sessions", "set", person.session_id, "name=X", "cursorMode=ask", status=1)
    assert person.read()["name"] == "From a shell"
