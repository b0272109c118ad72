"""Twenty bridges on one daemon whose processes are killed: no call hangs, no effect is missing, none happens twice."""

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from termal.bridge.backend import LIMIT_S, Backend
from termal.bridge.caller import Caller
from termal.bridge.server import Bridge
from termal.client.async_http import AsyncHttp
from tests.support.bridge_kit import Kit
from tests.support.daemon import Daemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

BRIDGES = 20
MESSAGES = 3
VICTIMS = ("coordination", "state", "gateway-worker", "wake", "coordination")
CALLS_BETWEEN = 12
TRIES = 20
MARGIN_S = 5.0
"""For a machine with more to do than this."""


class Agent(Kit):
    """What an agent does with an answer that it did not get: the same call again, with the same key."""

    def __init__(self, http: AsyncHttp, session_id: str) -> None:
        super().__init__(http, real_time=True)
        self.session_id = session_id
        self.longest_s = 0.0

        async def exchange(call: Any, wait_s: float) -> Any:
            return await http.exchange(call, limit_s=wait_s)

        backend = Backend(session_id, exchange)
        self._bridge = Bridge(backend, Caller(backend))

    async def insist(self, tool: str, **arguments: Any) -> Any:
        said = ""
        for _ in range(TRIES):
            began = time.monotonic()
            result = await self.call(tool, **arguments)
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            if not result["isError"]:
                return result["structuredContent"]
            said = result["content"][0]["text"]
            await asyncio.sleep(0.1)
        raise AssertionError(f"{tool} of {self.session_id} never succeeded: {said}")


class Story:
    """The calls of all agents, and how many of them are done."""

    def __init__(self, agents: list[Agent], receivers: list[str]) -> None:
        self._agents = agents
        self._receivers = receivers
        self.done = 0
        self.over = False

    def reached(self, goal: int) -> bool:
        return self.over or self.done >= goal

    async def run(self) -> None:
        try:
            await asyncio.gather(*(self._work(number, agent) for number, agent in enumerate(self._agents)))
        finally:
            self.over = True

    async def _work(self, number: int, agent: Agent) -> None:
        for turn in range(MESSAGES):
            text = f"wait 0\nfrom {agent.session_id}, message {turn}"
            mail = {"sessionId": self._receivers[number % 2], "message": text, "idempotencyKey": f"m-{turn}"}
            await agent.insist("termal_send_to_session", **mail)
            self.done += 1
            write = {"key": f"agent.n{number}", "expectedRevision": turn, "idempotencyKey": f"b-{turn}", "value": turn}
            assert (await agent.insist("termal_board_set", **write))["revision"] == turn + 1
            self.done += 1
            await agent.insist("termal_list_mailboxes")
            self.done += 1


def kill_all(daemon: Daemon, story: Story) -> int:
    """Kill one victim after the other while calls are being made; how many were."""
    killed = 0
    for name in VICTIMS:
        goal = story.done + CALLS_BETWEEN
        wait_until(partial(story.reached, goal), "calls between two kills", 120)
        if story.over:
            break
        before = daemon.kill(name)
        killed += 1
        wait_until(partial(_replaced, daemon, name, before), f"a new {name}", 60)
    return killed


def _replaced(daemon: Daemon, name: str, before: int) -> bool:
    try:
        return daemon.pid_of(name) != before
    except (AssertionError, IndexError, OSError):
        return False


def made(http: httpx.Client, name: str, folder: Path, project: str) -> str:
    body = {"agent": "Demo", "name": name, "workdir": str(folder), "projectId": project}
    return str(http.post("/api/sessions", json=body).json()["sessionId"])


def mailboxes_of(http: httpx.Client, session_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get(f"/api/sessions/{session_id}/mailboxes").json()
    return found


def test_twenty_bridges_under_kills_lose_and_double_nothing(daemon: Daemon, tmp_path: Path) -> None:
    with daemon.client() as http:
        project = http.post("/api/projects", json={"rootPath": str(tmp_path)}).json()["projectId"]
        receivers = [made(http, f"receiver-{number}", tmp_path, project) for number in range(2)]
        senders = [made(http, f"sender-{number}", tmp_path, project) for number in range(BRIDGES)]

        async def run() -> tuple[int, float]:
            async with AsyncHttp(daemon.url, reply_s=None, repeat_s=0.0) as client:
                agents = [Agent(client, sender) for sender in senders]
                story = Story(agents, receivers)
                killer = asyncio.create_task(asyncio.to_thread(kill_all, daemon, story))
                await story.run()
                return await killer, max(agent.longest_s for agent in agents)

        killed, longest_s = asyncio.run(run())
        assert killed >= 1
        assert longest_s < LIMIT_S + MARGIN_S
        for receiver in receivers:
            boxes = mailboxes_of(http, receiver)
            assert len(boxes) == BRIDGES // 2
            for box in boxes:
                page = http.post(f"/api/sessions/{receiver}/mailboxes/{box['id']}/read", json={}).json()
                assert [message["sequence"] for message in page] == list(range(1, MESSAGES + 1))
                assert len({message["body"] for message in page}) == MESSAGES
        board = http.get(f"/api/sessions/{senders[0]}/board").json()
        assert board["generation"] == BRIDGES * MESSAGES
        assert [entry["revision"] for entry in board["entries"]] == [MESSAGES] * BRIDGES
