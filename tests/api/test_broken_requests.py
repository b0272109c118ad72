"""Requests that no schema describes, sent as raw bytes: each has one clear answer, and the daemon goes on."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.daemon import Daemon

pytestmark = [pytest.mark.api, pytest.mark.slow]

S = "/api/sessions"
ONE = "/api/sessions/session-1"
LONG = "9" * 400
LINES = "Content-Type: application/x-ndjson"
HEADER = b'{"format": "termal-session", "version": 1, "session": {}}\n'
OTHER_FORMAT = HEADER.replace(b"1", b"999999999999999999999999999999")
IMAGE = b'{"text": "x", "attachments": [{"data": "%s", "mediaType": "image/png"}]}'
MARKER = b'{"kind": "bug", "name": "x", "color": "#aabbcc", "messageId": "%s"}'


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("api") / "home", faults=False) as running:
        running.start()
        with running.client() as http:
            assert http.post(S, json={"agent": "Demo", "workdir": "/"}).json()["sessionId"] == "session-1"
        yield running


def raw(daemon: Daemon, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (lower case) and body of the reply to ``request``."""
    address = urlsplit(daemon.url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=10) as connection:
        connection.sendall(request)
        reply = b""
        while piece := connection.recv(1 << 16):
            reply += piece
    head, _, body = reply.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split(" ")[1]), headers, body


def request_of(method: str, target: str | bytes, body: bytes | None = None, *lines: str) -> bytes:
    path = target.encode() if isinstance(target, str) else target
    head = [method.encode() + b" " + path + b" HTTP/1.1", b"Host: localhost", b"Connection: close"]
    if body is not None:
        head.append(b"Content-Length: %d" % len(body))
        if not any(line.lower().startswith("content-type") for line in lines):
            head.append(b"Content-Type: application/json")
    head += [line.encode("latin-1") for line in lines]
    return b"\r\n".join([*head, b"", body or b""])


GETS: list[tuple[str, str | bytes, int]] = [
    ("a NUL in an id", f"{S}/session%00-1", 404),
    ("a slash in an id", f"{S}/session%2F1", 404),
    ("an encoded slash is not one between segments", f"{S}/session-1%2Fhistory", 404),
    ("an encoded percent sign is decoded once", f"{S}/session%252D1", 404),
    ("a name that is encoded for no reason", f"{S}/%73ession-1", 200),
    ("invalid UTF-8 in an id", f"{S}/%ff%fe", 404),
    ("a surrogate in an id", f"{S}/%ed%a0%80", 404),
    ("half an escape", f"{S}/session%2", 404),
    ("a blank id", f"{S}/%20", 404),
    ("an empty id", f"{S}/", 404),
    ("two slashes at the start are one", "//api/state", 200),
    ("a dot segment", "/api/../api/state", 404),
    ("a huge number", f"{ONE}?tail={LONG}", 400),
    ("a negative number", f"{ONE}?tail=-1", 400),
    ("a number with a sign", f"{ONE}?tail=%2B5", 400),
    ("a number of other digits", f"{ONE}?tail=%D9%A5", 400),
    ("a fraction", f"{ONE}?tail=1.0", 400),
    ("an exponent", f"{ONE}?tail=1e1", 400),
    ("no value", f"{ONE}?tail", 400),
    ("an empty value", f"{ONE}?tail=", 400),
    ("a key twice", f"{ONE}?tail=1&tail=2", 400),
    ("the same value twice", f"{ONE}/history?limit=5&limit=5", 400),
    ("a comma list", f"{ONE}?tail=1,2", 400),
    ("invalid UTF-8 in the query", f"{ONE}/history?before=%ff", 409),
    ("raw bytes in the query", ONE.encode() + b"/history?before=\xff", 400),
    ("a NUL in the query", f"{ONE}/history?before=%00", 409),
    ("a surrogate in the query", f"{ONE}/history?before=%ed%a0%80", 409),
    ("an unknown key is ignored", f"{ONE}?tale=1", 200),
    ("a position beyond the end", f"{ONE}/history?around=999999999999999", 200),
    ("a position beyond all numbers", f"{ONE}/history?around={LONG}", 400),
    ("two selectors", f"{ONE}/history?before=a&from=start", 400),
    ("more buckets than there are", f"{ONE}/overview?buckets=513", 400),
    ("a search for nothing", "/api/search?q=", 400),
    ("a search for a NUL", "/api/search?q=%00", 400),
    ("a search for a quote", "/api/search?q=%22", 400),
    ("a search for a star", "/api/search?q=*", 400),
    ("a search in the words of an index", "/api/search?q=NEAR(a%20AND%20b)%20OR%20NOT%20%7Bc%7D%3A%5Ed", 200),
    ("a search for half a phrase", "/api/search?q=a%22b%27c--;", 400),
    ("a search from nowhere", "/api/search?q=a&cursor=%00", 400),
    ("a search in no session", "/api/search?q=a&sessionId=%00", 404),
    ("an export of nothing", f"{S}/%00/export", 404),
]


