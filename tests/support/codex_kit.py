"""Codex adapters over the scripted app-server, in the test's own process."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from termal.config import AgentConfig, Config
from termal.log import Log
from termal.wire.turns import SessionSpec
from tests.agents.recorder import Recorder
from workers.runtime.codex import CodexAdapter
from workers.runtime.codex_server import SharedCodex
from workers.runtime.place import Place

SERVER = Path(__file__).with_name("codex_server.py")
LIMIT_S = 30.0


class CodexKit:
    """One app-server for all adapters that it makes; ``vice`` is the server's (see its program). ``locked``: a
    read-only delegation looks at the folder."""

    def __init__(self, folder: Path, log: Log) -> None:
        self.home = folder / "codex"
        self.work = folder / "work"
        self.vice = ""
        self.portable = False
        self.adapters: list[CodexAdapter] = []
        self.log = log
        self.home.mkdir()
        self.work.mkdir()
        self.locked = False
        self._shared: SharedCodex | None = None

    async def _is_locked(self, _: str) -> bool:
        return self.locked

    @property
    def place(self) -> Place:
        command = [sys.executable, str(SERVER), *([self.vice] if self.vice else [])]
        config = Config(agents={"Codex": AgentConfig(command=command)})
        environ = {**os.environ, "CODEX_FAKE_HOME": str(self.home), "TERMAL_RUNTIME": "codex-test"}
        return Place(config, environ, self.home, self.portable)

    @property
    def shared(self) -> SharedCodex:
        if self._shared is None:
            self._shared = SharedCodex(lambda: self.place, self.log)
        return self._shared

    def make(self) -> CodexAdapter:
        adapter = CodexAdapter(self.shared, self.log, self._is_locked)
        self.adapters.append(adapter)
        return adapter

    def spec(self, **changes: Any) -> SessionSpec:
        spec = SessionSpec("session-1", "Codex", str(self.work), "gpt-5.4", modes={"sandboxMode": "workspace-write"})
        return msgspec.structs.replace(spec, **changes)

    async def started(self, **changes: Any) -> CodexAdapter:
        adapter = self.make()
        await adapter.start(self.spec(**changes))
        return adapter

    async def prompt(self, adapter: CodexAdapter, text: str) -> Recorder:
        turn = Recorder()
        await adapter.prompt(text, [], turn)
        return turn

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``scenario``, and close all adapters whatever happens."""

        async def guarded() -> None:
            try:
                async with asyncio.timeout(LIMIT_S):
                    await scenario()
            finally:
                await asyncio.gather(*(adapter.close() for adapter in self.adapters))

        asyncio.run(guarded())

    def received(self) -> list[dict[str, Any]]:
        """Every record that the app-server got so far, answers to its own requests as well."""
        file = self.home / "requests.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def requests(self, method: str) -> list[dict[str, Any]]:
        """What the app-server was asked so far."""
        return [record for record in self.received() if record.get("method") == method]
