"""A daemon that asks for tokens: nothing answers without one, a session's opens that session alone."""

import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from termal.bridge.tools import FOR_ROOTS
from tests.support.bridge_process import BridgeProcess
from tests.support.token_daemon import TokenDaemon
from tests.support.waiting import wait_until

PATHS = ["/api/health", "/api/state", "/api/events", "/api/status", "/metrics", "/api/openapi.json", "/api/nothing"]


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenDaemon]:
    home = tmp_path_factory.mktemp("token") / "home"
    daemon = TokenDaemon(home)
    with daemon:
        daemon.start()
        yield daemon


@pytest.fixture(scope="module")
def session_id(shared_daemon: TokenDaemon) -> str:
    body = {"agent": "Demo", "name": "Lead", "workdir": str(shared_daemon.home.root)}
    made = httpx.post(f"{shared_daemon.url}/api/sessions", json=body, headers=shared_daemon.bearer())
    assert made.status_code == 201
    return str(made.json()["sessionId"])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "tokenMissing"),
        ({"Authorization": "Basic eDp5"}, "tokenMissing"),
        ({"Authorization": "Bearer to1.guessed"}, "tokenUnknown"),
    ],
    ids=["none", "another scheme", "another token"],
)
def test_nothing_answers_without_a_token(
    shared_daemon: TokenDaemon, path: str, headers: dict[str, str], reason: str
) -> None:
    reply = httpx.get(shared_daemon.url + path, headers=headers)
    assert (reply.status_code, reply.json()["code"], reply.json()["reason"]) == (403, "forbidden", reason)


def test_the_owners_token_opens_everything(shared_daemon: TokenDaemon) -> None:
    for path in PATHS[:2] + PATHS[3:6]:
        assert httpx.get(shared_daemon.url + path, headers=shared_daemon.bearer()).status_code == 200
    with httpx.stream("GET", shared_daemon.url + "/api/events", headers=shared_daemon.bearer()) as events:
        assert events.status_code == 200
        assert "event: state" in events.iter_lines()


def test_a_page_may_ask_which_headers_it_may_send(shared_daemon: TokenDaemon) -> None:
    asked = {"Origin": shared_daemon.url, "Access-Control-Request-Method": "GET"}
    reply = httpx.options(shared_daemon.url + "/api/state", headers=asked)
    assert reply.status_code == 200
    assert "authorization" in reply.headers["access-control-allow-headers"]


def test_a_sessions_token_opens_that_session(shared_daemon: TokenDaemon, session_id: str) -> None:
    own = shared_daemon.bearer(session_id)
    seen = httpx.get(f"{shared_daemon.url}/api/state", headers=own).json()
    assert [row["id"] for row in seen["sessions"]] == [session_id]
    assert "preferences" not in seen
    assert httpx.get(f"{shared_daemon.url}/api/sessions/{session_id}", headers=own).status_code == 200
    assert httpx.get(f"{shared_daemon.url}/api/sessions/{session_id}/mailboxes", headers=own).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/events"),
        ("GET", "/api/status"),
        ("POST", "/api/sessions"),
        ("POST", "/api/sessions/{own}/messages"),
        ("POST", "/api/sessions/{own}/settings"),
        ("POST", "/api/sessions/{own}/kill"),
        ("GET", "/api/sessions/session-999"),
        ("POST", "/api/sessions/session-999/delegations"),
        ("POST", "/api/sessions/session-999/mailboxes/send"),
    ],
)
def test_and_nothing_else(shared_daemon: TokenDaemon, session_id: str, method: str, path: str) -> None:
    url = shared_daemon.url + path.format(own=session_id)
    reply = httpx.request(method, url, headers=shared_daemon.bearer(session_id), json={} if method == "POST" else None)
    assert (reply.status_code, reply.json()["reason"]) == (403, "tokenScope")


