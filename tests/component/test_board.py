"""Boards on a real file: receipts, revisions, generations, limits, fences, and what a crash leaves of them."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from termal.wire.board_operations import BOARD_GET, BOARD_LIST, BOARD_SET, ReadBoard, ReadBoardKey, SetBoardKey
from termal.wire.coordination_operations import SCOPE_DELETE, DeleteScope
from termal.wire.errors import Busy, Conflict, Internal, InvalidRequest, NotFound, TermalError, Unprocessable
from termal.wire.mail_operations import MAILBOX_SEND
from termal.wire.operation import Operation
from tests.support.board_worker import ABSENT, SCOPE, BoardWorker
from tests.support.waiting import wait_until

ENTRY = (
    "INSERT INTO coordination_board_entries (scope_id, key, revision, generation, value_json, author_session_id,"
    " author_name, updated_at) VALUES ('project-1', ?, ?, ?, ?, 'a', 'Lead', '2026-01-01T00:00:00.000Z')"
)
RECEIPT = (
    "INSERT INTO coordination_board_idempotency (scope_id, author_session_id, idempotency_key, request_hash,"
    " receipt_json, created_at) VALUES ('project-1', 'b', ?, 'x', '{}', ?)"
)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine too it is the worker who says what became of a request with little time."""
    monkeypatch.setattr("termal.bus.call.GRACE_S", 4.0)


@pytest.fixture(scope="module")
def shared() -> Iterator[BoardWorker]:
    """For tests that find out what is refused, and change nothing."""
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    worker = BoardWorker(folder / "home", folder)
    worker.start()
    # Every connection is made before a test counts descriptors.
    worker.page()
    worker.acknowledge("b", worker.send("a", "b")["mailboxId"], 0, 1)
    yield worker
    worker.close()
    shutil.rmtree(folder)


@pytest.fixture
def worker(home_dir: Path, run_dir: Path) -> Iterator[BoardWorker]:
    worker = BoardWorker(home_dir, run_dir)
    worker.start()
    yield worker
    worker.close()


def stopped(worker: BoardWorker) -> None:
    assert worker.process.stop() == 0, worker.process.stderr()


# ----------------------------------------------------------------- reads and receipts


def test_a_receipt_a_head_and_a_page_say_everything_in_their_places(worker: BoardWorker) -> None:
    receipt = worker.set("gates.build", 0, {"z": 1.0, "a": "é"}, stamp="s1")
    written_at = receipt["updatedAt"]
    assert time.strptime(written_at, "%Y-%m-%dT%H:%M:%S." + written_at[20:23] + "Z")
    assert receipt == {
        "key": "gates.build",
        "revision": 1,
        "priorRevision": 0,
        "generation": 1,
        "value": {"a": "é", "z": 1.0},
        "deleted": False,
        "authorSessionId": "a",
        "authorName": "Lead",
        "updatedAt": written_at,
        "stateStamp": "s1",
        "duplicate": False,
    }
    second = worker.set("a", 0, None, by="b")
    assert "stateStamp" not in second
    head = {
        "key": "gates.build",
        "revision": 1,
        "updatedAtGeneration": 1,
        "value": {"a": "é", "z": 1.0},
        "deleted": False,
        "authorSessionId": "a",
        "authorName": "Lead",
        "updatedAt": written_at,
        "stateStamp": "s1",
    }
    assert worker.get("gates.build", by="c") == {**head, "scopeGeneration": 2}
    page = worker.page()
    assert (page["generation"], page["unchanged"]) == (2, False)
    assert [entry["key"] for entry in page["entries"]] == ["a", "gates.build"]
    assert page["entries"][1] == head
    assert "nextAfterKey" not in page


def test_a_board_that_was_never_written_is_empty_at_generation_0(worker: BoardWorker) -> None:
    assert worker.page() == {"generation": 0, "entries": [], "unchanged": False}
    assert worker.page(known_generation=0) == {"generation": 0, "entries": [], "unchanged": True}
    with pytest.raises(NotFound) as refused:
        worker.get("a")
    assert refused.value.detail == {"currentGeneration": 0}
    assert worker.refused("a", 1, 1).status == 404
    assert worker.rows("SELECT * FROM coordination_board_scopes") == []


