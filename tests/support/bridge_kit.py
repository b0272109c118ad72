"""A bridge without its pipe: the handlers of one connection, over real HTTP against a scripted daemon."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from termal.bridge.backend import LIMIT_S, Backend
from termal.bridge.caller import Caller
from termal.bridge.server import Bridge
from termal.client.async_http import AsyncHttp
from tests.support.scripted_api import ScriptedApi

T = TypeVar("T")

CALLER = "session-1"
OWN = f"/api/sessions/{CALLER}"


class Kit:
    """``slept`` are the waits of the bridge in seconds; they pass at once unless ``real_time``."""

    def __init__(self, http: AsyncHttp, *, limit_s: float = LIMIT_S, real_time: bool = False) -> None:
        self.slept: list[float] = []
        self.progress: list[tuple[int, int, str]] = []
        self.list_changes = 0
        self.now_s = 0.0

        async def exchange(call: Any, wait_s: float) -> Any:
            return await http.exchange(call, limit_s=wait_s)

        async def sleep(delay_s: float) -> None:
            self.slept.append(delay_s)
            self.now_s += delay_s
            await asyncio.sleep(0)

        waits = {} if real_time else {"sleep": sleep, "clock": lambda: self.now_s}
        self._backend = Backend(CALLER, exchange, limit_s=limit_s, **waits)  # type: ignore[arg-type]
        self._bridge = Bridge(self._backend, Caller(self._backend))
        self._context = SimpleNamespace(session=self, protocol_version="2024-11-05")

    async def report_progress(self, done: int, total: int, message: str) -> None:
        self.progress.append((done, total, message))

    async def send_tool_list_changed(self) -> None:
        self.list_changes += 1

    async def tools(self) -> list[dict[str, Any]]:
        answer = await self._bridge._list(self._context, None)
        found: list[dict[str, Any]] = answer["tools"]
        return found

    async def names(self) -> list[str]:
        return [tool["name"] for tool in await self.tools()]

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The result as an agent gets it."""
        return await self._bridge._call(self._context, SimpleNamespace(name=tool, arguments=arguments))

    async def done(self, tool: str, /, **arguments: Any) -> Any:
        """The value of a call that must succeed."""
        result = await self.call(tool, **arguments)
        assert result["isError"] is False, result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    async def failed(self, tool: str, /, **arguments: Any) -> str:
        """The text of a call that must fail."""
        result = await self.call(tool, **arguments)
        assert result["isError"] is True, result
        text: str = result["content"][0]["text"]
        return text

    def close(self) -> None:
        self._bridge.close()


def with_bridge(
    api: ScriptedApi, story: Callable[[Kit], Awaitable[T]], *, limit_s: float = LIMIT_S, real_time: bool = False
) -> T:
    """Run ``story`` with a fresh bridge for `CALLER`."""

    async def run() -> T:
        async with AsyncHttp(api.url, repeat_s=0.0, client_name="mcp-bridge") as http:
            kit = Kit(http, limit_s=limit_s, real_time=real_time)
            try:
                return await story(kit)
            finally:
                kit.close()

    return asyncio.run(run())


def session(number: str = CALLER, name: str = "Lead", **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "name": name,
        "emoji": "LD",
        "agent": "Claude",
        "model": "m",
        "status": "idle",
        "workdir": "/work",
        "preview": "",
        **more,
    }


def state(*sessions: dict[str, Any], delegations: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "revision": 7,
        "serverInstanceId": "life-1",
        "sessions": list(sessions or (session(),)),
        "delegations": list(delegations),
    }


def record(number: str = "delegation-1", status: str = "running", **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "parentSessionId": CALLER,
        "childSessionId": f"child-of-{number}",
        "mode": "explorer",
        "status": status,
        "title": "Look",
        "agent": "Claude",
        "prompt": "the task",
        "cwd": "/work/x",
        **more,
    }


def about(one: dict[str, Any], *, life: str = "life-1", revision: int = 8) -> dict[str, Any]:
    """The answer to a question about one delegation."""
    return {"revision": revision, "delegation": one, "serverInstanceId": life}


def result(
    number: str = "delegation-1", status: str = "completed", *, life: str = "life-1", **more: Any
) -> dict[str, Any]:
    found = {
        "delegationId": number,
        "childSessionId": f"child-of-{number}",
        "status": status,
        "summary": "fine",
        **more,
    }
    return {"revision": 9, "result": found, "serverInstanceId": life}


def receipt(**more: Any) -> dict[str, Any]:
    return {
        "mailboxId": "mailbox-1",
        "messageId": "mailbox-message-1",
        "sequence": 1,
        "unreadDepth": 1,
        "notificationDisposition": "queuedBehindActiveTurn",
        "duplicate": False,
        **more,
    }
