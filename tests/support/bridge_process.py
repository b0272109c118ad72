"""A bridge as an agent starts it: its own process, spoken to over its pipes line by line."""

import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any

from tests.support.bridge_kit import CALLER

COMMAND = [sys.executable, "-m", "termal", "delegation-mcp"]
INITIALIZE = {
    "protocolVersion": "2024-11-05",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class BridgeProcess:
    """Use as a context manager; `close` is the agent that closes its end."""

    def __init__(
        self,
        url: str,
        *,
        session_id: str = CALLER,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "--parent-session-id", session_id, "--base-url", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ) if environment is None else environment,
        )
        self._number = 0
        self.notifications: list[dict[str, Any]] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def read(self) -> Any:
        """The next line, which must be JSON."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the bridge ended: {self._process.stderr.read() if self._process.stderr else b''!r}"
        return json.loads(line)

    def request(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request without waiting for its answer; its id."""
        self._number += 1
        body = {"jsonrpc": "2.0", "id": self._number, "method": method}
        self.send(json.dumps(body if params is None else {**body, "params": params}).encode())
        return self._number

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        body = {"jsonrpc": "2.0", "method": method}
        self.send(json.dumps(body if params is None else {**body, "params": params}).encode())

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request; notifications that come before it are kept."""
        while True:
            message = self.read()
            if message.get("id") == number:
                found: dict[str, Any] = message
                return found
            self.notifications.append(message)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.answer(self.request(method, params))

    def greet(self) -> dict[str, Any]:
        answer = self.ask("initialize", INITIALIZE)
        self.notify("notifications/initialized")
        found: dict[str, Any] = answer["result"]
        return found

    def call(self, tool: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("tools/call", {"name": tool, "arguments": arguments or {}})["result"]
        return result

    def close(self) -> int:
        """Close the pipe to it; its exit code."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        code = self._process.wait(10)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return code

    def kill(self) -> None:
        self._process.kill()

    def __enter__(self) -> "BridgeProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None and kind is not None:
            self._process.kill()
        self.close()