@pytest.mark.case("C87")
def test_pages_are_of_one_generation_or_begin_again(worker: BoardWorker) -> None:
    for key in ("c", "a", "b"):
        worker.set(key, 0, key)
    first = worker.page(limit=2)
    assert [entry["key"] for entry in first["entries"]] == ["a", "b"]
    assert (first["generation"], first["nextAfterKey"]) == (3, "b")
    last = worker.page(limit=2, after_key="b", snapshot_generation=3)
    assert [entry["key"] for entry in last["entries"]] == ["c"]
    assert "nextAfterKey" not in last
    worker.set("a", 1)
    with pytest.raises(Conflict) as refused:
        worker.page(limit=2, after_key="b", snapshot_generation=3)
    assert refused.value.detail == {"currentGeneration": 4}
    with pytest.raises(Conflict):
        worker.page(snapshot_generation=3)
    assert worker.page(known_generation=4) == {"generation": 4, "entries": [], "unchanged": True}
    assert [entry["key"] for entry in worker.page(known_generation=3)["entries"]] == ["b", "c"]
    assert [entry["key"] for entry in worker.page(after_key="a", snapshot_generation=4)["entries"]] == ["b", "c"]


def test_two_authors_with_one_key_do_not_see_each_other_s_receipts(worker: BoardWorker) -> None:
    first = worker.set("a", 0, 1, by="a", once="same")
    error = worker.refused("a", 0, 1, by="b", once="same")
    assert (error.status, error.reason) == (409, "revisionConflict")
    second = worker.set("a", 1, 2, by="b", once="same")
    assert worker.set("a", 0, 1, by="a", once="same") == {**first, "duplicate": True}
    assert worker.set("a", 1, 2, by="b", once="same") == {**second, "duplicate": True}


def test_a_refused_write_leaves_no_trace_and_its_key_may_be_used_again(worker: BoardWorker) -> None:
    worker.set("a", 0, 1)
    tables = ("entries", "history", "idempotency", "scopes")
    before = [worker.rows(f"SELECT * FROM coordination_board_{table}") for table in tables]
    for expected, value in ((0, 2), (7, 2), (7, ABSENT)):
        assert worker.refused("a", expected, value, once="again").status == 409
    assert worker.refused("b", 3, 2, once="again").status == 404
    assert [worker.rows(f"SELECT * FROM coordination_board_{table}") for table in tables] == before
    assert worker.set("a", 1, 2, once="again")["revision"] == 2


def test_a_revision_beyond_what_a_row_can_hold_is_just_another_one(worker: BoardWorker) -> None:
    worker.set("a", 0, 1)
    assert worker.refused("a", 2**63, 1).status == 409
    assert worker.refused("b", 2**64 - 1, 1).status == 404


def test_a_renamed_author_keeps_the_old_name_on_what_was_written(worker: BoardWorker) -> None:
    first = worker.set("a", 0, 1, once="k")
    worker.state.names["a"] = "  New\tname "
    assert worker.set("a", 0, 1, once="k") == {**first, "duplicate": True}
    assert worker.set("b", 0, 1)["authorName"] == "New name"
    worker.state.names["a"] = ""
    assert worker.set("c", 0, 1)["authorName"] == "Unnamed session"


def test_the_clock_orders_nothing(worker: BoardWorker, tmp_path: Path) -> None:
    worker.set("a", 0, 1)
    stopped(worker)
    worker.fill("UPDATE coordination_board_entries SET updated_at = ?", [("2999-01-01T00:00:00.000Z",)])
    worker.fill("UPDATE coordination_board_idempotency SET created_at = ?", [("2999-01-01T00:00:00.000Z",)])
    worker.start("replacement")
    receipt = worker.set("a", 1, 2)
    assert (receipt["revision"], receipt["generation"]) == (2, 2)
    assert receipt["updatedAt"] < "2999"


