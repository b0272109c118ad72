"""Every real agent calls the tools of its session's bridge, on a daemon that asks for tokens."""

import contextlib
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from termal.home import socket_folder
from tests.agents.kit import Scene, require
from tests.agents.recorder import AGENT_LIMIT_S
from tests.agents.scenario import sent
from tests.support.daemon import Person
from tests.support.token_daemon import TokenDaemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.agents, pytest.mark.system, pytest.mark.timeout(240)]

AGENTS = ("Claude", "Gemini", "OpenCode")


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    require(name)
    return name


@pytest.fixture
def daemon(scene: Scene, agent: str, run_dir: Path) -> Iterator[TokenDaemon]:
    daemon = TokenDaemon(run_dir / "home", environment=scene.environment())
    with daemon:
        daemon.start()
        yield daemon


class User(Person):
    """A person who says yes to every tool of the bridge."""

    def finish(self, text: str) -> dict[str, Any]:
        self.prompt(text, key=text)
        return wait_until(self._over, f"the end of {text!r}", 2 * AGENT_LIMIT_S)

    def _over(self) -> dict[str, Any] | None:
        session = self.read()
        for message in session["messages"]:
            if message["type"] == "approval" and message["decision"] == "pending":
                path = f"/api/sessions/{self.session_id}/approvals/{message['id']}"
                self._http.post(path, json={"decision": "accepted"})
        return session if session["status"] in ("idle", "error") else None


def call(tool: str, **arguments: Any) -> list[list[dict[str, Any]]]:
    """The model's part: one call, then a closing word."""
    return [[{"tool": f"~{tool}", "args": arguments}], [{"text": "done"}]]


@pytest.mark.case("B58")
def test_an_agent_finds_its_peers_and_writes_to_one(scene: Scene, daemon: TokenDaemon, agent: str) -> None:
    peer = Person(daemon, "peer", workdir=scene.work)
    mail = {"sessionId": peer.session_id, "message": "hello peer", "idempotencyKey": "one"}
    scene.model.play(
        [
            {"match": "who is there$", "turns": call("termal_list_sessions")},
            {"match": "write to it$", "turns": call("termal_send_to_session", **mail)},
        ]
    )
    user = User(daemon, f"with-{agent}", agent=agent, workdir=scene.work)
    try:
        assert user.finish("who is there")["status"] == "idle"
        assert peer.session_id in sent(scene)
        lines = daemon.command_lines()
        assert any("delegation-mcp" in line for line in lines)
        assert not any("ts1." in line or daemon.token in line for line in lines)
        assert user.finish("write to it")["status"] == "idle"
        with daemon.client() as http:
            boxes = http.get(f"/api/sessions/{peer.session_id}/mailboxes").json()
        assert [box["latestMessagePreview"] for box in boxes] == ["hello peer"]
    finally:
        user.close()
        peer.close()


@pytest.fixture
def claude(scene: Scene, run_dir: Path) -> Iterator[TokenDaemon]:
    yield from _daemon_for("Claude", scene, run_dir)


@pytest.fixture
def opencode(scene: Scene, run_dir: Path) -> Iterator[TokenDaemon]:
    yield from _daemon_for("OpenCode", scene, run_dir)


def _daemon_for(agent: str, scene: Scene, run_dir: Path) -> Iterator[TokenDaemon]:
    require(agent)
    daemon = TokenDaemon(run_dir / "home", environment=scene.environment())
    with daemon:
        daemon.start()
        yield daemon


