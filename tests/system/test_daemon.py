"""The whole daemon as a user meets it: a prompt over HTTP, its text in the events, the transcript read back."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.daemon import Daemon, Person
from tests.support.events import EventStream
from tests.support.invariants import answers_of, check_database
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def http_client(shared_daemon: Daemon) -> Iterator[httpx.Client]:
    with shared_daemon.client() as client:
        yield client


def test_a_prompt_is_accepted_streamed_and_kept(shared_daemon: Daemon) -> None:
    stream = EventStream(shared_daemon.url)
    wait_until(lambda: stream.events, "the first event")
    assert stream.events[0][0] == "state"
    person = Person(shared_daemon, "first")
    created = wait_until(lambda: stream.deltas("sessionCreated"), "sessionCreated")
    assert created[-1]["sessionId"] == person.session_id
    person.prompt("say Grüße, world 🌍", key="one")
    wait_until(lambda: person.read()["status"] == "idle", "the turn to end")
    wait_until(
        lambda: [d for d in stream.deltas("sessionSummaryUpdated") if d["session"]["status"] == "idle"], "idle event"
    )
    pieces = [d for d in stream.deltas("textDelta") if d["sessionId"] == person.session_id]
    assert "".join(piece["delta"] for piece in pieces) == "Grüße, world 🌍"
    at = 0
    for piece in pieces:
        assert piece["textStartByte"] == at
        at += len(piece["delta"].encode())
    session = person.read()
    assert [(m["author"], m["text"]) for m in session["messages"]] == [
        ("you", "say Grüße, world 🌍"),
        ("assistant", "Grüße, world 🌍"),
    ]
    revisions = [data["revision"] for name, data in stream.events if name in ("state", "delta")]
    assert revisions == sorted(revisions)
    stream.close()
    person.close()


def test_a_command_waits_for_a_person_and_its_output_is_kept(shared_daemon: Daemon) -> None:
    person = Person(shared_daemon, "command")
    person.prompt("run echo one two", key="run")
    asked = wait_until(
        lambda: next((m for m in person.read()["messages"] if m["type"] == "approval"), None), "an approval"
    )
    assert person.read()["status"] == "approval"
    with shared_daemon.client() as client:
        path = f"/api/sessions/{person.session_id}/approvals/{asked['id']}"
        assert client.post(path, json={"decision": "accepted"}).status_code == 200
        again = client.post(path, json={"decision": "accepted"})
    assert again.status_code == 409
    messages = person.wait_idle()["messages"]
    command = next(m for m in messages if m["type"] == "command")
    assert (command["status"], command["output"].strip()) == ("success", "one two")
    assert next(m for m in messages if m["type"] == "approval")["decision"] == "accepted"
    person.close()


def test_stop_ends_the_turn_and_starts_what_waits(shared_daemon: Daemon) -> None:
    person = Person(shared_daemon, "stopped")
    person.prompt("say begun\nwait 60", key="long")
    wait_until(lambda: answers_of(person.read()["messages"]), "the first words")
    person.prompt("say next", key="next")
    with shared_daemon.client() as client:
        reply = client.post(f"/api/sessions/{person.session_id}/stop")
    assert reply.status_code == 200, reply.text
    told = answers_of(person.wait_idle()["messages"])
    assert told[0] == "begun"
    assert told[-1] == "next"
    person.close()


BAD = [
    pytest.param("POST", "/api/sessions", b"{", {}, 422, "unprocessable", id="malformed JSON"),
    pytest.param("POST", "/api/sessions", b'{"name": 7}', {}, 422, "unprocessable", id="wrong type"),
    pytest.param("POST", "/api/sessions", b'{"agent": "Nobody"}', {}, 400, "invalid_request", id="unknown agent"),
    pytest.param("POST", "/api/sessions", b'{"agent": "OpenCode"}', {}, 400, "invalid_request", id="missing CLI"),
    pytest.param("GET", "/api/sessions/session-999", b"", {}, 404, "not_found", id="unknown session"),
    pytest.param("POST", "/api/sessions/session-999/stop", b"", {}, 404, "not_found", id="stop of an unknown session"),
    pytest.param("GET", "/api/health", b"", {"Host": "evil.example"}, 403, "forbidden", id="foreign Host"),
    pytest.param("GET", "/api/state", b"", {"Origin": "http://evil.example"}, 403, "forbidden", id="foreign Origin"),
    pytest.param("DELETE", "/api/state", b"", {}, 405, "invalid_request", id="wrong method"),
    pytest.param("GET", "/api/nothing", b"", {}, 404, "not_found", id="unknown path"),
]


@pytest.mark.parametrize(("method", "path", "body", "headers", "status", "code"), BAD)
def test_bad_input_gets_one_clear_error(
    http_client: httpx.Client, method: str, path: str, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    before = http_client.get("/api/state").json()
    if body:
        headers = {**headers, "Content-Type": "application/json"}
    reply = http_client.request(method, path, content=body, headers=headers)
    error = reply.json()
    assert (reply.status_code, error["code"]) == (status, code), error
    assert error["requestId"] == reply.headers["X-Request-Id"]
    assert error["error"]
    if path == "/api/sessions" and b"OpenCode" in body:
        assert "npm" in error["error"]
    after = http_client.get("/api/state").json()
    assert [s["id"] for s in after["sessions"]] == [s["id"] for s in before["sessions"]]


def test_a_body_over_the_limit_is_refused_and_the_daemon_goes_on(shared_daemon: Daemon) -> None:
    with shared_daemon.client() as client:
        reply = client.post("/api/sessions", json={"name": "x" * (17 << 20)})
        assert (reply.status_code, reply.json()["code"]) == (413, "invalid_request")
        assert client.get("/api/health").json()["ok"] is True


def test_two_hundred_streams_open_and_end_cleanly_at_sigterm(daemon: Daemon) -> None:
    streams = [EventStream(daemon.url) for _ in range(200)]
    try:
        wait_until(lambda: all(stream.events for stream in streams), "every stream to have its state")
        assert daemon.stop() == 0
        wait_until(lambda: all(stream.ended for stream in streams), "every stream to end")
        assert {stream.ended for stream in streams} == {"clean"}
    finally:
        for stream in streams:
            stream.close()


def test_a_second_daemon_on_the_same_home_names_the_first_and_ends(daemon: Daemon) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "supervisor", "--home", str(daemon.home.root), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert second.returncode == 75
    assert str(daemon.pid) in second.stderr
    assert daemon.url in second.stderr
    assert daemon.healthy()


def test_a_port_in_use_ends_the_start_and_names_its_owner(run_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        first = subprocess.run(
            [sys.executable, "-m", "supervisor", "--home", str(run_dir / "home"), "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert first.returncode == 74
    assert str(port) in first.stderr
    assert str(os.getpid()) in first.stderr


def test_a_home_that_cannot_be_written_ends_the_start(run_dir: Path) -> None:
    (run_dir / "file").write_text("no folder")
    ended = subprocess.run(
        [sys.executable, "-m", "supervisor", "--home", str(run_dir / "file" / "home"), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert ended.returncode == 73
    assert "--home" in ended.stderr


def test_a_home_with_a_long_path_works_through_a_short_folder(run_dir: Path) -> None:
    home = run_dir / ("long" * 30)
    with Daemon(home) as daemon:
        daemon.start()
        person = Person(daemon, "far away")
        person.prompt("say here", key="here")
        assert answers_of(person.wait_idle()["messages"]) == ["here"]
        person.close()
        assert daemon.stop() == 0


def test_the_portable_way_does_the_same(run_dir: Path) -> None:
    with Daemon(run_dir / "home", environment={"TERMAL_PORTABLE": "1"}) as daemon:
        daemon.start()
        person = Person(daemon, "portable")
        person.prompt("say one", key="one")
        assert answers_of(person.wait_idle()["messages"]) == ["one"]
        daemon.kill("state")
        person.prompt("say two", key="two")
        assert answers_of(person.wait_idle()["messages"])[-1] == "two"
        person.close()
        daemon.kill_supervisor()
        wait_until(lambda: not daemon.marked(), "every process to end with its supervisor", 10)


def test_files_are_the_owners_alone_and_nothing_secret_is_logged(daemon: Daemon) -> None:
    person = Person(daemon, "private")
    person.prompt("say the-secret-words", key="secret")
    person.wait_idle()
    person.close()
    assert daemon.stop() == 0
    for path in [daemon.home.root, *daemon.home.root.rglob("*")]:
        if path.is_socket():
            continue
        mode = path.lstat().st_mode & 0o777
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path.name} has mode {mode:o}"
    for log in daemon.home.logs.iterdir():
        assert "the-secret-words" not in log.read_text("utf-8", "replace"), log.name
    check_database(daemon.home.termal_db)


def test_status_names_every_process_with_its_figures(shared_daemon: Daemon) -> None:
    with shared_daemon.client() as client:
        status = client.get("/api/status").json()
    names = {process["name"] for process in status["processes"]}
    assert {"supervisor", "state", "coordination", "wake", "gateway"} <= names
    assert status["state"] == "ok"
    for process in status["processes"]:
        if process["pid"] is not None and process["state"] == "ready":
            assert process["rssBytes"] > 1 << 20
            assert process["fds"] > 0
            assert psutil.pid_exists(process["pid"])
    assert {database["name"] for database in status["databases"]} == {"termal.sqlite", "coordination.sqlite"}
    with shared_daemon.client() as client:
        metrics = client.get("/metrics")
    assert metrics.status_code == 200
    assert "termal_" in metrics.text


def test_a_client_that_never_reads_harms_nobody(shared_daemon: Daemon) -> None:
    host = shared_daemon.url.removeprefix("http://")
    with socket.create_connection(host.split(":"), timeout=30) as mute:  # type: ignore[arg-type]
        mute.sendall(f"GET /api/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        person = Person(shared_daemon, "beside")
        person.prompt("flood 3000000", key="flood")
        person.wait_idle(30)
        assert sum(len(text.encode()) for text in answers_of(person.transcript())) == 3_000_000
        person.close()


def test_an_agent_that_prints_garbage_or_hangs_is_dealt_with(daemon: Daemon) -> None:
    person = Person(daemon, "bad agent")
    person.prompt("garbage\nsay still here", key="garbage")
    assert answers_of(person.wait_idle()["messages"]) == ["still here"]
    person.prompt("hang", key="hang")
    with daemon.client() as client:
        stopped = client.post(f"/api/sessions/{person.session_id}/stop")
    assert stopped.status_code == 200, stopped.text
    person.prompt("say again", key="again")
    assert answers_of(person.wait_idle()["messages"])[-1] == "again"
    person.prompt("exit 3", key="exit")
    assert person.wait_idle()["status"] == "error"
    person.prompt("say back", key="back")
    assert answers_of(person.wait_idle()["messages"])[-1] == "back"
    person.close()


def test_a_killed_session_leaves_no_process_and_no_row(daemon: Daemon) -> None:
    person = Person(daemon, "killed")
    person.prompt("say up\nwait 60", key="wait")
    wait_until(lambda: answers_of(person.read()["messages"]), "the agent to work")
    agents = [p.pid for p in daemon.marked() if "termal.demo_agent" in " ".join(_words(p))]
    assert agents
    with daemon.client() as client:
        assert client.post(f"/api/sessions/{person.session_id}/kill").status_code == 200
        assert client.get(f"/api/sessions/{person.session_id}").status_code == 404
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in agents), "the agent to be gone")
    person.close()


def test_a_damaged_database_is_refused_in_words_and_left_alone(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    content = b"this is no database" * 1000
    daemon.home.termal_db.write_bytes(content)
    ended = subprocess.run(
        [sys.executable, "-m", "supervisor", "--home", str(daemon.home.root), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 65, ended.stderr
    assert "termal.sqlite" in ended.stderr
    assert daemon.home.termal_db.read_bytes() == content


def test_what_a_graceful_stop_found_streaming_is_there_afterwards(daemon: Daemon) -> None:
    person = Person(daemon, "streaming")
    person.prompt("say all of this\nwait 60", key="stream")
    wait_until(lambda: answers_of(person.read()["messages"]) == ["all of this"], "the text")
    assert daemon.stop() == 0
    daemon.start()
    person.reconnect()
    session = person.read()
    assert session["status"] == "error"
    assert answers_of(session["messages"])[0] == "all of this"
    person.close()


def test_the_clock_of_the_wall_is_not_what_anything_is_ordered_by(shared_daemon: Daemon) -> None:
    person = Person(shared_daemon, "ordered")
    for number in range(3):
        person.prompt(f"say {number}", key=str(number))
        person.wait_idle()
    transcript = person.transcript()
    assert [int(m["id"].split("-")[1]) for m in transcript] == sorted(int(m["id"].split("-")[1]) for m in transcript)
    person.close()


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _raw(daemon: Daemon, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(daemon.url.removeprefix("http://"), timeout=5)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def test_reads_wait_for_a_paused_state_and_say_so_when_it_stays_away(daemon: Daemon) -> None:
    person = Person(daemon, "paused")
    pid = daemon.kill("state", signal.SIGSTOP)
    status, body = _raw(daemon, f"/api/sessions/{person.session_id}")
    assert (status, body["code"]) == (503, "no_mutation_attempted")
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: _raw(daemon, f"/api/sessions/{person.session_id}")[0] == 200, "state to answer again", 15)
    person.close()