# ------------------------------------------------------------------------------ limits


@pytest.mark.case("C89")
def test_a_deleted_key_keeps_its_name_and_can_come_back(worker: BoardWorker) -> None:
    stopped(worker)
    worker.fill("INSERT INTO coordination_board_scopes VALUES (?, ?)", [(SCOPE, 8192)])
    worker.fill(ENTRY, ((f"k{number}", 2, 2 * number + 2, None) for number in range(4096)))
    worker.start("replacement")
    error = worker.refused("new", 0, 1)
    assert (error.status, error.reason) == (400, "boardNames")
    restored = worker.set_all([worker.write("k7", 2, "back")])[0]
    assert not restored.created
    assert worker.get("k7")["revision"] == 3


def test_both_limits_count_what_is_there_after_each_write(worker: BoardWorker) -> None:
    stopped(worker)
    worker.fill("INSERT INTO coordination_board_scopes VALUES (?, ?)", [(SCOPE, 4095)])
    rows = ((f"k{number}", 1, number + 1, "1" if number < 511 else None) for number in range(4095))
    worker.fill(ENTRY, rows)
    worker.start("replacement")
    worker.set("last", 0, 1)
    assert worker.refused("more", 0, 1).reason == "boardNames"
    assert worker.refused("k600", 1, 1).reason == "boardKeys"
    worker.set("last", 1)
    worker.set("k600", 1, 1)
    assert worker.refused("last", 2, 1).reason == "boardKeys"
    assert worker.refused("more", 0, 1).reason == "boardNames"


@pytest.mark.case("C90")
def test_a_key_keeps_its_newest_100_earlier_revisions_until_it_is_deleted(worker: BoardWorker) -> None:
    worker.set_all([worker.write("a", number, number) for number in range(106)])
    assert worker.history("a") == list(range(6, 106))
    worker.set("a", 106)
    assert worker.history("a") == []
    worker.set("a", 107, "back")
    assert worker.history("a") == [107]
    assert worker.rows("SELECT value_json FROM coordination_board_history") == [(None,)]


@pytest.mark.case("C91")
def test_the_oldest_of_4097_receipts_is_forgotten_whatever_time_it_bears(worker: BoardWorker) -> None:
    worker.set("a", 0, 1, once="oldest")
    stopped(worker)
    worker.fill("UPDATE coordination_board_idempotency SET created_at = ?", [("2999-01-01T00:00:00.000Z",)])
    times = ((f"r{number}", "2026-01-01T00:00:00.000Z") for number in range(4095))
    worker.fill(RECEIPT, times)
    worker.start("replacement")
    assert worker.set("a", 0, 1, once="oldest")["duplicate"]
    worker.set("b", 0, 1, once="newest")
    assert worker.rows("SELECT count(*) FROM coordination_board_idempotency") == [(4096,)]
    error = worker.refused("a", 0, 1, once="oldest")
    assert (error.status, error.reason) == (409, "revisionConflict")
    assert worker.set("b", 0, 1, once="newest")["duplicate"]
    worker.set_all([worker.write(f"c{number}", 0, 1) for number in range(3)])
    assert worker.rows("SELECT count(*), min(rowid) FROM coordination_board_idempotency") == [(4096, 5)]


# ------------------------------------------------------------------------ who may ask


