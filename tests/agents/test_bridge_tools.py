"""Every real agent at work with its tools: mail to another agent, its own mail, delegated work, being resumed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.kit import Scene, require
from tests.agents.recorder import AGENT_LIMIT_S
from tests.support.daemon import Person
from tests.support.scripted_requests import Json
from tests.support.token_daemon import TokenDaemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.agents, pytest.mark.system, pytest.mark.timeout(300)]

PEERS = {"Claude": "Codex", "Codex": "Gemini", "Gemini": "OpenCode", "OpenCode": "Claude"}
"""Who each of them writes to."""


@pytest.fixture(params=PEERS)
def agent(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    require(name)
    require(PEERS[name])
    return name


@pytest.fixture
def daemon(scene: Scene, agent: str, run_dir: Path) -> Iterator[TokenDaemon]:
    daemon = TokenDaemon(run_dir / "home", environment=scene.environment())
    with daemon:
        daemon.start()
        yield daemon


class User(Person):
    """A person who says yes to whatever the agent wants to call."""

    def tell(self, text: str) -> None:
        self.prompt(text, key=text.splitlines()[0])
        self.over(f"the end of {text.splitlines()[0]!r}")

    def over(self, what: str) -> None:
        session: Json = wait_until(self._rests, what, 2 * AGENT_LIMIT_S)
        assert session["status"] == "idle", session["messages"][-1]

    def _rests(self) -> Json | None:
        session = self.read()
        for message in session["messages"]:
            path = f"/api/sessions/{self.session_id}"
            if message["type"] == "approval" and message["decision"] == "pending":
                self._http.post(f"{path}/approvals/{message['id']}", json={"decision": "accepted"})
            if message["type"] == "mcpElicitationRequest" and message["state"] == "pending":
                answer = {"action": "accept", "content": {}}
                self._http.post(f"{path}/mcp-elicitation/{message['id']}", json=answer)
        return session if session["status"] in ("idle", "error") and not session.get("pendingPrompts") else None


def call(tool: str, **arguments: Any) -> list[list[Json]]:
    return [[{"tool": f"~{tool}", "args": arguments}], [{"text": "done"}]]


def told_the_model(scene: Scene) -> str:
    """Everything that any agent has told the model."""
    return "".join(str(entry["body"]) for entry in scene.model.asked())


def test_an_agent_uses_mail_and_delegation_through_its_bridge(scene: Scene, daemon: TokenDaemon, agent: str) -> None:
    user = User(daemon, "user", agent=agent, workdir=scene.work)
    peer = User(daemon, "peer", agent=PEERS[agent], workdir=scene.work)
    own, other = (f"/api/sessions/{one.session_id}" for one in (user, peer))
    mail = {"sessionId": peer.session_id, "message": "the parser is ready", "idempotencyKey": "one"}
    task = {"prompt": "say looked around", "agent": "Demo", "mode": "explorer"}
    steps: list[Json] = [
        {"match": "write to it$", "turns": call("termal_send_to_session", **mail)},
        {"match": "delegate it$", "turns": call("termal_spawn_session", **task)},
    ]
    try:
        with daemon.client() as http:
            scene.model.play(steps)
            user.tell("write to it")
            (box,) = http.get(f"{other}/mailboxes").json()
            assert (box["latestMessagePreview"], box["latestSequence"]) == ("the parser is ready", 1)
            peer.over("the turn that the mail has started")
            assert any(user.session_id in str(message) for message in peer.read()["messages"])

            reply = {"targetSessionId": user.session_id, "message": "seen by the peer", "idempotencyKey": "r"}
            assert http.post(f"{other}/mailboxes/send", json=reply).status_code == 202
            user.over("the turn that the answer has started")
            steps.append({"match": "read it$", "turns": call("termal_read_mailbox", mailboxId=box["id"])})
            scene.model.play(steps)
            user.tell("read it")
            results = [entry["body"] for entry in scene.model.asked() if "read it" in str(entry["user"])]
            assert "seen by the peer" in str(results[-1])

            user.tell("delegate it")
            (delegation,) = http.get(f"{own}/delegations").json()["delegations"]
            assert delegation["parentSessionId"] == user.session_id
            resume = call("termal_resume_after_delegations", delegationIds=[delegation["id"]], title="Looked")
            steps.append({"match": "wait for it$", "turns": resume})
            scene.model.play(steps)
            user.tell("wait for it")

            def resumed() -> bool:
                return any(
                    message["type"] == "text" and message["author"] == "you" and delegation["id"] in message["text"]
                    for message in user.read()["messages"]
                )

            wait_until(resumed, "the results in a prompt", 2 * AGENT_LIMIT_S)
            user.over("the turn with the results")
            assert "looked around" in told_the_model(scene)
    finally:
        user.close()
        peer.close()
