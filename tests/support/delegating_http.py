"""A parent session over HTTP: it spawns, waits and reads as any client does."""

from pathlib import Path
from typing import Any

import httpx

from tests.support.daemon import Daemon
from tests.support.waiting import wait_until

LIMIT_S = 20.0


class Parent:
    """A session of the Demo agent that delegates."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.http: httpx.Client = daemon.client()
        made = self.post("/api/sessions", {"agent": "Demo", "workdir": str(folder)}, 201)
        self.id: str = made["sessionId"]

    def post(self, path: str, body: Any, status: int = 200, **headers: str) -> Any:
        reply = self.http.post(path, json=body, headers=headers)
        assert reply.status_code == status, reply.text
        return reply.json()

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        reply = self.http.get(path, params=query)
        assert reply.status_code == status, reply.text
        return reply.json()

    @property
    def path(self) -> str:
        return f"/api/sessions/{self.id}/delegations"

    def spawn(self, prompt: str, status: int = 201, **fields: Any) -> Any:
        return self.post(self.path, {"prompt": prompt, "mode": "explorer", **fields}, status)

    def one(self, spawned: Any) -> str:
        return f"{self.path}/{spawned['delegation']['id']}"

    def ended(self, spawned: Any) -> Any:
        def over() -> Any:
            record = self.get(self.one(spawned))["delegation"]
            return record if record["status"] not in ("queued", "running") else None

        return wait_until(over, "the delegation to be over", LIMIT_S)

    def texts(self) -> list[str]:
        session = self.get(f"/api/sessions/{self.id}", tail=64)["session"]
        return [message["text"] for message in session["messages"] if message["type"] == "text"]