@pytest.mark.parametrize(
    ("verdict", "project", "error", "reason"),
    [
        ("unknown", (SCOPE, "local"), NotFound, "unknownSession"),
        ("hidden", (SCOPE, "local"), InvalidRequest, "hidden"),
        ("remote", (SCOPE, "local"), InvalidRequest, "remote"),
        ("delegated", (SCOPE, "local"), InvalidRequest, "delegated"),
        ("", (None, None), InvalidRequest, "noProject"),
        ("", ("gone", None), InvalidRequest, "unknownProject"),
        ("", (SCOPE, "remote"), InvalidRequest, "remoteProject"),
        ("", ("p" * 257, "local"), InvalidRequest, "boardText"),
    ],
    ids=["unknown", "hidden", "proxy", "child", "without project", "project gone", "remote project", "long id"],
)
def test_only_a_root_session_of_a_local_project_has_a_board(
    shared: BoardWorker, verdict: str, project: tuple[str, str], error: type[TermalError], reason: str
) -> None:
    shared.state.sessions["d"], shared.state.boards["d"] = verdict, project
    # What is wrong with the request is not told to whoever may not make it.
    wrong = SetBoardKey(session_id="d", key="WRONG", expected_revision=0, idempotency_key="")
    asked: list[tuple[Operation[Any, Any], object]] = [
        (BOARD_SET, wrong),
        (BOARD_GET, ReadBoardKey("d", "WRONG")),
        (BOARD_LIST, ReadBoard("d", limit=0)),
    ]
    for op, request in asked:
        refused = shared.begin(op, request).error()
        assert isinstance(refused, error)
        assert (refused.reason, refused.detail) == (reason, None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "valueOrDelete"),
        ({"value": b"1", "delete": True}, "valueOrDelete"),
        ({"value": b"1", "key": "A", "idempotency_key": "", "state_stamp": ""}, "boardKey"),
        ({"value": b"1", "idempotency_key": " "}, "boardText"),
        ({"value": b"1", "idempotency_key": "k" * 257}, "boardText"),
        ({"value": b"1", "state_stamp": "\n"}, "boardText"),
        ({"value": b"[" * 33 + b"]" * 33}, "valueDepth"),
        ({"value": b'"%b"' % (b"a" * 4095)}, "valueSize"),
        ({"value": b'"%b"' % (b"a" * 100_000)}, "valueSize"),
    ],
)
def test_the_first_fault_of_a_write_is_told(shared: BoardWorker, fields: dict[str, object], reason: str) -> None:
    write = {"session_id": "a", "key": "a", "expected_revision": 0, "idempotency_key": "k", **fields}
    with pytest.raises(InvalidRequest) as refused:
        shared.ask(BOARD_SET, SetBoardKey(**write))  # type: ignore[arg-type]
    assert refused.value.reason == reason
    assert shared.page()["generation"] == 0


def test_a_value_that_is_no_json_is_refused_before_anybody_is_asked(shared: BoardWorker) -> None:
    before = len(shared.state.questions)
    for value in (b"NaN", b'"\\ud800"', b"[" * 128 + b"]" * 128, b""):
        with pytest.raises(Unprocessable):
            shared.ask(
                BOARD_SET,
                SetBoardKey(session_id="a", key="a", expected_revision=0, idempotency_key="k", value=value),
            )
    assert len(shared.state.questions) == before


# --------------------------------------------------------------------- deleted scopes


def test_a_deleted_scope_takes_nothing_any_more_and_shows_nothing(worker: BoardWorker) -> None:
    worker.set("a", 0, 1)
    worker.ask(SCOPE_DELETE, DeleteScope(SCOPE))
    asked: list[tuple[Operation[Any, Any], object]] = [
        (BOARD_SET, worker.write("a", 0, 1)),
        (BOARD_GET, ReadBoardKey("a", "a")),
        (BOARD_LIST, ReadBoard("a", known_generation=1)),
    ]
    for op, request in asked:
        refused = worker.begin(op, request).error()
        assert (refused.status, refused.reason, refused.detail) == (404, "scopeDeleted", {"currentGeneration": 0})
    assert worker.rows("SELECT * FROM coordination_board_scopes") == []
    worker.state.boards["a"] = ("project-2", "local")
    assert worker.set("a", 0, 1)["generation"] == 1


# ------------------------------------------------------------ away, stuck and killed


