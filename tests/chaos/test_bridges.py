"""Twenty bridges on one daemon whose processes are killed: no call hangs, no effect is missing, none happens twice."""

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest

from termal.bridge.backend import LIMIT_S, Backend
from termal.bridge.caller import Caller
from termal.bridge.server import Bridge
from termal.client.async_http import AsyncHttp
from tests.support.bridge_kit import Kit
from tests.support.bridge_process import BridgeProcess
from tests.support.daemon import Daemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

BRIDGES = 20
PROCESSES = int(os.environ.get("CHAOS_BRIDGES", "6"))
"""Each of them takes 45 MB and a third of a second of a core; an even number."""
MESSAGES = 3
VICTIMS = ("coordination", "state", "gateway-worker", "wake", "coordination")
CALLS_BETWEEN = 12
TRIES = 20
MARGIN_S = 5.0
"""For a machine with more to do than this."""


class Bridged(Protocol):
    """A bridge, by its tools."""

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]: ...


class InProcess(Kit):
    """The handlers of a bridge alone: dozens of them are cheap."""

    def __init__(self, http: AsyncHttp, session_id: str) -> None:
        super().__init__(http, real_time=True)

        async def exchange(call: Any, wait_s: float) -> Any:
            return await http.exchange(call, limit_s=wait_s)

        backend = Backend(session_id, exchange)
        self._bridge = Bridge(backend, Caller(backend))


class OwnProcess:
    """A bridge as an agent has it, spoken to over its pipes."""

    def __init__(self, process: BridgeProcess, threads: ThreadPoolExecutor) -> None:
        self._process = process
        self._threads = threads

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._process.call, tool, arguments)


class Agent:
    """What an agent does with an answer that it did not get: the same call again, with the same key."""

    def __init__(self, bridge: Bridged, session_id: str) -> None:
        self._bridge = bridge
        self.session_id = session_id
        self.longest_s = 0.0

    async def insist(self, tool: str, **arguments: Any) -> Any:
        said = ""
        for _ in range(TRIES):
            began = time.monotonic()
            result = await self._bridge.call(tool, **arguments)
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


class Scene:
    """Two sessions that are written to, and those whose agents write, all in one project with one board."""

    def __init__(self, daemon: Daemon, folder: Path, agents: int) -> None:
        self._daemon = daemon
        with daemon.client() as http:
            project = http.post("/api/projects", json={"rootPath": str(folder)}).json()["projectId"]
            self.receivers = [made(http, f"receiver-{number}", folder, project) for number in range(2)]
            self.senders = [made(http, f"sender-{number}", folder, project) for number in range(agents)]

    async def play(self, bridges: Sequence[Bridged]) -> None:
        """All agents do their work while processes are killed; no call may take longer than its limit."""
        agents = [Agent(bridge, sender) for bridge, sender in zip(bridges, self.senders, strict=True)]
        story = Story(agents, self.receivers)
        killer = asyncio.create_task(asyncio.to_thread(kill_all, self._daemon, story))
        await story.run()
        assert await killer >= 1
        assert max(agent.longest_s for agent in agents) < LIMIT_S + MARGIN_S

    def check(self) -> None:
        """Every message and every write is there exactly once, in its order."""
        bridges = len(self.senders)
        with self._daemon.client() as http:
            for receiver in self.receivers:
                boxes = mailboxes_of(http, receiver)
                assert len(boxes) == bridges // 2
                for box in boxes:
                    page = http.post(f"/api/sessions/{receiver}/mailboxes/{box['id']}/read", json={}).json()
                    assert [message["sequence"] for message in page] == list(range(1, MESSAGES + 1))
                    assert len({message["body"] for message in page}) == MESSAGES
            board = http.get(f"/api/sessions/{self.senders[0]}/board").json()
            assert board["generation"] == bridges * MESSAGES
            assert [entry["revision"] for entry in board["entries"]] == [MESSAGES] * bridges


def test_twenty_bridges_under_kills_lose_and_double_nothing(daemon: Daemon, tmp_path: Path) -> None:
    scene = Scene(daemon, tmp_path, BRIDGES)

    async def run() -> None:
        async with AsyncHttp(daemon.url, reply_s=None, repeat_s=0.0) as client:
            await scene.play([InProcess(client, sender) for sender in scene.senders])

    asyncio.run(run())
    scene.check()


def test_bridges_in_processes_of_their_own_under_kills_lose_and_double_nothing(daemon: Daemon, tmp_path: Path) -> None:
    scene = Scene(daemon, tmp_path, PROCESSES)
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(PROCESSES))
        processes = [stack.enter_context(BridgeProcess(daemon.url, session_id=sender)) for sender in scene.senders]
        for process in processes:
            process.greet()
        asyncio.run(scene.play([OwnProcess(process, threads) for process in processes]))
    scene.check()
