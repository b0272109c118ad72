"""Codex itself with the bridge of its session: mail to a peer, delegated work that stays where it belongs, reviews."""

import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from termal.bridge.descriptor import SERVER
from termal.wire.turns import McpServer
from tests.agents.kit import Scene, program_of, require, shell
from tests.agents.recorder import AGENT_LIMIT_S
from tests.agents.scenario import prompt, sent
from tests.support.daemon import Person
from tests.support.scripted_requests import Json
from tests.support.token_daemon import TokenDaemon
from tests.support.waiting import wait_until
from workers.runtime.adapter import AgentFailed
from workers.runtime.bridge import NO_BRIDGE

pytestmark = [pytest.mark.agents, pytest.mark.system, pytest.mark.timeout(240)]

WRAPPER = """\
#!/bin/sh
tee -a {wire} | {codex} "$@"
"""
USERS_OWN = """
[mcp_servers.{name}]
command = "/bin/false"
args = ["--nothing"]
[mcp_servers.{name}.env]
TERMAL_BASE_URL = "http://127.0.0.1:{port}"
"""
REVIEW: Json = {
    "schemaVersion": 1,
    "status": "completed",
    "summary": "Read by the model.",
    "findings": [{"severity": "Low", "message": "A typo.", "file": "README", "line": 1}],
    "commandsRun": [],
    "filesInspected": [],
    "notes": [],
    "suggestedTrackerUpdates": [],
}


@pytest.fixture(autouse=True)
def _required() -> None:
    require("Codex")


@pytest.fixture
def wire(run_dir: Path) -> Path:
    """What the daemon tells Codex, a JSON record a line."""
    return run_dir / "wire.jsonl"


@pytest.fixture
def daemon(scene: Scene, run_dir: Path, wire: Path) -> Iterator[TokenDaemon]:
    wrapper = run_dir / "codex-recorded"
    wrapper.write_text(
        WRAPPER.format(wire=shlex.quote(str(wire)), codex=shlex.quote(str(program_of("Codex")))), "utf-8"
    )
    wrapper.chmod(0o700)
    daemon = TokenDaemon(run_dir / "home", environment=scene.environment())
    with (run_dir / "home" / "config.toml").open("a") as config:
        config.write(f'[agents.Codex]\ncommand = ["{wrapper}"]\n')
    with daemon:
        daemon.start()
        yield daemon


def call(tool: str, **arguments: Any) -> list[list[Json]]:
    return [[{"tool": f"~{tool}", "args": arguments}], [{"text": "done"}]]


def in_sandbox(command: str) -> Json:
    return {"tool": "~exec_command", "args": {"cmd": command}}


def records(wire: Path, method: str) -> list[Json]:
    lines = wire.read_text("utf-8").splitlines()
    return [record["params"] for record in map(json.loads, lines) if record.get("method") == method]


class User(Person):
    """A person who says yes to every tool of the bridge; ``cards`` counts them."""

    cards = 0

    def finish(self, text: str) -> Json:
        self.prompt(text, key=text)
        session: Json = wait_until(self._over, f"the end of {text!r}", 2 * AGENT_LIMIT_S)
        return session

    def _over(self) -> Json | None:
        session = self.read()
        for message in session["messages"]:
            if message["type"] == "mcpElicitationRequest" and message["state"] == "pending":
                path = f"/api/sessions/{self.session_id}/mcp-elicitation/{message['id']}"
                self.cards += self._http.post(path, json={"action": "accept", "content": {}}).is_success
        return session if session["status"] in ("idle", "error") else None


@pytest.mark.case("B68")
def test_a_codex_session_writes_to_a_peer_whatever_the_user_configured(scene: Scene, daemon: TokenDaemon) -> None:
    with (scene.codex_home / "config.toml").open("a") as config:
        config.write(USERS_OWN.format(name=SERVER, port=scene.closed_port))
    peer = Person(daemon, "peer", workdir=scene.work)
    mail = {"sessionId": peer.session_id, "message": "hello peer", "idempotencyKey": "one"}
    scene.model.play(
        [
            {"match": "write to it$", "turns": call("termal_send_to_session", **mail)},
            {"match": "which boxes$", "turns": call("termal_list_mailboxes")},
        ]
    )
    user = User(daemon, "with-codex", agent="Codex", workdir=scene.work)
    try:
        assert user.finish("write to it")["status"] == "idle"
        with daemon.client() as http:
            (box,) = http.get(f"/api/sessions/{peer.session_id}/mailboxes").json()
        assert box["latestMessagePreview"] == "hello peer"
        assert user.finish("which boxes")["status"] == "idle"
        assert peer.session_id in sent(scene)
        assert user.cards == 2
    finally:
        user.close()
        peer.close()