@pytest.mark.case("B66")
def test_two_sessions_of_an_agent_each_delegate_in_their_own_name(scene: Scene, opencode: TokenDaemon) -> None:
    task = {"prompt": "say hello", "agent": "Demo", "mode": "explorer"}
    scene.model.play([{"match": "delegate$", "turns": call("termal_spawn_session", **task)}])
    users = [User(opencode, f"user-{number}", agent="OpenCode", workdir=scene.work) for number in range(2)]
    try:
        for user in users:
            assert user.finish("delegate")["status"] == "idle"
        with opencode.client() as http:
            for user in users:
                rows = http.get(f"/api/sessions/{user.session_id}/delegations").json()["delegations"]
                assert [row["parentSessionId"] for row in rows] == [user.session_id]
        served = [
            line.split("--parent-session-id ")[1].split()[0] for line in opencode.command_lines() if SERVES in line
        ]
        assert {user.session_id for user in users} <= set(served)
        assert len([line for line in opencode.command_lines() if line.endswith("opencode acp")]) >= len(users)
    finally:
        for user in users:
            user.close()


SERVES = "delegation-mcp --parent-session-id "


@pytest.mark.case("B72")
def test_a_read_only_child_may_delegate_after_a_person_said_yes(scene: Scene, claude: TokenDaemon) -> None:
    nested = {"prompt": "say nested work", "agent": "Demo", "mode": "explorer"}
    scene.model.play([{"match": "(?s)delegate further", "turns": call("termal_spawn_session", **nested)}])
    parent = Person(claude, "parent", workdir=scene.work)
    try:
        with claude.client() as http:
            task = {"prompt": "delegate further", "agent": "Claude", "mode": "explorer"}
            made = http.post(f"/api/sessions/{parent.session_id}/delegations", json=task)
            assert made.status_code == 201, made.text
            child = made.json()["childSession"]["id"]

            def card() -> str | None:
                messages = http.get(f"/api/sessions/{child}").json()["session"]["messages"]
                return next((each["id"] for each in messages if each["type"] == "approval"), None)

            asked = wait_until(card, "a card of the child", 2 * AGENT_LIMIT_S)
            answer = http.post(f"/api/sessions/{child}/approvals/{asked}", json={"decision": "accepted"})
            assert answer.status_code == 200, answer.text

            def finished() -> bool:
                rows = http.get(f"/api/sessions/{child}/delegations").json().get("delegations", [])
                return [row["status"] for row in rows] == ["completed"]

            wait_until(finished, "the nested work to be done", 2 * AGENT_LIMIT_S)
    finally:
        parent.close()


class Seen(threading.Thread):
    """The private files of Claude that were there at any time, with their modes."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.modes: dict[str, int] = {}
        self._folder = folder
        self._over = threading.Event()

    def there(self) -> list[str]:
        return [file.name for file in self._folder.glob("claude-*.json")]

    def run(self) -> None:
        while not self._over.wait(0.005):
            for name in self.there():
                with contextlib.suppress(FileNotFoundError):
                    self.modes[name] = stat.S_IMODE((self._folder / name).stat().st_mode)

    def __enter__(self) -> "Seen":
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self.join()


@pytest.mark.case("B62")
def test_the_file_with_the_token_is_private_and_gone_once_it_was_read(scene: Scene, claude: TokenDaemon) -> None:
    scene.model.play(
        [{"match": "hello$", "turns": [[{"text": "hi"}]]}, {"match": "again$", "turns": [[{"text": "ho"}]]}]
    )
    user = User(claude, "user", agent="Claude", workdir=scene.work)
    try:
        with Seen(socket_folder(claude.home)) as seen:
            assert user.finish("hello")["status"] == "idle"
            (first,) = seen.modes
            assert seen.there() == []
            before = claude.kill("runtime-claude")
            wait_until(lambda: (claude.row("runtime-claude") or {}).get("pid") not in (None, before), "its successor")
            assert user.finish("again")["status"] == "idle"
            assert len(seen.modes) == 2
            assert set(seen.modes.values()) == {0o600}
            assert seen.there() == []
            with claude.client() as http:
                assert http.post(f"/api/sessions/{user.session_id}/kill").status_code == 200
            wait_until(
                lambda: not any("claude" in line for line in claude.command_lines() if "mcp-config" in line), "end"
            )
            assert seen.there() == []
            assert first in seen.modes
    finally:
        user.close()