@pytest.mark.parametrize(("target", "status"), [pytest.param(*row[1:], id=row[0]) for row in GETS])
def test_an_odd_address_has_one_clear_answer(shared_daemon: Daemon, target: str | bytes, status: int) -> None:
    check(raw(shared_daemon, request_of("GET", target)), status)


POSTS: list[tuple[str, bytes, int]] = [
    ("no JSON", b"{", 422),
    ("nothing", b"", 422),
    ("two values", b"{}{}", 422),
    ("a trailing comma", b'{"agent": "Demo",}', 422),
    ("NaN", b'{"agent": NaN}', 422),
    ("invalid UTF-8", b'{"name": "\xff"}', 422),
    ("a raw surrogate", b'{"name": "\xed\xa0\x80"}', 422),
    ("an escaped surrogate", b'{"name": "\\ud800"}', 422),
    ("a byte order mark", b'\xef\xbb\xbf{"agent": "Demo"}', 422),
    ("UTF-16", '{"agent": "Demo"}'.encode("utf-16"), 422),
    ("an array", b"[]", 422),
    ("null", b"null", 422),
    ("a number for a text", b'{"name": 5}', 422),
    ("endless nesting", b"[" * 100_000, 422),
    ("endless nesting under an unknown key", b'{"x": ' + b"[" * 100_000, 422),
    ("a key twice: the last one counts", b'{"agent": "Nobody", "agent": "Demo"}', 201),
    ("a huge number under an unknown key", b'{"agent": "Demo", "x": ' + b"9" * 5000 + b"}", 201),
    ("a NUL in the directory", b'{"agent": "Demo", "workdir": "/\\u0000"}', 400),
    ("a directory that is too long", b'{"agent": "Demo", "workdir": "/' + b"x" * 5000 + b'"}', 400),
    ("a directory of a user that is not there", b'{"agent": "Demo", "workdir": "~nobody-at-all/x"}', 400),
    ("a relative directory that is not there", b'{"agent": "Demo", "workdir": "no/such"}', 400),
    ("a NUL in the agent", b'{"agent": "De\\u0000mo"}', 400),
    ("a NUL in the project", b'{"agent": "Demo", "projectId": "\\u0000"}', 400),
    ("a name that is too long", b'{"agent": "Demo", "name": "' + b"x" * 201 + b'"}', 400),
    ("a NUL in the name", b'{"agent": "Demo", "name": "a\\u0000b"}', 201),
    ("a name beyond the first plane", '{"agent": "Demo", "name": "\U0001f600\u202e"}'.encode(), 201),
]


@pytest.mark.parametrize(("body", "status"), [pytest.param(*row[1:], id=row[0]) for row in POSTS])
def test_an_odd_body_has_one_clear_answer(shared_daemon: Daemon, body: bytes, status: int) -> None:
    check(raw(shared_daemon, request_of("POST", S, body)), status)


OTHERS: list[tuple[str, str, str, bytes, int]] = [
    ("a NUL in a prompt", "POST", f"{ONE}/messages", b'{"text": "\\u0000"}', 202),
    ("a prompt of spaces of all kinds", "POST", f"{ONE}/messages", '{"text": "\u3000\u00a0 "}'.encode(), 400),
    ("an image that is no base64", "POST", f"{ONE}/messages", IMAGE % b"*", 400),
    ("an image without data", "POST", f"{ONE}/messages", IMAGE % b"", 400),
    ("a NUL in a setting", "POST", f"{ONE}/settings", b'{"name": "\\u0000"}', 200),
    ("a setting of another agent", "POST", f"{ONE}/settings", b'{"claudeEffort": "high"}', 400),
    ("a marker at a NUL", "POST", f"{ONE}/markers", MARKER % b"\\u0000", 400),
    ("a marker that is not there", "PATCH", f"{ONE}/markers/%00", b"{}", 404),
    ("a command that is a path", "POST", f"{ONE}/agent-commands/..%2F..%2Fetc%2Fpasswd/resolve", b"{}", 404),
    ("a command that is a NUL", "POST", f"{ONE}/agent-commands/%00/resolve", b"{}", 404),
    ("a project in a NUL", "POST", "/api/projects", b'{"rootPath": "/\\u0000"}', 400),
    ("a project of another daemon's NUL", "POST", "/api/projects", b'{"rootPath": "/", "remoteId": "\\u0000"}', 400),
    ("an answer for a NUL", "POST", f"{ONE}/user-input/%00", b'{"answers": {"\\u0000": [""]}}', 404),
    (
        "mail to a NUL",
        "POST",
        f"{ONE}/mailboxes/send",
        b'{"targetSessionId": "\\u0000", "message": "x", "idempotencyKey": "k"}',
        404,
    ),
    (
        "mail with half a character",
        "POST",
        f"{ONE}/mailboxes/send",
        b'{"targetSessionId": "x", "message": "\\ud800", "idempotencyKey": "k"}',
        422,
    ),
    ("a mailbox that is a NUL", "POST", f"{ONE}/mailboxes/%00/read", b"{}", 404),
    (
        "an acknowledgement beyond 64 bits",
        "POST",
        f"{ONE}/mailboxes/x/acknowledge",
        b'{"expectedProcessedThrough": 0, "processedThrough": 99999999999999999999}',
        422,
    ),
    ("a result without end", "POST", f"{ONE}/codex/requests/x", b'{"result": ' + b"9" * 500 + b"}", 404),
]


