"""Search, export and import as a user meets them: over HTTP and from the shell, against a daemon that is killed."""

import hashlib
import json
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.daemon import Daemon, Person
from tests.support.transcripts import begun_import, file_of, header, lines
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

NDJSON = {"Content-Type": "application/x-ndjson"}
HARD = "\U0001f600\U00020bb7 nul \0 \u202ertl\u202c " + "\U0001f680x" * (1 << 17) + " end-of-line"


@pytest.fixture
def http_client(shared_daemon: Daemon) -> Iterator[httpx.Client]:
    with shared_daemon.client() as client:
        yield client


def bring_in(client: httpx.Client, body: Any, **headers: str) -> httpx.Response:
    return client.post("/api/sessions/import", content=body, headers={**NDJSON, **headers})


def sessions(client: httpx.Client) -> set[str]:
    return {session["id"] for session in client.get("/api/state").json()["sessions"]}


def test_a_hard_text_survives_prompt_search_export_and_import(shared_daemon: Daemon, http_client: httpx.Client) -> None:
    session_id = http_client.post("/api/sessions", json={"agent": "Demo", "name": "Hard"}).json()["sessionId"]
    reply = http_client.post(f"/api/sessions/{session_id}/messages", json={"text": HARD})
    assert reply.status_code == 202
    found = http_client.get("/api/search", params={"q": '"end of line"', "sessionId": session_id}).json()
    hits = [hit for hit in found["hits"] if hit["author"] == "you"]
    assert [(hit["sessionName"], hit["position"]) for hit in hits] == [("Hard", 0)]
    marks = [hits[0]["snippet"]["text"][part["start"] : part["end"]] for part in hits[0]["snippet"]["ranges"]]
    assert marks == ["end", "of", "line"]
    exported = http_client.get(f"/api/sessions/{session_id}/export")
    assert exported.headers["content-type"] == "application/x-ndjson"
    *body, footer = exported.content.splitlines(keepends=True)
    assert json.loads(footer) == {
        "end": True,
        "count": len(body) - 1,
        "sha256": hashlib.sha256(b"".join(body)).hexdigest(),
    }
    assert json.loads(body[1])["text"] == HARD

    def cut() -> Iterator[bytes]:
        # No piece ends where a character does.
        for at in range(0, len(exported.content), 65_537):
            yield exported.content[at : at + 65_537]

    made = bring_in(http_client, cut())
    assert made.status_code == 201, made.text
    assert made.json()["session"]["messages"][0]["text"] == HARD
    again = http_client.get(f"/api/sessions/{made.json()['sessionId']}/export").content.splitlines()
    assert [json.loads(line)["text"] for line in again[1:-1]] == [json.loads(line)["text"] for line in body[1:]]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/search", 400),
        ("/api/search?q=", 400),
        ("/api/search?q=***", 400),
        ("/api/search?q=%22open", 400),
        ("/api/search?q=x&limit=0", 400),
        ("/api/search?q=x&limit=65", 400),
        ("/api/search?q=x&cursor=y", 400),
        ("/api/search?q=x&q=y", 400),
        ("/api/search?q=x&sessionId=session-999", 404),
        ("/api/sessions/session-999/export", 404),
    ],
)
def test_what_cannot_be_answered_is_refused(http_client: httpx.Client, path: str, status: int) -> None:
    reply = http_client.get(path)
    assert reply.status_code == status
    assert {"error", "code", "requestId"} <= set(reply.json())


