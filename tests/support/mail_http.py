"""Two sessions that write to each other over HTTP, for a test that wants statuses and bodies as they are."""

import itertools
from typing import Any

import httpx

from tests.support.waiting import wait_until

Json = dict[str, Any]
_numbers = itertools.count(1)


class MailHttp:
    """``a`` and ``b`` are fresh sessions of the bundled agent; ``b`` is kept busy by `occupy`."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.a, self.b = self.session("A"), self.session("B")

    def session(self, name: str) -> str:
        made = self.http.post("/api/sessions", json={"agent": "Demo", "name": name, "workdir": "/"})
        assert made.status_code == 201, made.text
        return str(made.json()["sessionId"])

    def occupy(self, session_id: str) -> None:
        """Have the agent of ``session_id`` work on a turn that does not end."""
        started = self.http.post(f"/api/sessions/{session_id}/messages", json={"text": "hang"})
        assert started.status_code == 202, started.text

    def post(self, sender: str, target: str, key: str | None = None, **fields: Any) -> httpx.Response:
        body = {
            "targetSessionId": target,
            "message": "the text of the message",
            "idempotencyKey": key or f"key-{next(_numbers)}",
            **fields,
        }
        return self.http.post(f"/api/sessions/{sender}/mailboxes/send", json=body)

    def send(self, sender: str, target: str, key: str | None = None, **fields: Any) -> Json:
        reply = self.post(sender, target, key, **fields)
        assert reply.status_code == 202, reply.text
        receipt: Json = reply.json()
        return receipt

    def mailboxes(self, session_id: str) -> list[Json]:
        found = self.http.get(f"/api/sessions/{session_id}/mailboxes")
        assert found.status_code == 200, found.text
        mailboxes: list[Json] = found.json()
        return mailboxes

    def read(self, session_id: str, mailbox_id: str, **selectors: Any) -> httpx.Response:
        return self.http.post(f"/api/sessions/{session_id}/mailboxes/{mailbox_id}/read", json=selectors)

    def acknowledge(self, session_id: str, mailbox_id: str, expected: int, through: int) -> httpx.Response:
        body = {"expectedProcessedThrough": expected, "processedThrough": through}
        return self.http.post(f"/api/sessions/{session_id}/mailboxes/{mailbox_id}/acknowledge", json=body)

    def look(self, session_id: str) -> Json:
        """The session with its newest messages."""
        session: Json = self.http.get(f"/api/sessions/{session_id}").json()["session"]
        return session

    def queue(self, session_id: str) -> list[Json]:
        prompts: list[Json] = self.look(session_id).get("pendingPrompts") or []
        return prompts

    def wakes(self, session_id: str) -> list[Json]:
        """The mailbox wakes in the transcript."""
        messages = self.look(session_id)["messages"]
        return [found for found in messages if (found.get("source") or {}).get("kind") == "mailbox"]

    def wait_woken(self, session_id: str, count: int = 1) -> list[Json]:
        return wait_until(
            lambda: found if len(found := self.wakes(session_id)) >= count else None, f"{session_id} to be woken", 30
        )