@pytest.mark.parametrize(("method", "target", "body", "status"), [pytest.param(*row[1:], id=row[0]) for row in OTHERS])
def test_an_odd_request_has_one_clear_answer(
    shared_daemon: Daemon, method: str, target: str, body: bytes, status: int
) -> None:
    check(raw(shared_daemon, request_of(method, target, body)), status)


HEADS: list[tuple[str, bytes, int]] = [
    ("no host", b"GET /api/state HTTP/1.1\r\nConnection: close\r\n\r\n", 403),
    ("another host", b"GET /api/state HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 403),
    ("another origin", request_of("GET", "/api/state", None, "Origin: http://evil.example"), 403),
    ("plain text", request_of("POST", S, b"{}", "Content-Type: text/plain"), 415),
    ("a form", request_of("POST", S, b"agent=Demo", "Content-Type: application/x-www-form-urlencoded"), 415),
    ("a packed body", request_of("POST", S, b"{}", "Content-Encoding: gzip"), 415),
    ("a wrong method", request_of("PUT", "/api/state", b"{}"), 405),
    ("a method without a body", request_of("DELETE", "/api/state"), 405),
    ("an unknown method", request_of("BREW", "/api/state"), 405),
    ("HEAD", request_of("HEAD", "/api/state"), 405),
    ("TRACE", request_of("TRACE", "/api/state"), 405),
    ("an empty key", request_of("POST", S, b'{"agent": "Demo"}', "Idempotency-Key: "), 400),
    ("a key that is no ASCII", request_of("POST", S, b'{"agent": "Demo"}', "Idempotency-Key: \xe4"), 400),
    ("a key that is too long", request_of("POST", S, b'{"agent": "Demo"}', "Idempotency-Key: " + "k" * 201), 400),
    ("an import of nothing", request_of("POST", f"{S}/import", b"", LINES), 422),
    ("an import of no header", request_of("POST", f"{S}/import", b"{\n", LINES), 422),
    ("an import of another format", request_of("POST", f"{S}/import", OTHER_FORMAT, LINES), 422),
    ("an import of a header alone", request_of("POST", f"{S}/import", HEADER, LINES), 422),
    ("an import of invalid UTF-8", request_of("POST", f"{S}/import", HEADER + b"\xff\n\n", LINES), 422),
    ("a body that is too large", request_of("POST", S, b" " * ((16 << 20) + 1)), 413),
    ("a length that is a lie", b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", 400),
]


@pytest.mark.parametrize(("request_bytes", "status"), [pytest.param(*row[1:], id=row[0]) for row in HEADS])
def test_an_odd_head_has_one_clear_answer(shared_daemon: Daemon, request_bytes: bytes, status: int) -> None:
    reply = raw(shared_daemon, request_bytes)
    if request_bytes.startswith(b"HEAD"):
        assert reply[0] == status
    elif b"Content-Length: -5" in request_bytes:
        # The server refuses what is no HTTP before the application sees it.
        assert reply[0] == status
    else:
        check(reply, status)


def test_a_number_beyond_64_bits_is_refused(shared_daemon: Daemon) -> None:
    remote = b'{"remotes": [{"id": "a", "name": "A", "transport": "ssh", "enabled": true, "host": "h", "port": %s}]}'
    check(raw(shared_daemon, request_of("POST", "/api/settings", remote % (b"9" * 30))), 422)


def check(reply: tuple[int, dict[str, str], bytes], status: int) -> None:
    """The status, JSON, a request id; of a refusal its whole body."""
    got, headers, body = reply
    assert got == status, body[:300]
    assert headers["content-type"] == "application/json"
    assert headers["x-request-id"]
    if got == 405:
        assert headers["allow"]
    if got >= 400:
        error = json.loads(body)
        assert error["error"]
        assert error["code"] != "internal"
        assert error["requestId"] == headers["x-request-id"]


def test_after_all_that_nothing_was_restarted(shared_daemon: Daemon, home_dir: Path) -> None:
    with shared_daemon.client() as http:
        assert http.get("/api/health").json()["state"] == "ok"
        assert {row["restarts"] for row in http.get("/api/status").json()["processes"]} == {0}
        made = http.get("/api/state").json()["sessions"]
    assert not home_dir.exists()
    assert len(made) == 1 + sum(status == 201 for _, _, status in POSTS)
