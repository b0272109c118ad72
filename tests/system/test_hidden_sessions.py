"""Sessions that nobody sees: one on its way in, one whose row cannot be read, one that never was."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import apsw
import httpx
import pytest

from tests.support.daemon import Daemon
from tests.support.transcripts import begun_import, file_of, lines
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

UNKNOWN = "session-999"
ELSEWHERE = ("/board", "/mailbox", "/import")
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("messages", {"text": "hello"}),
    ("stop", {}),
    ("kill", {}),
    ("settings", {"name": "Other"}),
    ("model-options/refresh", {}),
    ("approvals/message-1", {"decision": "accepted"}),
    ("queued-prompts/message-1/cancel", {}),
    ("delegations", {"prompt": "Look.", "mode": "explorer"}),
    ("codex/thread/fork", {}),
]


def create(client: httpx.Client, name: str) -> str:
    reply = client.post("/api/sessions", json={"agent": "Demo", "name": name})
    assert reply.status_code == 201, reply.text
    return str(reply.json()["sessionId"])


@pytest.fixture(scope="module")
def quarantined(shared_daemon: Daemon) -> str:
    """The id of a session whose row the daemon could not read at its start."""
    with shared_daemon.client() as client:
        session_id = create(client, "Unreadable")
    shared_daemon.stop()
    with closing(apsw.Connection(str(shared_daemon.home.termal_db))) as connection:
        connection.execute("UPDATE sessions SET value_json = '{' WHERE id = ?", (session_id,))
    shared_daemon.start()
    return session_id


@contextmanager
def on_its_way_in(daemon: Daemon, client: httpx.Client) -> Iterator[str]:
    """The id of a session whose import has begun and not ended; afterwards it is a session like all others."""
    hidden = number_after(create(client, "Before"))
    body = file_of(lines(3))
    with begun_import(daemon.url, body[:-10], more=10) as connection:
        wait_until(lambda: client.get(f"/api/sessions/{hidden}/mailboxes").status_code == 400, "the import to begin")
        yield hidden
        connection.sendall(body[-10:])
        assert connection.recv(1000).startswith(b"HTTP/1.1 201 ")
    assert client.get(f"/api/sessions/{hidden}").json()["session"]["messageCount"] == 3
    assert client.get(f"/api/sessions/{hidden}/mailboxes").status_code == 200


def number_after(session_id: str) -> str:
    return f"session-{int(session_id.removeprefix('session-')) + 1}"


def readings(client: httpx.Client) -> list[str]:
    """Every path that reads of a session, with names that are not there."""
    paths = client.get("/api/openapi.json").json()["paths"]
    start = "/api/sessions/{session_id}"
    found = [path.removeprefix(start) for path, ways in paths.items() if path.startswith(start) and "get" in ways]
    return [path.replace("{", "").replace("}", "") for path in found]


@pytest.mark.case("H6")
def test_what_is_hidden_set_aside_or_unknown_is_not_there(shared_daemon: Daemon, quarantined: str) -> None:
    with shared_daemon.client() as client, on_its_way_in(shared_daemon, client) as hidden:
        paths = [path for path in readings(client) if not any(word in path for word in ELSEWHERE)]
        assert {"", "/history", "/overview", "/markers", "/export", "/delegations"} <= set(paths)
        for session_id in (hidden, quarantined, UNKNOWN):
            for path in paths:
                reply = client.get(f"/api/sessions/{session_id}{path}")
                assert (reply.status_code, reply.json()["code"]) == (404, "not_found"), (session_id, path, reply.text)
            for path, body in WRITES:
                reply = client.post(f"/api/sessions/{session_id}/{path}", json=body)
                assert (reply.status_code, reply.json()["code"]) == (404, "not_found"), (session_id, path, reply.text)
        shown = {session["id"] for session in client.get("/api/state").json()["sessions"]}
        assert not shown & {hidden, quarantined, UNKNOWN}


@pytest.mark.case("H40")
def test_a_hidden_session_is_no_party_of_mail_and_of_no_board(shared_daemon: Daemon) -> None:
    with shared_daemon.client() as client, on_its_way_in(shared_daemon, client) as hidden:
        root, other = create(client, "Root"), create(client, "Other")
        mail = {"targetSessionId": other, "message": "hello", "idempotencyKey": "k"}
        sent = client.post(f"/api/sessions/{root}/mailboxes/send", json=mail)
        assert sent.status_code == 202, sent.text
        mailbox, message = sent.json()["mailboxId"], sent.json()["messageId"]
        for path in ("mailboxes", "mailboxes/sent", f"mailbox-messages/{message}", "board", "board/keys/k"):
            reply = client.get(f"/api/sessions/{hidden}/{path}")
            assert (reply.status_code, reply.json()["code"]) == (400, "invalid_request"), (path, reply.text)
        for path, body in (
            (f"mailboxes/{mailbox}/read", {}),
            (f"mailboxes/{mailbox}/acknowledge", {"expectedProcessedThrough": 0, "processedThrough": 1}),
            ("mailboxes/send", {**mail, "idempotencyKey": "other"}),
            ("board/set", {"key": "k", "value": "v", "expectedRevision": 0, "idempotencyKey": "k"}),
        ):
            reply = client.post(f"/api/sessions/{hidden}/{path}", json=body)
            assert (reply.status_code, reply.json()["code"]) == (400, "invalid_request"), (path, reply.text)
            assert "is hidden" in reply.json()["error"], (path, reply.text)
        to_hidden = {**mail, "targetSessionId": hidden, "idempotencyKey": "to hidden"}
        reply = client.post(f"/api/sessions/{root}/mailboxes/send", json=to_hidden)
        assert reply.status_code == 400
        assert "the target session is not a local root session: it is hidden" in reply.json()["error"]
        for path in ("", "/history", "/overview"):
            assert client.get(f"/api/sessions/{hidden}{path}").status_code == 404


def test_a_session_whose_import_was_given_up_never_was(shared_daemon: Daemon) -> None:
    with shared_daemon.client() as client:
        hidden = number_after(create(client, "Before"))
        with begun_import(shared_daemon.url, file_of(lines(3))[:-10]):
            wait_until(lambda: client.get(f"/api/sessions/{hidden}/board").status_code == 400, "the import to begin")
        wait_until(lambda: client.get(f"/api/sessions/{hidden}/board").status_code == 404, "the import to be over")
        assert create(client, "After") != hidden
