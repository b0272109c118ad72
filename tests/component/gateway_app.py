"""The gateway's application in this process, with real sockets to fake workers, driven by Falcon's conductor."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
from falcon.testing import ASGIConductor, Result, StreamedResult

from termal.config import Config
from termal.gateway.app import make_app
from termal.gateway.context import Gateway
from termal.home import find_home, prepare
from termal.log import Log
from termal.wire.launch import Launch
from tests.support.fake_state import FakeCoordination, FakeState
from tests.support.waiting import until

PORT = 8787


class App:
    """A gateway that serves, its fake state and coordination, and the ways to ask it."""

    def __init__(
        self, gateway: Gateway, conductor: ASGIConductor, state: FakeState, coordination: FakeCoordination
    ) -> None:
        self.gateway = gateway
        self.state = state
        self.coordination = coordination
        self._conductor = conductor

    async def request(self, method: str, path: str, json: Any = None, **more: Any) -> Result:
        headers = dict(more.pop("headers", {}))
        body = more.pop("body", None if json is None else msgspec.json.encode(json))
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        more.setdefault("host", "127.0.0.1")
        reply: Result = await self._conductor.simulate_request(
            method, path, port=PORT, headers=headers, body=body, **more
        )
        return reply

    async def get(self, path: str, **more: Any) -> Result:
        return await self.request("GET", path, **more)

    async def post(self, path: str, json: Any = None, **more: Any) -> Result:
        return await self.request("POST", path, json, **more)

    def stream(self) -> "AbstractAsyncContextManager[StreamedResult]":
        opened: AbstractAsyncContextManager[StreamedResult] = self._conductor.simulate_get_stream(
            "/api/events", host="127.0.0.1", port=PORT
        )
        return opened

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await until(condition, what)


class Reader:
    """The events of one stream, as they come."""

    def __init__(self, opened: StreamedResult) -> None:
        self._opened = opened
        self.text = ""

    async def read(self) -> None:
        self.text += (await self._opened.stream.read()).decode()

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Name and decoded data of each."""
        found = []
        for block in self.text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
            if "event" in fields:
                found.append((fields["event"], msgspec.json.decode(fields["data"])))
        return found

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    @property
    def revisions(self) -> list[int]:
        return [data["revision"] for _, data in self.events if isinstance(data, dict)]

    async def wait_for(self, count: int) -> list[tuple[str, Any]]:
        """The events, as soon as there are ``count``."""
        await self.until(lambda: len(self.events) >= count, f"event {count}")
        return self.events

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Read on until ``condition`` holds."""
        await until(condition, what, between=self.read)


Scenario = Callable[[App], Awaitable[None]]


def serve(run_dir: Path, scenario: Scenario, *, config: Config | None = None, state: FakeState | None = None) -> None:
    """Run ``scenario`` against a gateway that has found its state and coordination."""
    home = find_home(str(run_dir / "home"))
    prepare(home)
    launch = Launch(
        name="gateway",
        home=str(home.root),
        run_dir=str(run_dir),
        control_fd=-1,
        start="boot",
        mark=home.mark,
        port=PORT,
    )

    async def body(running: FakeState, coordination: FakeCoordination) -> None:
        gateway = Gateway(launch, config or Config(), Log("gateway", home.log("gateway")))
        try:
            async with ASGIConductor(make_app(gateway)) as conductor:
                await until(lambda: gateway.is_up("state") and gateway.is_up("coordination"), "the workers")
                await scenario(App(gateway, conductor, running, coordination))
        finally:
            # After a failure the conductor does not shut its application down.
            gateway.close()
            gateway.log.close()

    with state or FakeState(run_dir) as running, FakeCoordination(run_dir) as coordination:
        asyncio.run(body(running, coordination))