def test_a_delegated_child_cannot_reach_its_parents_peers_by_raw_requests(
    shared_daemon: TokenDaemon, session_id: str
) -> None:
    sessions = f"{shared_daemon.url}/api/sessions"
    task = {"prompt": "say nothing", "agent": "Demo", "mode": "explorer"}
    made = httpx.post(f"{sessions}/{session_id}/delegations", json=task, headers=shared_daemon.bearer(), timeout=30)
    assert made.status_code == 201, made.text
    child = made.json()["childSession"]["id"]
    own = shared_daemon.bearer(child)
    mail = {"targetSessionId": session_id, "message": "m", "idempotencyKey": "k"}
    tried = [
        httpx.get(f"{sessions}/{child}/mailboxes", headers=own),
        httpx.post(f"{sessions}/{child}/mailboxes/send", json=mail, headers=own),
        httpx.get(f"{sessions}/{child}/board", headers=own),
        httpx.get(f"{sessions}/{session_id}/mailboxes", headers=own),
        httpx.get(f"{sessions}/{session_id}/delegations", headers=own),
        httpx.post(f"{sessions}/{session_id}/messages", json={"text": "x"}, headers=own),
    ]
    assert [(reply.status_code, reply.json()["reason"]) for reply in tried] == [(403, "tokenScope")] * len(tried)
    assert httpx.get(f"{sessions}/{child}/delegations", headers=own).status_code == 200
    seen = httpx.get(f"{shared_daemon.url}/api/state", headers=own).json()
    assert [row["id"] for row in seen["sessions"]] == [child]


def test_a_childs_bridge_has_no_peer_tool_with_the_childs_own_token(
    shared_daemon: TokenDaemon, session_id: str
) -> None:
    sessions = f"{shared_daemon.url}/api/sessions"
    task = {"prompt": "say nothing", "agent": "Demo", "mode": "explorer"}
    made = httpx.post(f"{sessions}/{session_id}/delegations", json=task, headers=shared_daemon.bearer(), timeout=30)
    assert made.status_code == 201, made.text
    child = made.json()["childSession"]["id"]
    token = shared_daemon.bearer(child)["Authorization"].removeprefix("Bearer ")
    environment = {"TERMAL_RUNTIME": "a test", "TERMAL_TOKEN": token}
    with BridgeProcess(shared_daemon.url, session_id=child, environment=environment) as bridge:
        bridge.greet()
        listed = {tool["name"] for tool in bridge.ask("tools/list")["result"]["tools"]}
        assert (len(listed), listed & set(FOR_ROOTS)) == (8, set())
        for name in FOR_ROOTS:
            refused = bridge.call(name, {"sessionId": session_id, "message": "m", "idempotencyKey": "k", "key": "k"})
            assert (refused["isError"], "root sessions" in refused["content"][0]["text"]) == (True, True), name
        assert bridge.call("termal_list_delegations")["structuredContent"]["delegations"] == []
    # A child that takes the place of its parent is told nothing either: the token is what counts.
    with BridgeProcess(shared_daemon.url, session_id=session_id, environment=environment) as forged:
        forged.greet()
        refused = forged.call("termal_list_delegations")
        assert (refused["isError"], refused["content"][0]["text"][:4]) == (True, "403 ")


def test_the_command_line_finds_its_token_by_the_directory(shared_daemon: TokenDaemon, session_id: str) -> None:
    command = [sys.executable, "-m", "termal", "sessions", "list", "--json", "--home", str(shared_daemon.home.root)]
    listed = subprocess.run(command, capture_output=True, timeout=30, check=True)
    assert session_id.encode() in listed.stdout
    elsewhere = [*command[:-2], "--home", str(shared_daemon.home.root) + "-other", "--base-url", shared_daemon.url]
    refused = subprocess.run(elsewhere, capture_output=True, timeout=30, check=False)
    assert refused.returncode == 1
    assert b"token" in refused.stderr


def test_an_agents_bridge_has_the_token_of_its_session_and_no_argument_list_has_any(
    shared_daemon: TokenDaemon, session_id: str
) -> None:
    """The demo agent calls a tool through its bridge, which the daemon lets pass by the token alone."""
    url = f"{shared_daemon.url}/api/sessions/{session_id}"
    prompt = {"text": "tool termal_list_sessions {}"}
    sent = httpx.post(f"{url}/messages", json=prompt, headers=shared_daemon.bearer())
    assert sent.status_code == 202

    def answered() -> str:
        shown = httpx.get(url, headers=shared_daemon.bearer()).json()["session"]
        return str(shown["messages"]) if shown["status"] in ("idle", "error") and len(shown["messages"]) > 1 else ""

    said = wait_until(answered, "the end of the turn", 30)
    assert session_id in said
    lines = shared_daemon.command_lines()
    assert [line for line in lines if "delegation-mcp" in line]
    for line in lines:
        assert "ts1." not in line
        assert shared_daemon.token not in line
    for log in shared_daemon.home.logs.iterdir():
        assert shared_daemon.token not in log.read_text("utf-8")
        assert "ts1." not in log.read_text("utf-8")
