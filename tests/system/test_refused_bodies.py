"""Large bodies that are refused: none of them stays in the memory of a process."""

import json
from typing import Any

import httpx
import psutil
import pytest

from tests.support.daemon import Daemon

pytestmark = [pytest.mark.system, pytest.mark.slow]

BIG = "x" * 1_000_000
COUNT = 100
GROWTH_BYTES = 48 << 20
HEADER = {
    "format": "termal-session",
    "version": 1,
    "session": {"name": "big", "emoji": "DM", "agent": "Demo", "workdir": "/", "model": "auto"},
}


def mail(**fields: Any) -> bytes:
    return json.dumps({"targetSessionId": "session-8", "message": BIG, "idempotencyKey": "k", **fields}).encode()


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.mark.parametrize(
    ("path", "kind", "body", "status"),
    [
        ("session-9/messages", "json", json.dumps({"text": BIG}).encode(), 404),
        ("session-9/mailboxes/send", "json", mail(), 404),
        ("session-9/mailboxes/send", "json", mail(idempotencyKey=5), 422),
        ("session-9/messages", "json", b'{"text": "' + BIG.encode(), 422),
        ("session-9/nothing", "json", mail(), 404),
        ("session-9/messages", "plain", BIG.encode(), 415),
        ("import", "x-ndjson", lines(HEADER, {"type": "unheard of", "text": BIG}, {}), 422),
        ("import", "x-ndjson", lines(HEADER, {"type": "text", "text": BIG}), 422),
    ],
    ids=["by state", "by coordination", "by shape", "no JSON", "no route", "no kind", "no message", "no end"],
)
def test_a_refused_body_is_forgotten_at_once(
    shared_daemon: Daemon, path: str, kind: str, body: bytes, status: int
) -> None:
    names = ("gateway-worker", "coordination", "state")
    processes = {name: psutil.Process(shared_daemon.pid_of(name)) for name in names}
    media = {"content-type": "text/plain" if kind == "plain" else f"application/{kind}"}
    with httpx.Client(base_url=shared_daemon.url, timeout=10) as http:
        before = {name: process.memory_info().rss for name, process in processes.items()}
        for _ in range(COUNT):
            assert http.post(f"/api/sessions/{path}", content=body, headers=media).status_code == status
    grown = {name: process.memory_info().rss - before[name] for name, process in processes.items()}
    assert max(grown.values()) < GROWTH_BYTES, grown