class Parent:
    """Delegates to Codex."""

    def __init__(self, http: httpx.Client, session_id: str) -> None:
        self.http = http
        self.path = f"/api/sessions/{session_id}/delegations"

    def spawned(self, text: str, **fields: Any) -> tuple[Json, list[Json]]:
        """The record when it is over, and the messages of the child."""
        made = self.http.post(self.path, json={"prompt": text, "agent": "Codex", **fields})
        assert made.status_code == 201, made.text
        one, child = made.json()["delegation"]["id"], made.json()["childSession"]["id"]

        def over() -> Json | None:
            record: Json = self.http.get(f"{self.path}/{one}").json()["delegation"]
            return record if record["status"] not in ("queued", "running") else None

        record = wait_until(over, f"the end of {text!r}", 2 * AGENT_LIMIT_S)
        session = self.http.get(f"/api/sessions/{child}", params={"tail": 64}).json()["session"]
        return record, session["messages"]


def commands(messages: list[Json]) -> list[Json]:
    return [message for message in messages if message["type"] == "command"]


def no_cards(messages: list[Json]) -> bool:
    return not {"approval", "mcpElicitationRequest", "codexAppRequest"} & {message["type"] for message in messages}


@pytest.mark.case("A97")
def test_delegated_work_stays_where_it_belongs_and_a_review_is_handed_in(
    scene: Scene, daemon: TokenDaemon, wire: Path
) -> None:
    git = ["git", "-C", str(scene.work), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    outside = scene.work / "outside.txt"
    scene.model.play(
        [
            {
                "match": "write outside",
                "turns": [[in_sandbox("touch inside.txt")], [in_sandbox(f"touch {outside}")], [{"text": "done"}]],
            },
            {
                "match": "hand it in",
                "turns": [
                    [in_sandbox("touch made.txt")],
                    [shell("touch left.txt")],
                    [{"tool": "~termal_submit_review_result", "args": REVIEW}],
                    [{"text": "done"}],
                ],
            },
        ]
    )
    person = Person(daemon, "parent", workdir=scene.work)
    try:
        with daemon.client() as http:
            parent = Parent(http, person.session_id)
            isolated, shown = parent.spawned("write outside", mode="explorer", writePolicy="isolatedWorktree")
            assert no_cards(shown)
            assert not any(row["status"] == "success" and outside.name in row["command"] for row in commands(shown))
            assert "Read-only file system" in sent(scene)
            assert (Path(isolated["cwd"]) / "inside.txt").exists()
            assert not outside.exists()
            review, shown = parent.spawned("hand it in", mode="reviewer", writePolicy="readOnly")
            assert no_cards(shown)
            assert [row["status"] for row in commands(shown) if "touch" not in row["command"]] == ["success"]
            assert not any(row["status"] == "success" for row in commands(shown) if "touch" in row["command"])
            assert sent(scene).count("touch: cannot touch") == 1
            assert (review["status"], review["result"]["summary"]) == ("completed", REVIEW["summary"])
            assert review["result"]["findings"] == REVIEW["findings"]
            assert [path.name for path in scene.work.iterdir()] == [".git"]
            told = [*records(wire, "thread/start"), *records(wire, "turn/start")]
            assert [params["approvalPolicy"] for params in told] == ["on-request"] * 4
    finally:
        person.close()


def test_a_required_review_is_not_begun_when_its_bridge_exits_at_once(scene: Scene) -> None:
    bridge = McpServer(SERVER, sys.executable, ["-c", "raise SystemExit(1)"])

    async def scenario() -> None:
        adapter = scene.agents().make("Codex")
        try:
            changes: Json = {"read_only": True, "delegated": True, "submits_review": True, "mcp_servers": [bridge]}
            await adapter.start(scene.spec("Codex", **changes))
            with pytest.raises(AgentFailed, match=NO_BRIDGE):
                await prompt(adapter, "review it")
            assert scene.model.asked() == []
        finally:
            await adapter.close()

    asyncio.run(scenario())
