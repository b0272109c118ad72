"""Boards over HTTP with the whole daemon: statuses, receipts, the form of values and of refusals."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import httpx
import pytest

from tests.support.board_http import BoardHttp
from tests.support.daemon import Daemon

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def http(shared_daemon: Daemon) -> Iterator[httpx.Client]:
    with shared_daemon.client() as client:
        yield client


@pytest.fixture
def board(http: httpx.Client, tmp_path: Path) -> BoardHttp:
    return BoardHttp(http, tmp_path)


def nested(levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.case("C78")
def test_null_is_a_value_and_an_exact_repeat_is_a_duplicate(board: BoardHttp) -> None:
    made = board.set("a", 0, None, once="k")
    assert made.status_code == 201
    receipt = made.json()
    assert (receipt["revision"], receipt["value"], receipt["deleted"], receipt["duplicate"]) == (1, None, False, False)
    assert '"value":null' in made.text
    again = board.set("a", 0, None, once="k")
    assert again.status_code == 200
    assert again.json() == {**receipt, "duplicate": True}


@pytest.mark.case("C79")
def test_a_deleted_key_says_so_and_comes_back_at_its_revision(board: BoardHttp) -> None:
    board.set("a", 0, 1)
    gone = board.set("a", 1)
    assert (gone.status_code, gone.json()["revision"], gone.json()["deleted"]) == (200, 2, True)
    assert gone.json()["value"] is None
    read = board.get("a")
    assert read.status_code == 404
    assert '"deleted":true' in read.json()["error"]
    assert '"deleted":true' in read.text
    assert read.json()["detail"]["current"]["deleted"] is True
    assert board.set("a", 0, 2).status_code == 409
    back = board.set("a", 2, 2)
    assert (back.status_code, back.json()["revision"]) == (200, 3)


@pytest.mark.case("C80")
def test_what_never_existed_is_not_there(board: BoardHttp) -> None:
    for reply in (board.set("a", 0), board.set("a", 5, 1)):
        assert (reply.status_code, reply.json()["detail"]) == (404, {"currentGeneration": 0})


@pytest.mark.case("C81")
def test_a_deleted_key_is_deleted_once(board: BoardHttp) -> None:
    board.set("a", 0, 1)
    board.set("a", 1)
    again, late = board.set("a", 2), board.set("a", 1)
    assert (again.status_code, late.status_code) == (404, 409)
    assert again.json()["detail"]["current"]["revision"] == late.json()["detail"]["current"]["revision"] == 2


@pytest.mark.case("C82")
def test_a_replayed_request_gets_its_old_receipt_and_changes_nothing(board: BoardHttp) -> None:
    first = board.set("a", 0, "old", once="k")
    board.set("a", 1, "new")
    replay = board.set("a", 0, "old", once="k")
    assert replay.status_code == 200
    assert replay.json() == {**first.json(), "duplicate": True}
    assert (replay.json()["revision"], replay.json()["generation"], replay.json()["value"]) == (1, 1, "old")
    head = board.get("a").json()
    assert (head["revision"], head["value"], head["scopeGeneration"]) == (2, "new", 2)


@pytest.mark.case("C83")
def test_a_key_of_another_intent_is_a_conflict_that_tells_the_generation_alone(board: BoardHttp) -> None:
    board.set("a", 0, 1, once="k")
    reply = board.set("a", 0, 2, once="k")
    assert (reply.status_code, reply.json()["reason"]) == (409, "keyReused")
    assert reply.json()["detail"] == {"currentGeneration": 1}
    assert board.set("a", 0, 1, once="k", stateStamp="s").status_code == 409


@pytest.mark.case("C84")
def test_a_value_comes_back_in_its_one_form(board: BoardHttp) -> None:
    made = board.post(b'{"key":"a","expectedRevision":0,"idempotencyKey":"k","value":{"z": 0, "a": {"z": 2, "a": 1}}}')
    assert '"value":{"a":{"a":1,"z":2},"z":0}' in made.text
    assert '"value":{"a":{"a":1,"z":2},"z":0}' in board.get("a").text
    assert '"value":{"a":{"a":1,"z":2},"z":0}' in board.page().text
    conflict = board.set("a", 0, 1)
    text, _, detail = conflict.json()["error"].partition("; detail: ")
    assert text == "a is at revision 1, not 0"
    assert json.loads(detail) == conflict.json()["detail"]
    assert detail == json.dumps(json.loads(detail), sort_keys=True, separators=(",", ":"))


@pytest.mark.case("C85")
def test_keys_follow_their_grammar(board: BoardHttp) -> None:
    for key in ("", ".a", "a.", "a..b", "A.b", "_a", "-a", ".".join("abcdefghi")):
        assert board.set(key, 0, 1).status_code == 400, key
        if key:
            assert board.get(key).status_code == 400, key
        assert board.page(afterKey=key, snapshotGeneration=0).status_code == 400, key
    assert board.set("activity.rust-suite", 0, 1).status_code == 201


@pytest.mark.case("C86")
def test_values_have_limits_of_size_and_depth(board: BoardHttp) -> None:
    assert board.set("a", 0, "a" * 4094).status_code == 201
    assert board.set("b", 0, "a" * 4095).status_code == 400
    assert board.set("c", 0, nested(32)).status_code == 201
    assert board.set("d", 0, nested(33)).status_code == 400
    # However it is written: the size is that of the canonical form, also of a text that is very long.
    white = b'{"key":"e","expectedRevision":0,"idempotencyKey":"e","value":[%b1]}'
    assert board.post(white % (b" " * 100_000)).status_code == 201
    assert board.set("f", 0, "a" * 100_000).status_code == 400


@pytest.mark.case("C88")
def test_a_board_has_512_keys_with_a_value_at_most(board: BoardHttp) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: board.set(f"k{number}", 0, number).status_code, range(512)))
    assert made == [201] * 512
    over = board.set("one-more", 0, 1)
    assert (over.status_code, over.json()["reason"]) == (400, "boardKeys")
    assert board.set("k0", 1).status_code == 200
    assert board.set("one-more", 0, 1).status_code == 201
    keys: list[str] = []
    selectors: dict[str, object] = {}
    while True:
        page = board.page(limit=200, **selectors).json()
        keys += [entry["key"] for entry in page["entries"]]
        if "nextAfterKey" not in page:
            break
        selectors = {"afterKey": page["nextAfterKey"], "snapshotGeneration": page["generation"]}
    assert keys == sorted([*(f"k{number}" for number in range(1, 512)), "one-more"])


@pytest.mark.case("C92")
def test_a_child_is_told_that_it_is_no_root_before_its_request_is_looked_at(home_dir: Path, tmp_path: Path) -> None:
    with Daemon(home_dir) as daemon:
        with daemon.start().client() as http:
            board = BoardHttp(http, tmp_path)
        daemon.stop()
        with closing(apsw.Connection(str(daemon.home.termal_db))) as database:
            database.execute(
                "UPDATE sessions SET value_json = json_set(value_json, '$.session.parentDelegationId', 'delegation-1')"
            )
        with daemon.start().client() as board.http:
            incomplete = {"key": "a", "expectedRevision": 0, "idempotencyKey": "k"}
            reply = board.post(incomplete)
            assert (reply.status_code, reply.json()["reason"]) == (400, "delegated")
            assert "root" in reply.json()["error"]
            assert board.post({**incomplete, "unknown": 1}).status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"key":"a"}',
        b'{"key":"a","expectedRevision":-1,"idempotencyKey":"k","value":1}',
        b'{"key":"a","expectedRevision":1.5,"idempotencyKey":"k","value":1}',
        b'{"key":"a","expectedRevision":"1","idempotencyKey":"k","value":1}',
        b'{"key":"a","expectedRevision":99999999999999999999999,"idempotencyKey":"k","value":1}',
        b'{"key":"a","expectedRevision":0,"idempotencyKey":"k","value":NaN}',
        b'{"key":"a","expectedRevision":0,"idempotencyKey":"k","value":"\\ud800"}',
        b'{"key":"a","expectedRevision":0,"idempotencyKey":"\\udc00","value":1}',
        b'{"key":"a","expectedRevision":0,"idempotencyKey":"k","value":' + b"[" * 130 + b"]" * 130 + b"}",
        b'{"key":"a","expectedRevision":0,"idempotencyKey":"k","value":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"key":"a","expectedRevision":0,"idempotencyKey":"k","value":1,"priority":1}',
        b'{"key":"a","expectedRevision":0,"idempotencyKey":"k","value":1,"delete":null}',
        b'{"key":"a","expectedRevision":0,"idempotencyKey":"k","value":[' + b" " * 70_000 + b"NaN]}",
    ],
    ids=lambda body: repr(body[:70]),
)
def test_a_body_of_another_form_is_422_and_changes_nothing(board: BoardHttp, body: bytes) -> None:
    reply = board.post(body)
    assert (reply.status_code, reply.json()["code"]) == (422, "unprocessable")
    assert board.page().json()["generation"] == 0


def test_of_two_members_of_one_name_the_last_one_counts(board: BoardHttp) -> None:
    reply = board.post(b'{"key":"a","expectedRevision":0,"idempotencyKey":"k","value":{"a":1,"b":2,"a":{"c":3}}}')
    assert reply.json()["value"] == {"a": {"c": 3}, "b": 2}


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 201},
        {"limit": "x"},
        {"limit": -1},
        {"afterKey": "a"},
        {"afterKey": "a", "snapshotGeneration": 0, "knownGeneration": 0},
        {"snapshotGeneration": "x"},
        {"knownGeneration": ""},
        {"colour": "red"},
    ],
    ids=str,
)
def test_a_query_that_makes_no_sense_is_400(board: BoardHttp, query: dict[str, object]) -> None:
    assert board.page(**query).status_code == 400


def test_sessions_without_a_board_are_told_why(http: httpx.Client, tmp_path: Path) -> None:
    board = BoardHttp(http, tmp_path)
    board.session_id = http.post("/api/sessions", json={"agent": "Demo"}).json()["sessionId"]
    for reply in (board.page(), board.get("a"), board.set("a", 0, 1)):
        assert (reply.status_code, reply.json()["reason"]) == (400, "noProject")
    board.session_id = "session-99999"
    for reply in (board.page(), board.get("a"), board.set("a", 0, 1)):
        assert (reply.status_code, reply.json()["reason"]) == (404, "unknownSession")


def test_projects_have_boards_of_their_own_that_their_sessions_share(http: httpx.Client, tmp_path: Path) -> None:
    one, other = BoardHttp(http, tmp_path), BoardHttp(http, tmp_path)
    one.set("a", 0, "one")
    assert other.get("a").status_code == 404
    one.session_id = one.session()
    assert one.get("a").json()["value"] == "one"
