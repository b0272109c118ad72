"""What is done to a daemon besides killing it: disks, files, descriptors, paused processes, agents without manners.

Each has a clear answer, loses nothing that was acknowledged, and leaves the rest at work.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import httpx
import psutil
import pytest

from tests.support.daemon import Daemon, Person
from tests.support.invariants import answers_of, check_database, prompts_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

LIMIT_S = 15.0
PAUSED_S = 30.0
"""A paused worker is ended after twelve seconds of silence."""
BAD_AGENT = Path(__file__).parents[1] / "support" / "bad_agent.py"


@contextmanager
def person(daemon: Daemon, name: str, **named: Any) -> Iterator[Person]:
    made = Person(daemon, name, **named)
    try:
        yield made
    finally:
        made.close()


def attempt(daemon: Daemon, who: Person, text: str, key: str) -> httpx.Response:
    """One request and its answer, whatever it is."""
    with daemon.client() as client:
        path = f"/api/sessions/{who.session_id}/messages"
        return client.post(path, json={"text": text}, headers={"Idempotency-Key": key})


def health(daemon: Daemon) -> str:
    with daemon.client() as client:
        return str(client.get("/api/health").json()["state"])


def logged(daemon: Daemon, process: str) -> str:
    return daemon.home.log(process).read_text("utf-8", "replace")


@contextmanager
def limited(pid: int, what: int, soft: int) -> Iterator[None]:
    """A running process with a lower soft limit, for a while."""
    before = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (soft, before[1]))
    try:
        yield
    finally:
        if psutil.pid_exists(pid):
            resource.prlimit(pid, what, before)


# ------------------------------------------------------------------------------- disk


def test_a_full_disk_stops_writes_with_a_clear_error_and_nothing_else(daemon: Daemon) -> None:
    with person(daemon, "full") as who:
        who.prompt("say before", key="before")
        who.wait_idle()
        pid = daemon.pid_of("state")
        wal = daemon.home.termal_db.with_name("termal.sqlite-wal").stat().st_size
        with limited(pid, resource.RLIMIT_FSIZE, wal):
            refused = attempt(daemon, who, "say while full", key="full")
            assert refused.status_code in (503, 504), refused.text
            assert refused.json()["code"] in ("no_write_committed", "outcome_unknown")
            assert answers_of(who.read()["messages"])[0] == "before", "reading goes on"
            assert health(daemon) in ("ok", "degraded")
            assert daemon.pid_of("state") == pid
        assert attempt(daemon, who, "say while full", key="full").status_code == 202, "the same request succeeds"
        wait_until(lambda: answers_of(who.read()["messages"])[-1:] == ["while full"], "the turn to end", LIMIT_S)
        assert prompts_of(who.transcript()) == ["say before", "say while full"], "once, although it was sent twice"
        assert "store.trouble" in logged(daemon, "state")
        assert "store.recovered" in logged(daemon, "state")
    assert daemon.stop() == 0
    check_database(daemon.home.termal_db)


FILES = [
    pytest.param(["", "-wal", "-shm"], id="all three"),
    pytest.param([""], id="the database"),
    pytest.param(["-wal"], id="the write-ahead log"),
]


@pytest.mark.parametrize("suffixes", FILES)
def test_files_removed_under_the_daemon_are_put_back_with_all_that_they_held(
    daemon: Daemon, suffixes: list[str]
) -> None:
    with person(daemon, "removed") as who:
        who.prompt("say before", key="before")
        who.wait_idle()
        for suffix in suffixes:
            daemon.home.termal_db.with_name(f"termal.sqlite{suffix}").unlink()
        who.prompt("say after", key="after")
        who.wait_idle()
        assert "was removed while it was open" in logged(daemon, "state")
        # The turn that met it may have been cut off, as by any restart of this worker.
        who.prompt("say at last", key="last")
        who.wait_idle()
        daemon.kill("state")
        transcript = who.transcript()
        assert prompts_of(transcript) == ["say before", "say after", "say at last"]
        answers = answers_of(transcript)
        assert (answers[0], answers[-1]) == ("before", "at last")
        assert who.failed_reads == []
    assert daemon.stop() == 0
    check_database(daemon.home.termal_db)


def test_files_removed_while_nobody_writes_are_put_back_too(daemon: Daemon) -> None:
    with person(daemon, "idle") as who:
        who.prompt("say kept", key="kept")
        who.wait_idle()
        for file in (daemon.home.termal_db, daemon.home.coordination_db):
            file.unlink()
        for file in (daemon.home.termal_db, daemon.home.coordination_db):
            wait_until(file.exists, f"{file.name} to be there again", LIMIT_S)
        daemon.wait_healthy()
        daemon.kill("state")
        assert answers_of(who.transcript()) == ["kept"]
    assert daemon.stop() == 0
    check_database(daemon.home.coordination_db)


def test_a_file_that_took_the_place_of_the_database_is_not_written_over(daemon: Daemon) -> None:
    with person(daemon, "original") as who:
        who.prompt("say mine", key="mine")
        who.wait_idle()
        other = daemon.home.root / "other"
        other.write_bytes(b"somebody's own file" * 500)
        other.chmod(0o600)
        other.replace(daemon.home.termal_db)
        saved = daemon.home.termal_db.with_name("termal.sqlite.replaced")
        wait_until(saved.exists, "what was there to be saved", LIMIT_S)
        wait_until(lambda: health(daemon) == "down", "the daemon to be down", LIMIT_S)
        assert daemon.home.termal_db.read_bytes() == b"somebody's own file" * 500
        wait_until(lambda: "termal.sqlite" in json.dumps(daemon.report()), "the reason in the report", LIMIT_S)
        check_saved(saved, who)


def check_saved(saved: Path, who: Person) -> None:
    connection = apsw.Connection(str(saved), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows = connection.execute("SELECT value_json FROM messages WHERE session_id = ?", (who.session_id,)).fetchall()
    finally:
        connection.close()
    assert [json.loads(str(row[0]))["text"] for row in rows] == ["say mine", "mine"]


# ------------------------------------------------------------------- what files hold


def refused(daemon: Daemon) -> tuple[int, str]:
    """The exit code and the words of a start."""
    ended = subprocess.run(
        [sys.executable, "-m", "supervisor", "--home", str(daemon.home.root), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return ended.returncode, ended.stderr


def change(file: Path, sql: str, *parameters: Any) -> None:
    connection = apsw.Connection(str(file))
    try:
        connection.execute(sql, parameters)
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("name", "key"),
    [("termal.sqlite", "schema_version"), ("coordination.sqlite", "coordination_schema_version")],
    ids=["sessions", "mail"],
)
def test_a_foreign_schema_version_is_refused_in_words_and_left_alone(daemon: Daemon, name: str, key: str) -> None:
    assert daemon.stop() == 0
    file = daemon.home.root / name
    change(file, "UPDATE meta SET value = '999' WHERE key = ?", key)
    before = file.read_bytes()
    code, words = refused(daemon)
    assert (code, file.read_bytes() == before) == (65, True)
    assert name in words
    assert "999" in words


def test_a_corrupt_page_is_refused_in_words_and_left_alone(daemon: Daemon) -> None:
    with person(daemon, "paged") as who:
        who.prompt("say one", key="one")
        who.wait_idle()
    assert daemon.stop() == 0
    file = daemon.home.termal_db
    connection = apsw.Connection(str(file))
    root = int(str(connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages'").get))
    size = int(str(connection.execute("PRAGMA page_size").get))
    connection.close()
    content = bytearray(file.read_bytes())
    content[(root - 1) * size : root * size] = b"\xa5" * size
    file.write_bytes(content)
    code, words = refused(daemon)
    assert code == 65, words
    assert "termal.sqlite" in words
    assert "Traceback" not in words
    assert file.read_bytes() == bytes(content)


def test_a_corrupt_row_is_set_aside_and_the_rest_works(daemon: Daemon) -> None:
    with person(daemon, "broken") as who, person(daemon, "sound") as other:
        for each in (who, other):
            each.prompt("say here", key="here")
            each.wait_idle()
        assert daemon.stop() == 0
        change(daemon.home.termal_db, "UPDATE sessions SET value_json = '{\"no\"' WHERE id = ?", who.session_id)
        daemon.start()
        other.reconnect()
        other.prompt("say still", key="still")
        assert answers_of(other.wait_idle()["messages"]) == ["here", "still"]
        with daemon.client() as client:
            assert client.get(f"/api/sessions/{who.session_id}").status_code == 404
            database = client.get("/api/status").json()["databases"]
        assert next(row["quarantined"] for row in database if row["name"] == "termal.sqlite") == 1
    assert daemon.stop() == 0
    connection = apsw.Connection(str(daemon.home.termal_db), flags=apsw.SQLITE_OPEN_READONLY)
    kept = connection.execute("SELECT value_json FROM sessions WHERE id = ?", (who.session_id,)).get
    connection.close()
    assert kept == '{"no"', "for whoever can repair it"


# ------------------------------------------------------------------------ descriptors


def test_a_gateway_without_descriptors_keeps_those_it_serves_and_recovers(daemon: Daemon) -> None:
    pid = daemon.pid_of("gateway-worker")
    host, port = daemon.url.removeprefix("http://").split(":")
    with daemon.client() as client, person(daemon, "inside") as who:
        assert client.get("/api/health").status_code == 200
        with limited(pid, resource.RLIMIT_NOFILE, psutil.Process(pid).num_fds() + 8):
            crowd = [socket.create_connection((host, int(port)), timeout=5) for _ in range(40)]
            assert client.get("/api/health").status_code == 200, "an open connection is served"
            who.prompt("say inside", key="inside")
            for each in crowd:
                each.close()
        wait_until(lambda: health(daemon) == "ok", "new connections to be served again", LIMIT_S)
        assert answers_of(who.wait_idle()["messages"]) == ["inside"]
    assert daemon.pid_of("gateway-worker") == pid


@pytest.mark.parametrize("spare", [-4, 1], ids=["none left", "one left"])
def test_a_runtime_without_descriptors_fails_the_turn_in_words_and_recovers(daemon: Daemon, spare: int) -> None:
    with person(daemon, "first") as first, person(daemon, "second") as second:
        first.prompt("say warm", key="warm")
        first.wait_idle()
        pid = daemon.pid_of("runtime-acp")
        with limited(pid, resource.RLIMIT_NOFILE, psutil.Process(pid).num_fds() + spare):
            second.prompt("say never", key="never")
            session = second.wait_idle()
            assert session["status"] == "error"
            assert "Too many open files" in answers_of(session["messages"])[-1]
            first.prompt("say on", key="on")
            assert answers_of(first.wait_idle()["messages"])[-1] == "on", "running agents go on"
        second.prompt("say again", key="again")
        assert answers_of(second.wait_idle()["messages"])[-1] == "again"
        assert daemon.pid_of("runtime-acp") == pid


def test_a_state_without_descriptors_goes_on_with_those_it_has(daemon: Daemon) -> None:
    with person(daemon, "held") as who:
        who.prompt("say warm", key="warm")
        who.wait_idle()
        pid = daemon.pid_of("state")
        with limited(pid, resource.RLIMIT_NOFILE, psutil.Process(pid).num_fds()):
            who.prompt("say tight", key="tight")
            assert answers_of(who.wait_idle()["messages"])[-1] == "tight"
            old = daemon.kill("gateway-worker")
            wait_until(lambda: not psutil.pid_exists(old), "the old gateway to be gone")
        daemon.wait_healthy()
        who.prompt("say after", key="after")
        assert answers_of(who.wait_idle()["messages"])[-1] == "after"


# ---------------------------------------------------------------------------- pauses


def test_paused_workers_are_replaced_while_sessions_go_on(daemon: Daemon) -> None:
    with person(daemon, "beside") as who:
        who.prompt("say warm", key="warm")
        who.wait_idle()
        paused = {name: daemon.kill(name, signal.SIGSTOP) for name in ("coordination", "wake")}
        who.prompt("say meanwhile", key="meanwhile")
        assert answers_of(who.wait_idle()["messages"])[-1] == "meanwhile"
        for name, pid in paused.items():
            wait_until(
                lambda name=name, pid=pid: (  # type: ignore[misc]
                    (row := daemon.row(name)) is not None and row["state"] == "ready" and row["pid"] != pid
                ),
                f"a new {name}",
                PAUSED_S,
            )
            assert not psutil.pid_exists(pid)
        daemon.wait_healthy()


def test_a_paused_runtime_is_replaced_and_its_turn_ends(daemon: Daemon) -> None:
    with person(daemon, "paused") as who:
        who.prompt("say begun\nwait 60", key="one")
        wait_until(lambda: answers_of(who.read()["messages"]) == ["begun"], "the first words")
        pid = daemon.kill("runtime-acp", signal.SIGSTOP)
        wait_until(lambda: who.read()["status"] == "error", "the turn to end", PAUSED_S)
        assert not psutil.pid_exists(pid)
        who.prompt("say after", key="two")
        assert answers_of(who.wait_idle()["messages"])[-1] == "after"


def test_a_paused_gateway_is_replaced_and_serves_what_waited(daemon: Daemon) -> None:
    with person(daemon, "waiting") as who:
        pid = daemon.kill("gateway-worker", signal.SIGSTOP)
        who.prompt("say at last", key="last")
        assert daemon.pid_of("gateway-worker") != pid
        assert answers_of(who.wait_idle()["messages"]) == ["at last"]


def test_a_paused_worker_does_not_delay_the_end_of_the_daemon(daemon: Daemon) -> None:
    for name in ("coordination", "gateway-worker"):
        daemon.kill(name, signal.SIGSTOP)
    assert daemon.stop() == 0
    assert not daemon.marked()


# ---------------------------------------------------------------------------- agents


@pytest.fixture
def rude(home_dir: Path) -> Iterator[Daemon]:
    """A daemon with agents that break every rule, one each."""
    home_dir.mkdir(mode=0o700)
    agents = "\n".join(
        f"[agents.{name}]\ncommand = {json.dumps([sys.executable, str(BAD_AGENT), name.lower()])}\n"
        for name in ("Endless", "Garbage", "Deaf", "Dying")
    )
    (home_dir / "config.toml").write_text(agents)
    (home_dir / "config.toml").chmod(0o600)
    with Daemon(home_dir) as running:
        running.start()
        yield running


def spoilt(daemon: Daemon, who: Person) -> str:
    """The last words of a turn that failed."""
    session = who.wait_idle(30.0)
    assert session["status"] == "error", session
    return answers_of(session["messages"])[-1]


def test_an_agent_that_prints_a_hundred_megabytes_on_one_line_is_ended_in_words(rude: Daemon) -> None:
    with person(rude, "endless", agent="Endless") as who, person(rude, "beside") as other:
        other.prompt("say warm", key="warm")
        other.wait_idle()
        who.prompt("go", key="go")
        other.prompt("say beside", key="beside")
        assert answers_of(other.wait_idle()["messages"])[-1] == "beside"
        assert "64 MiB" in spoilt(rude, who)
        wait_until(lambda: not bad_agents(rude, "endless"), "the agent to be ended")
        pid = rude.pid_of("runtime-acp")
        assert psutil.Process(pid).memory_info().rss < 400 << 20


def test_an_agent_that_prints_garbage_is_listened_to_all_the_same(rude: Daemon) -> None:
    with person(rude, "garbage", agent="Garbage") as who:
        who.prompt("go", key="go")
        assert answers_of(who.wait_idle()["messages"]) == ["heard all the same"]


def test_an_agent_that_ignores_every_word_and_signal_is_ended_by_a_stop(rude: Daemon) -> None:
    with person(rude, "deaf", agent="Deaf") as who:
        who.prompt("go", key="go")
        wait_until(lambda: answers_of(who.read()["messages"]), "the agent to work")
        agents = bad_agents(rude, "deaf")
        assert agents
        with rude.client() as client:
            assert client.post(f"/api/sessions/{who.session_id}/stop").status_code == 200
        assert who.read()["status"] == "idle"
        wait_until(lambda: not any(agent.is_running() for agent in agents), "the agent to be ended", LIMIT_S)


def test_a_daemon_with_an_agent_that_ignores_every_signal_still_ends(rude: Daemon) -> None:
    with person(rude, "deaf", agent="Deaf") as who:
        who.prompt("go", key="go")
        wait_until(lambda: answers_of(who.read()["messages"]), "the agent to work")
        assert rude.stop() == 0
        assert not rude.marked()


def test_the_last_words_of_an_agent_name_no_path_of_the_host(rude: Daemon) -> None:
    with person(rude, "dying", agent="Dying") as who:
        who.prompt("go", key="go")
        words = spoilt(rude, who)
        assert "cannot read [path]" in words
        assert str(rude.home.root) in words, "the session's own folder is no secret"
        assert "/etc/" not in words


def bad_agents(daemon: Daemon, vice: str) -> list[psutil.Process]:
    found = []
    for process in daemon.marked():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if words[-1:] == [vice] and os.path.basename(words[1]) == BAD_AGENT.name:  # noqa: PTH119 - a word of a command
            found.append(process)
    return found