def test_a_board_waits_for_state_and_says_that_nothing_happened_when_it_stays_away(worker: BoardWorker) -> None:
    worker.peer_down("state")
    limits = {"deadline_s": time.monotonic() + 0.4}
    with pytest.raises(Busy) as refused:
        worker.ask(BOARD_SET, worker.write("a", 0, 1), **limits)
    assert (refused.value.code, refused.value.reason) == ("no_write_committed", "stateAway")
    limits = {"deadline_s": time.monotonic() + 0.4}
    with pytest.raises(Busy) as refused:
        worker.ask(BOARD_LIST, ReadBoard("a"), **limits)
    assert refused.value.code == "no_mutation_attempted"
    waiting = worker.begin(BOARD_SET, worker.write("a", 0, 1))
    worker.peer_up("state")
    assert waiting.reply().created


def test_who_waits_too_long_for_the_writer_is_told_in_time_and_never_written(
    worker: BoardWorker, tmp_path: Path
) -> None:
    faults = tmp_path / "faults"
    worker.restart(faults=faults)
    worker.set("a", 0, 1)
    (faults / "coordination.in_group").write_text("hold")
    stuck = worker.begin(BOARD_SET, worker.write("a", 1, 2))
    wait_until((faults / "coordination.in_group.held").exists, "the writer to be stuck")
    late = worker.begin(BOARD_SET, worker.write("b", 0, 1, once="late"), deadline_s=time.monotonic() + 0.3)
    patient = worker.begin(BOARD_SET, worker.write("c", 0, 1))
    error = late.error()
    assert (error.status, error.code) == (503, "no_write_committed")
    assert worker.get("a")["value"] == 1
    (faults / "coordination.in_group.go").touch()
    assert not stuck.reply().created
    assert patient.reply().created
    assert worker.page()["generation"] == 3
    assert not worker.set("b", 0, 1, once="late")["duplicate"]


@pytest.mark.parametrize("point", ["coordination.in_group", "coordination.after_commit"])
def test_a_write_is_there_once_whatever_a_kill_left_of_its_first_attempt(
    worker: BoardWorker, tmp_path: Path, point: str
) -> None:
    faults = tmp_path / "faults"
    worker.restart(faults=faults)
    worker.set("a", 0, 1)
    (faults / point).write_text("kill")
    write = worker.begin(BOARD_SET, worker.write("a", 1, 2, once="k"))
    worker.process.process.wait(5)
    worker.start("replacement", faults=faults)
    assert not write.reply().created
    receipt = worker.set("a", 1, 2, once="k")
    assert (receipt["revision"], receipt["generation"], receipt["duplicate"]) == (2, 2, True)
    assert worker.history("a") == [1]


def test_a_write_that_fails_in_the_middle_takes_what_was_remembered_with_it(worker: BoardWorker) -> None:
    worker.set("a", 0, 1)
    stopped(worker)
    worker.fill(
        "CREATE TRIGGER IF NOT EXISTS no_b BEFORE INSERT ON coordination_board_idempotency"
        " WHEN new.idempotency_key = ? BEGIN SELECT RAISE(ABORT, 'no'); END".replace("?", "'bad'"),
        [()],
    )
    worker.start("replacement")
    assert isinstance(worker.refused("b", 0, 1, once="bad"), Internal)
    assert worker.page()["generation"] == 1
    receipt = worker.set("b", 0, 1, once="good")
    assert (receipt["revision"], receipt["generation"]) == (1, 2)


@pytest.mark.case("C93")
def test_neither_a_slow_read_nor_a_write_without_a_place_delays_mail(worker: BoardWorker, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    worker.restart(faults=faults)
    worker.set("a", 0, 1)
    (faults / "coordination.board_read").write_text("hold")
    read = worker.begin(BOARD_GET, ReadBoardKey("a", "a"))
    wait_until((faults / "coordination.board_read.held").exists, "the read to be under way")
    worker.state.silent.add("c")
    write = worker.begin(BOARD_SET, worker.write("b", 0, 1, by="c"))
    wait_until(lambda: worker.state.held, "state to be asked of the writer")
    assert worker.ask(MAILBOX_SEND, worker.mail()).json
    assert read.ends == write.ends == []
    (faults / "coordination.board_read.go").touch()
    worker.state_speaks()
    assert read.reply().json
    assert write.reply().created
