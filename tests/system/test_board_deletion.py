"""The board of a deleted project goes for good, whatever is killed, stuck or written meanwhile."""

import json
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from tests.support.board_http import BoardHttp
from tests.support.daemon import Daemon
from tests.support.waiting import wait_until
from workers.coordination.scopes import STEP_ROWS

pytestmark = [pytest.mark.system, pytest.mark.slow]

TABLES = ("scopes", "entries", "history", "idempotency")
PENDING = "SELECT value_json ->> '$.pendingCoordinationScopeDeletions' FROM app_state"
LONG_S = 30.0


@pytest.fixture
def http(daemon: Daemon) -> Iterator[httpx.Client]:
    with daemon.client() as client:
        yield client


def read(file: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.set_busy_timeout(5000)
        return connection.execute(sql, parameters).fetchall()


def pending(daemon: Daemon) -> list[str]:
    """What is stored of it now."""
    [[value]] = read(daemon.home.termal_db, PENDING)
    return [] if value is None else list(json.loads(value))


def rows(daemon: Daemon, scope_id: str) -> list[int]:
    file = daemon.home.coordination_db
    return [
        read(file, f"SELECT count(*) FROM coordination_board_{table} WHERE scope_id = ?", scope_id)[0][0]
        for table in TABLES
    ]


def fences(daemon: Daemon) -> list[str]:
    found = read(daemon.home.coordination_db, "SELECT scope_id FROM coordination_board_deleted_scopes")
    return [scope_id for (scope_id,) in found]


def written(board: BoardHttp) -> BoardHttp:
    """With an entry, an earlier revision and receipts."""
    assert board.set("a", 0, 1).status_code == 201
    assert board.set("a", 1, 2).status_code == 200
    return board


def killed(daemon: Daemon) -> None:
    daemon.kill_supervisor()
    wait_until(lambda: not daemon.marked(), "everybody to be gone", LONG_S)
    for file in daemon.faults.iterdir():
        file.unlink()


@pytest.mark.case("C94")
def test_a_kill_before_the_clean_up_is_made_good_and_a_stale_write_is_refused(
    daemon: Daemon, http: httpx.Client, tmp_path: Path
) -> None:
    board = written(BoardHttp(http, tmp_path))
    older = tmp_path / "older.sqlite"
    with closing(apsw.Connection(str(daemon.home.termal_db))) as connection:
        connection.execute("VACUUM INTO ?", (str(older),))
    daemon.arm("coordination.in_group", "hold")
    assert board.delete_project().status_code == 200
    wait_until((daemon.faults / "coordination.in_group.held").exists, "the clean-up to begin", LONG_S)
    assert (pending(daemon), fences(daemon), rows(daemon, board.project_id)) == ([board.project_id], [], [1, 1, 1, 2])
    killed(daemon)
    assert pending(daemon) == [board.project_id]
    daemon.start()
    wait_until(lambda: pending(daemon) == [], "the outbox to be empty", LONG_S)
    assert (fences(daemon), rows(daemon, board.project_id)) == ([board.project_id], [0, 0, 0, 0])
    daemon.stop()
    # An older copy of the sessions still knows the project, and so its sessions are let in.
    for suffix in ("", "-wal", "-shm"):
        daemon.home.termal_db.with_name(daemon.home.termal_db.name + suffix).unlink(missing_ok=True)
    older.rename(daemon.home.termal_db)
    with daemon.start().client() as board.http:
        for stale in (board.set("a", 2, 3), board.get("a"), board.page()):
            assert (stale.status_code, stale.json()["detail"]) == (404, {"currentGeneration": 0})
    assert rows(daemon, board.project_id) == [0, 0, 0, 0]


@pytest.mark.case("C95")
def test_a_kill_after_the_clean_up_repeats_it_and_finds_nothing(
    daemon: Daemon, http: httpx.Client, tmp_path: Path
) -> None:
    board = written(BoardHttp(http, tmp_path))
    daemon.arm("state.scope_deleted_before_commit", "hold")
    assert board.delete_project().status_code == 200
    wait_until((daemon.faults / "state.scope_deleted_before_commit.held").exists, "the confirmation", LONG_S)
    assert (fences(daemon), rows(daemon, board.project_id)) == ([board.project_id], [0, 0, 0, 0])
    killed(daemon)
    [fence] = read(daemon.home.coordination_db, "SELECT * FROM coordination_board_deleted_scopes")
    assert pending(daemon) == [board.project_id]
    daemon.start()
    wait_until(lambda: pending(daemon) == [], "the outbox to be empty", LONG_S)
    assert read(daemon.home.coordination_db, "SELECT * FROM coordination_board_deleted_scopes") == [fence]


@contextmanager
def locked(daemon: Daemon) -> Iterator[None]:
    with closing(apsw.Connection(str(daemon.home.termal_db))) as lock:
        lock.set_busy_timeout(5000)
        lock.execute("BEGIN IMMEDIATE")
        yield
        lock.execute("ROLLBACK")


@contextmanager
def full(daemon: Daemon) -> Iterator[None]:
    """A disk that takes not one more page of the store."""
    pid = daemon.pid_of("state")
    size = daemon.home.termal_db.with_name("termal.sqlite-wal").stat().st_size
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@pytest.mark.case("C96")
@pytest.mark.parametrize(
    "unwritable",
    [
        locked,
        pytest.param(
            full, marks=pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no limit for another process here")
        ),
    ],
)
def test_a_deletion_that_cannot_be_stored_touches_no_board(
    daemon: Daemon,
    http: httpx.Client,
    tmp_path: Path,
    unwritable: Callable[[Daemon], AbstractContextManager[None]],
) -> None:
    board = written(BoardHttp(http, tmp_path))
    with unwritable(daemon):
        # It is tried again until it is stored, so nobody may say that it will not happen.
        assert board.delete_project().status_code == 504
        assert (pending(daemon), fences(daemon), rows(daemon, board.project_id)) == ([], [], [1, 1, 1, 2])
        assert http.get("/api/status").json()["outbox"]["scopeDeletions"] == 1
    wait_until(lambda: fences(daemon) == [board.project_id], "the clean-up", LONG_S)
    wait_until(lambda: pending(daemon) == [], "the outbox to be empty", LONG_S)


@pytest.mark.case("C97")
def test_a_clean_up_that_gets_no_place_is_done_later(daemon: Daemon, http: httpx.Client, tmp_path: Path) -> None:
    board, other = written(BoardHttp(http, tmp_path)), BoardHttp(http, tmp_path)
    daemon.arm("coordination.in_group", "hold")
    with daemon.client() as second, ThreadPoolExecutor(1) as pool:
        other.http = second
        stuck = pool.submit(other.set, "a", 0, 1)
        wait_until((daemon.faults / "coordination.in_group.held").exists, "the writer to be busy", LONG_S)
        assert board.delete_project().status_code == 200
        assert pending(daemon) == [board.project_id]
        log = daemon.home.log("state")
        wait_until(lambda: "outbox.failed" in log.read_text("utf-8"), "the first pass to be over", LONG_S)
        assert (pending(daemon), fences(daemon), rows(daemon, board.project_id)) == (
            [board.project_id],
            [],
            [1, 1, 1, 2],
        )
        (daemon.faults / "coordination.in_group.go").touch()
        assert stuck.result().status_code == 201
    wait_until(lambda: pending(daemon) == [], "the next pass", LONG_S)
    assert (fences(daemon), rows(daemon, board.project_id)) == ([board.project_id], [0, 0, 0, 0])
    assert rows(daemon, other.project_id) == [1, 1, 0, 1]


@pytest.mark.case("C98")
def test_the_deletion_of_a_remote_project_is_nothing_for_coordination(
    daemon: Daemon, http: httpx.Client, tmp_path: Path
) -> None:
    box = {"id": "box", "name": "Box", "transport": "ssh", "enabled": True, "host": "box"}
    assert http.post("/api/settings", json={"remotes": [box]}).status_code == 200
    board = BoardHttp(http, tmp_path)
    daemon.stop()
    with closing(apsw.Connection(str(daemon.home.termal_db))) as connection:
        changed = "json_set(value_json, '$.projects[0].remoteId', 'box')"
        connection.execute(f"UPDATE app_state SET value_json = {changed} WHERE value_json ->> '$.projects' IS NOT NULL")
    with daemon.start().client() as board.http:
        refused = board.page()
        assert (refused.status_code, refused.json()["reason"]) == (400, "remoteProject")
        reply = board.delete_project()
        assert (reply.status_code, reply.json()["projects"]) == (200, [])
        assert pending(daemon) == []
        assert board.http.get("/api/status").json()["outbox"]["scopeDeletions"] == 0
    assert fences(daemon) == []


@pytest.mark.case("C122")
def test_mail_goes_between_the_steps_of_a_long_clean_up(daemon: Daemon, http: httpx.Client, tmp_path: Path) -> None:
    board = written(BoardHttp(http, tmp_path))
    sender, receiver = board.session(), board.session()
    assert http.post(f"/api/sessions/{receiver}/messages", json={"text": "hang"}).status_code == 202
    with closing(apsw.Connection(str(daemon.home.coordination_db))) as connection:
        connection.set_busy_timeout(5000)
        connection.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 50000)"
            " INSERT INTO coordination_board_history SELECT ?, 'k' || n, 1, 1, '1', 'a', 'a', 't', NULL FROM numbers",
            (board.project_id,),
        )
    [before] = rows(daemon, board.project_id)[2:3]
    daemon.arm("coordination.in_group", "hold 5")
    assert board.delete_project().status_code == 200
    wait_until((daemon.faults / "coordination.in_group.held").exists, "the fifth step", LONG_S)

    def send(number: int) -> int:
        body = {"targetSessionId": receiver, "message": "x", "idempotencyKey": f"k{number}"}
        with daemon.client() as own:
            return own.post(f"/api/sessions/{sender}/mailboxes/send", json=body).status_code

    with ThreadPoolExecutor(4) as pool:
        sends = pool.map(send, range(4))
        wait_until(
            lambda: (daemon.row("coordination") or {})["queueDepth"] == 5, "the messages to wait behind the step"
        )
        # After the step that is under way comes the group of the messages, and no other step.
        daemon.arm("coordination.after_commit", "hold 2")
        (daemon.faults / "coordination.in_group.go").touch()
        wait_until((daemon.faults / "coordination.after_commit.held").exists, "the next group to be stored", LONG_S)
        assert read(daemon.home.coordination_db, "SELECT count(*) FROM mailbox_messages") == [(4,)]
        assert rows(daemon, board.project_id)[2] >= before - 5 * STEP_ROWS
        (daemon.faults / "coordination.after_commit.go").touch()
        assert list(sends) == [202] * 4
    wait_until(lambda: pending(daemon) == [], "the outbox to be empty", LONG_S)
    assert rows(daemon, board.project_id) == [0, 0, 0, 0]
