"""The board of one project over HTTP, for a test that wants statuses and bodies as they are."""

import itertools
from pathlib import Path
from typing import Any

import httpx

ABSENT = object()
_numbers = itertools.count(1)


class BoardHttp:
    """A fresh project with one session in it."""

    def __init__(self, http: httpx.Client, root: Path) -> None:
        self.http = http
        folder = root / f"project-{next(_numbers)}"
        folder.mkdir(parents=True)
        self.project_id: str = http.post("/api/projects", json={"rootPath": str(folder)}).json()["projectId"]
        self.session_id = self.session()

    @property
    def path(self) -> str:
        return f"/api/sessions/{self.session_id}/board"

    def session(self) -> str:
        """The id of one more session of the project."""
        made = self.http.post("/api/sessions", json={"agent": "Demo", "projectId": self.project_id})
        assert made.status_code == 201, made.text
        return str(made.json()["sessionId"])

    def body(
        self, key: str, expected: int, value: object = ABSENT, *, once: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Of the request that sets ``key``, or deletes it without a value; ``once`` is the idempotency key."""
        what = {"delete": True} if value is ABSENT else {"value": value}
        return {
            "key": key,
            "expectedRevision": expected,
            "idempotencyKey": once or f"k{next(_numbers)}",
            **what,
            **more,
        }

    def set(self, key: str, expected: int, value: object = ABSENT, **more: Any) -> httpx.Response:
        return self.post(self.body(key, expected, value, **more))

    def post(self, body: dict[str, Any] | bytes) -> httpx.Response:
        if isinstance(body, bytes):
            return self.http.post(f"{self.path}/set", content=body, headers={"Content-Type": "application/json"})
        return self.http.post(f"{self.path}/set", json=body)

    def get(self, key: str) -> httpx.Response:
        return self.http.get(f"{self.path}/keys/{key}")

    def page(self, **query: Any) -> httpx.Response:
        return self.http.get(self.path, params=query)

    def delete_project(self) -> httpx.Response:
        return self.http.delete(f"/api/projects/{self.project_id}")
