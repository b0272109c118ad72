"""Codex sessions of a running daemon over HTTP, with a scripted app-server in the place of Codex."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from termal.bridge.descriptor import SERVER as SERVER_NAME
from tests.support.codex_kit import SERVER
from tests.support.daemon import Daemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

LIMIT_S = 20.0


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(f'[agents.Codex]\ncommand = ["{sys.executable}", "{SERVER}"]\n')
    environment = {"CODEX_FAKE_HOME": str(folder), "TERMAL_CODEX_APPROVAL": "on-request"}
    try:
        with Daemon(home, environment=environment) as running:
            yield running.start()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Codex:
    """One session."""

    def __init__(self, http: httpx.Client, created: dict[str, Any]) -> None:
        self.http = http
        self.id = created["sessionId"]

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        reply = self.http.post(f"/api/sessions/{self.id}/{path}", json=body)
        assert reply.status_code == status, reply.text
        return reply.json()

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/api/sessions/{self.id}?tail=64").json()["session"]
        return found

    def message(self, kind: str) -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            return next((row for row in self.read()["messages"] if row["type"] == kind), None)

        return wait_until(find, f"a message of type {kind}", LIMIT_S)

    def idle(self) -> dict[str, Any]:
        wait_until(lambda: self.read()["status"] in ("idle", "error"), "the end of the turn", LIMIT_S)
        return self.read()

    def turn(self, prompt: str) -> dict[str, Any]:
        self.post("messages", {"text": prompt}, 202)
        session = self.idle()
        assert session["status"] == "idle", session["messages"][-1]
        return session

    def shown(self) -> list[tuple[str, str]]:
        rows = self.read()["messages"]
        return [(row["type"], str(row.get("text", row.get("command", row.get("lines"))))) for row in rows]


@pytest.fixture
def http(shared_daemon: Daemon) -> Iterator[httpx.Client]:
    with shared_daemon.client() as client:
        yield client


@pytest.fixture
def codex(shared_daemon: Daemon, http: httpx.Client) -> Codex:
    reply = http.post("/api/sessions", json={"workdir": str(shared_daemon.home.root)})
    assert reply.status_code == 201
    return Codex(http, reply.json())


@pytest.mark.case("H1")
def test_a_session_without_an_agent_is_one_of_codex(shared_daemon: Daemon, http: httpx.Client) -> None:
    reply = http.post("/api/sessions", json={"name": "A", "workdir": str(shared_daemon.home.root)})
    assert reply.status_code == 201
    created = reply.json()
    assert created["session"]["agent"] == "Codex"
    assert created["session"]["messageCount"] == 0
    assert created["sessionId"] == created["session"]["id"]
    assert created["revision"] > 0


def test_a_turn_is_in_the_transcript_message_by_message(codex: Codex) -> None:
    codex.post("messages", {"text": "think hm\nask ls\nedit new.txt\nform\nrequest item/x\nsay All done."}, 202)
    codex.post(f"approvals/{codex.message('approval')['id']}", {"decision": "acceptedForSession"})

    def second() -> dict[str, Any] | None:
        asked = [row for row in codex.read()["messages"] if row["type"] == "approval"]
        return asked[1] if len(asked) > 1 else None

    codex.post(f"approvals/{wait_until(second, 'the other approval', LIMIT_S)['id']}", {"decision": "accepted"})
    form = codex.message("mcpElicitationRequest")
    codex.post(f"mcp-elicitation/{form['id']}", {"action": "accept", "content": {"branch": "main"}})
    codex.post(f"codex/requests/{codex.message('codexAppRequest')['id']}", {"result": {"any": ["thing"]}})
    session = codex.idle()
    assert [row["type"] for row in session["messages"]] == [
        "text",
        "thinking",
        "command",
        "approval",
        "command",
        "approval",
        "diff",
        "diff",
        "mcpElicitationRequest",
        "text",
        "codexAppRequest",
        "text",
        "text",
    ]
    assert [row["decision"] for row in session["messages"] if row["type"] == "approval"] == [
        "acceptedForSession",
        "accepted",
    ]
    assert [row["status"] for row in session["messages"] if row["type"] == "command"] == ["success", "success"]
    assert '"any": ["thing"]' in session["messages"][-2]["text"]
    assert session["preview"] == "All done."
    assert session["codexThreadState"] == "active"
    assert session["modelOptions"][0]["supportedReasoningEfforts"] == ["low", "medium"]


def test_threads_are_forked_taken_back_shortened_and_put_away(codex: Codex) -> None:
    codex.post("codex/thread/archive", status=400)
    for word in ("one", "two", "three"):
        codex.turn(f"say {word}")
    forked = codex.post("codex/thread/fork", status=201)
    fork = Codex(codex.http, forked)
    assert fork.shown() == codex.shown()
    codex.post("codex/thread/rollback", {"numTurns": 0}, 400)
    codex.post("codex/thread/rollback", {"numTurns": "x"}, 422)
    codex.post("codex/thread/rollback")
    assert codex.shown() == [("text", "say one"), ("text", "one"), ("text", "say two"), ("text", "two")]
    codex.post("codex/thread/compact")
    codex.turn("say four")
    codex.post("codex/thread/archive")
    refusal = codex.post("messages", {"text": "say five"}, 409)
    assert refusal["reason"] == "archivedThread"
    codex.post("codex/thread/archive", status=409)
    codex.post("codex/thread/unarchive")
    assert codex.turn("say five")["messages"][-1]["text"] == "five"
    assert fork.turn("say on its own")["messages"][-1]["text"] == "on its own"
    servers = codex.http.get(f"/api/sessions/{codex.id}/codex/mcp-servers").json()["servers"]
    assert [server["name"] for server in servers] == ["alpha", "zulu"]


def test_a_killed_app_server_fails_the_turn_and_the_next_prompt_resumes(shared_daemon: Daemon, codex: Codex) -> None:
    before = codex.turn("say one")["externalSessionId"]
    codex.post("messages", {"text": "hold"}, 202)
    codex.message("command")
    _app_server(shared_daemon).kill()
    failed = codex.idle()
    assert failed["status"] == "error"
    assert failed["messages"][-1]["text"] == "Turn failed: the Codex process ended before the turn did"
    assert codex.turn("say two")["externalSessionId"] == before


def test_a_stopped_turn_and_a_killed_session_leave_the_others_alone(shared_daemon: Daemon, http: httpx.Client) -> None:
    made = [http.post("/api/sessions", json={"workdir": str(shared_daemon.home.root)}).json() for _ in range(3)]
    stopped, killed, other = (Codex(http, created) for created in made)
    for session in (stopped, killed, other):
        session.post("messages", {"text": "say begun\nhold"}, 202)
        session.message("command")
    process = _app_server(shared_daemon)
    assert stopped.post("stop")
    killed.post("kill")
    assert stopped.read()["status"] == "idle"
    assert stopped.turn("say again")["messages"][-1]["text"] == "again"
    assert other.read()["status"] == "active"
    assert process.is_running()
    other.post("stop")


@pytest.mark.case("B67")
def test_a_required_review_whose_bridge_exits_has_failed_at_once(shared_daemon: Daemon, codex: Codex) -> None:
    broken = shared_daemon.home.root.parent / f"{SERVER_NAME}.fails"
    broken.touch()
    try:
        made = codex.post("delegations", {"prompt": "say All is clean.", "mode": "reviewer"}, 201)
        path = f"/api/sessions/{codex.id}/delegations/{made['delegation']['id']}"

        def over() -> Any:
            record = codex.http.get(path).json()["delegation"]
            return record if record["status"] not in ("queued", "running") else None

        record = wait_until(over, "the end of the delegation", LIMIT_S)
    finally:
        broken.unlink()
    assert record["status"] == "failed"
    assert f"The MCP server {SERVER_NAME} did not come up: no such program." in record["result"]["summary"]
    assert [finding["severity"] for finding in record["result"]["findings"]] == ["Unavailable"]
    child = codex.http.get(f"/api/sessions/{made['childSession']['id']}?tail=64").json()["session"]
    assert "All is clean." not in [row.get("text") for row in child["messages"]], "the turn was not begun"


def _app_server(daemon: Daemon) -> psutil.Process:
    worker = psutil.Process(daemon.pid_of("runtime-codex"))
    (shim,) = worker.children()
    (process,) = shim.children()
    return process