GOOD = file_of(lines(3))
DAMAGED = {
    "empty": (b"", 422),
    "no header": (GOOD.split(b"\n", 1)[1], 422),
    "another format": (GOOD.replace(b"termal-session", b"other"), 422),
    "a later version": (GOOD.replace(b'"version": 1', b'"version": 2'), 422),
    "no last line": (GOOD[: GOOD.rindex(b'{"end"')], 422),
    "a cut line": (GOOD[:-20], 422),
    "a changed text": (GOOD.replace(b"said 1", b"sAid 1"), 422),
    "a missing line": (b"\n".join(line for line in GOOD.split(b"\n") if b"old-1" not in line), 422),
    "a line twice": (GOOD.replace(lines(3)[1], lines(3)[1] + b"\n" + lines(3)[1]), 422),
    "an empty line": (GOOD.replace(b"\n", b"\n\n", 2), 422),
    "more after the end": (GOOD + GOOD, 422),
    "a lone surrogate": (file_of([header(), lines(1)[1].replace(b"said 0", rb"\ud83d said")]), 422),
    "half a character": (file_of([header(), lines(1)[1].replace(b"said 0", b"\xf0\x9f")]), 422),
    "no name": (file_of([header(name=" ")]), 400),
    "a line without end": (header() + b"\n" + b"x" * (17 << 20), 413),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_import_gets_one_error_and_leaves_nothing(http_client: httpx.Client, name: str) -> None:
    body, status = DAMAGED[name]
    before = sessions(http_client)
    reply = bring_in(http_client, body)
    assert (reply.status_code, set(reply.json()) & {"error", "code", "requestId"}) == (
        status,
        {"error", "code", "requestId"},
    ), reply.text
    assert sessions(http_client) == before


def test_an_import_is_of_lines_of_json(http_client: httpx.Client) -> None:
    assert http_client.post("/api/sessions/import", json={}).status_code == 415


def test_a_repeated_import_is_the_same_session(http_client: httpx.Client) -> None:
    key = {"Idempotency-Key": str(uuid.uuid4())}
    first = bring_in(http_client, GOOD, **key)
    second = bring_in(http_client, GOOD, **key)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["sessionId"] == second.json()["sessionId"]
    assert bring_in(http_client, GOOD).json()["sessionId"] != first.json()["sessionId"]


def test_an_import_larger_than_any_other_body_is_taken(http_client: httpx.Client) -> None:
    text = "long " * (200 << 10)
    reply = bring_in(http_client, file_of(lines(20, text)))
    assert reply.status_code == 201
    assert reply.json()["session"]["messageCount"] == 20
    assert http_client.get("/api/search", params={"q": "long", "sessionId": reply.json()["sessionId"]}).json()["hits"]


def test_a_client_that_leaves_ends_its_export_and_its_import(shared_daemon: Daemon, http_client: httpx.Client) -> None:
    made = bring_in(http_client, file_of(lines(40, "long " * (100 << 10)))).json()["sessionId"]
    before = sessions(http_client)
    host, port = shared_daemon.url.removeprefix("http://").split(":")
    for _ in range(4):
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(f"GET /api/sessions/{made}/export HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert connection.recv(1000)
    for _ in range(4):
        with begun_import(shared_daemon.url, GOOD[:-100], more=1 << 30):
            pass
    # Their places are free again: each answers 429 until then.
    wait_until(lambda: bring_in(http_client, GOOD).status_code == 201, "a place for an import")

    def whole() -> bool:
        reply = http_client.get(f"/api/sessions/{made}/export")
        return reply.status_code == 200 and json.loads(reply.content.splitlines()[-1])["count"] == 40

    wait_until(whole, "a place for an export")
    assert len(sessions(http_client) - before) == 1


def test_a_killed_state_leaves_an_import_whole_or_not_there(daemon: Daemon) -> None:
    with daemon.client() as client:
        daemon.arm("state.import_slice", "kill 3")
        reply = bring_in(client, file_of(lines(400)))
        assert daemon.fired("state.import_slice")
        assert (reply.status_code, reply.json()["code"]) == (503, "no_write_committed"), reply.text
        daemon.wait_healthy()
        assert sessions(client) == set()
        assert bring_in(client, file_of(lines(400))).status_code == 201
        daemon.arm("state.after_commit_before_reply", "kill 4")
        second = bring_in(client, file_of(lines(400)))
        assert daemon.fired("state.after_commit_before_reply")
        if second.status_code != 201:
            assert second.json()["code"] == "no_write_committed"
        daemon.wait_healthy()
        assert len(sessions(client)) == 1 + (second.status_code == 201)
        found = client.get("/api/search", params={"q": "said 399", "limit": 64}).json()
        assert {hit["sessionId"] for hit in found["hits"]} == sessions(client)


def termal(daemon: Daemon, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    code = "import sys; from termal.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, *arguments, "--base-url", daemon.url]
    return subprocess.run(command, input=given, capture_output=True, timeout=30, check=False)


def test_a_session_goes_through_a_file_and_is_found_from_the_shell(shared_daemon: Daemon, tmp_path: Path) -> None:
    person = Person(shared_daemon, "shell")
    person.prompt("say quokka in the shell", key="one")
    person.wait_idle()
    file = tmp_path / "session.ndjson"
    done = termal(shared_daemon, "sessions", "export", person.session_id, str(file))
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    printed = termal(shared_daemon, "sessions", "export", person.session_id)
    assert printed.stdout == file.read_bytes()
    first = termal(shared_daemon, "sessions", "import", str(file)).stdout.decode().strip()
    second = termal(shared_daemon, "sessions", "import", "-", given=file.read_bytes()).stdout.decode().strip()
    assert len({person.session_id, first, second}) == 3
    found = termal(shared_daemon, "search", "quokka", "--session", second, "--json")
    hits = json.loads(found.stdout)["hits"]
    assert {hit["sessionId"] for hit in hits} == {second}
    text = termal(shared_daemon, "search", "quokka", "shell").stdout.decode()
    assert all(session_id in text for session_id in (person.session_id, first, second))
    broken = termal(shared_daemon, "sessions", "import", "-", given=file.read_bytes()[:-40])
    assert (broken.returncode, broken.stdout) == (1, b"")
    missing = termal(shared_daemon, "sessions", "export", "session-999", str(tmp_path / "none"))
    assert (missing.returncode, list(tmp_path.iterdir())) == (1, [file])
    person.close()
