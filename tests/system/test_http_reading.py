"""Reading at any length over HTTP: a whole daemon on a database that was filled while none ran."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from tests.support.daemon import Daemon
from tests.support.events import EventStream
from tests.support.stored import StoredSessions, of_kinds
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

Json = dict[str, Any]
QUARTERS = of_kinds(["text"] * 25 + ["command"] * 25 + ["diff"] * 25 + ["error"] * 25)
EMPTY, TWO, EIGHTY, HUNDRED, LONG, BROKEN = (f"session-{number}" for number in range(1, 7))
MANY = 25_000


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    try:
        daemon = Daemon(folder / "home")
        with StoredSessions(daemon.home.termal_db, str(folder)) as sessions:
            for count in (0, 2, 80, 100, MANY, 1):
                sessions.add(count, QUARTERS)
        connection = apsw.Connection(str(daemon.home.termal_db))
        connection.execute("UPDATE sessions SET value_json = '{ not json' WHERE id = ?", (BROKEN,))
        connection.close()
        with daemon:
            daemon.start()
            yield daemon
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def http(shared_daemon: Daemon) -> Iterator[httpx.Client]:
    with shared_daemon.client() as client:
        yield client


def get(http: httpx.Client, path: str, **query: Any) -> Json:
    reply = http.get(f"/api/sessions/{path}", params=query)
    assert reply.status_code == 200, reply.text
    body: Json = reply.json()
    return body


def positions(messages: list[Json], first: int) -> list[int]:
    """The positions of ``messages``, by their ids, in a session whose first message is number ``first``."""
    return [int(message["id"].removeprefix("message-")) - first for message in messages]


@pytest.mark.case("H2")
def test_the_state_holds_no_message_however_many_are_stored(http: httpx.Client) -> None:
    reply = http.get("/api/state")
    sessions = {session["id"]: session for session in reply.json()["sessions"]}
    assert [session["messages"] for session in sessions.values()] == [[]] * 5
    assert [sessions[name]["messageCount"] for name in (TWO, EIGHTY, HUNDRED, LONG)] == [2, 80, 100, MANY]
    assert [sessions[name]["messagesLoaded"] for name in (EMPTY, LONG)] == [True, False]
    same = {"messageCount": 0, "messagesLoaded": True, "id": EMPTY, "name": "", "sessionMutationStamp": 0}
    assert {**sessions[LONG], **same} == {**sessions[EMPTY], **same}


@pytest.mark.case("H3", "H4")
def test_the_tail_is_the_newest_messages(http: httpx.Client) -> None:
    for query, count in (({"tail": 3}, 3), ({}, 20)):
        session = get(http, EIGHTY, **query)["session"]
        assert positions(session["messages"], 3) == list(range(80 - count, 80))
        assert (session["messagesLoaded"], session["messageCount"]) == (False, 80)
    session = get(http, TWO, tail=5)["session"]
    assert (len(session["messages"]), session["messagesLoaded"]) == (2, True)


BAD: list[Any] = [
    *[pytest.param(EIGHTY, f"tail={tail}", 400, id=f"tail {tail}", marks=pytest.mark.case("H5")) for tail in (0, 65)],
    pytest.param(EIGHTY, "tail=abc", 400, id="tail abc", marks=pytest.mark.case("H5")),
    *[
        pytest.param(f"{EIGHTY}/history", query, 400, id=query, marks=pytest.mark.case("H7"))
        for query in ("limit=0", "limit=65", "before=", "before=x&after=y", "from=end")
    ],
    pytest.param(f"{EIGHTY}/history", "before=missing", 409, id="stale cursor", marks=pytest.mark.case("H8")),
    pytest.param(f"{EIGHTY}/overview", "buckets=0", 400, id="no bucket", marks=pytest.mark.case("H9")),
    pytest.param(f"{EIGHTY}/overview", "buckets=513", 400, id="513 buckets", marks=pytest.mark.case("H9")),
    *[
        pytest.param(f"{session}{path}", "", 404, id=f"{session}{path}")
        for session in (BROKEN, "session-999")
        for path in ("", "/history", "/overview", "/markers")
    ],
]


@pytest.mark.parametrize(("path", "query", "status"), BAD)
def test_what_cannot_be_read_gets_one_clear_error(http: httpx.Client, path: str, query: str, status: int) -> None:
    reply = http.get(f"/api/sessions/{path}?{query}")
    assert reply.status_code == status, reply.text
    assert reply.json()["error"]


def test_every_page_of_a_long_transcript_can_be_walked_to_in_both_directions(http: httpx.Client) -> None:
    for first, flag, cursor, back in (
        ({"from": "start"}, "hasNewer", "after", "nextAfter"),
        ({}, "hasMore", "before", "nextBefore"),
    ):
        seen: list[int] = []
        page = get(http, f"{HUNDRED}/history", limit=17, **first)
        while True:
            seen += positions(page["messages"], 83)
            assert page["messageStartIndex"] == positions(page["messages"], 83)[0]
            if not page[flag]:
                break
            page = get(http, f"{HUNDRED}/history", limit=17, **{cursor: page[back]})
        assert sorted(seen) == list(range(100))
    around = get(http, f"{LONG}/history", around=12_345, limit=20)
    assert (around["messageStartIndex"], len(around["messages"]), around["messageCount"]) == (12_335, 20, MANY)


@pytest.mark.case("S91")
def test_an_overview_draws_the_whole_transcript(http: httpx.Client) -> None:
    anchor = get(http, f"{HUNDRED}/history", around=40, limit=1)["messages"][0]["id"]
    body = {"kind": "review", "name": "Here", "color": "#Ff0000", "messageId": anchor}
    assert http.post(f"/api/sessions/{HUNDRED}/markers", json=body).status_code == 201
    shown = get(http, f"{HUNDRED}/overview", buckets=4)
    assert shown["buckets"] == [
        {"c": 25, "k": "text", "u": 25, "m": False},
        {"c": 25, "k": "command", "u": 0, "m": True},
        {"c": 25, "k": "diff", "u": 0, "m": False},
        {"c": 25, "k": "error", "u": 0, "m": False},
    ]
    assert shown["markers"] == [{"position": 40, "kind": "review", "label": "Here"}]
    assert (shown["latestPosition"], shown["messageCount"], shown["sessionId"]) == (99, 100, HUNDRED)
    assert {"revision", "serverInstanceId", "sessionMutationStamp"} <= set(shown)
    assert len(get(http, f"{HUNDRED}/overview")["buckets"]) == 100


@pytest.mark.case("S94")
def test_an_empty_session_has_one_empty_bucket(http: httpx.Client) -> None:
    shown = get(http, f"{EMPTY}/overview")
    assert shown["buckets"] == [{"c": 0, "k": "text", "u": 0, "m": False}]
    assert shown["latestPosition"] == 0


@pytest.mark.case("H10")
def test_an_overview_of_25000_messages_is_small_on_the_wire(http: httpx.Client) -> None:
    path = f"/api/sessions/{LONG}/overview?buckets=512"
    with http.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as reply:
        assert (reply.status_code, reply.headers["Content-Encoding"]) == (200, "gzip")
        assert sum(map(len, reply.iter_raw())) < 8192
    assert sum(bucket["c"] for bucket in http.get(path).json()["buckets"]) == MANY


def test_a_marker_lives_from_its_creation_to_its_deletion_and_everybody_hears_of_it(
    shared_daemon: Daemon, http: httpx.Client
) -> None:
    stream = EventStream(shared_daemon.url)
    wait_until(lambda: stream.events, "the first event")
    markers = f"/api/sessions/{EIGHTY}/markers"
    first, last = (get(http, f"{EIGHTY}/history", around=at, limit=1)["messages"][0]["id"] for at in (2, 70))
    given = {"kind": "bug", "name": " Start ", "color": "#ABC", "messageId": first, "endMessageId": last, "body": "B"}
    made = http.post(markers, json=given)
    assert made.status_code == 201
    marker = made.json()["marker"]
    assert (marker["name"], marker["color"], marker["messageIndexHint"]) == ("Start", "#abc", 2)
    one = f"{markers}/{marker['id']}"
    changed = http.patch(one, json={"name": "Other", "body": None, "endMessageId": None})
    assert changed.status_code == 200
    assert (changed.json()["marker"]["name"], changed.json()["marker"]["body"]) == ("Other", None)
    assert http.get(markers).json()["markers"] == [changed.json()["marker"]]
    gone = http.delete(one)
    assert (gone.status_code, gone.json()["markerId"]) == (200, marker["id"])
    assert [http.delete(one).status_code, http.patch(one, json={}).status_code] == [404, 404]
    wait_until(lambda: stream.deltas("conversationMarkerDeleted"), "the event of the deletion")
    heard = [data for name, data in stream.events if name == "delta" and data["sessionId"] == EIGHTY]
    assert [data["type"].removeprefix("conversationMarker") for data in heard] == ["Created", "Updated", "Deleted"]
    assert [data["revision"] for data in heard] == [reply.json()["revision"] for reply in (made, changed, gone)]
    stream.close()


BAD_MARKERS: list[Any] = [
    pytest.param({"kind": "decison"}, 422, id="unknown kind", marks=pytest.mark.case("S102")),
    pytest.param({"color": "blue"}, 400, id="color"),
    pytest.param({"name": " "}, 400, id="blank name"),
    pytest.param({"body": "x" * 4001}, 400, id="long body"),
    pytest.param({"messageId": "message-1"}, 400, id="a message of another session"),
    pytest.param({"endMessageId": "message-3"}, 400, id="end before start", marks=pytest.mark.case("S104")),
]


@pytest.mark.parametrize(("fields", "status"), BAD_MARKERS)
def test_a_marker_that_cannot_be_is_refused_and_changes_nothing(http: httpx.Client, fields: Json, status: int) -> None:
    before = get(http, EIGHTY, tail=1)
    body = {"kind": "bug", "name": "N", "color": "#fff", "messageId": "message-50", **fields}
    assert http.post(f"/api/sessions/{EIGHTY}/markers", json=body).status_code == status
    after = get(http, EIGHTY, tail=1)
    same = ("revision", "serverInstanceId")
    assert [after[key] for key in same] == [before[key] for key in same]
    assert after["session"] == before["session"]


@pytest.mark.case("H17", "H18")
def test_bodies_of_markers_that_are_no_markers_are_unprocessable(http: httpx.Client) -> None:
    markers = f"/api/sessions/{EIGHTY}/markers"
    half = http.post(markers, content=b"{", headers={"Content-Type": "application/json"})
    made = http.post(markers, json={"kind": "bug", "name": "N", "color": "#fff", "messageId": "message-50"}).json()
    unknown = http.patch(f"{markers}/{made['marker']['id']}", json={"kind": "decison"})
    for reply in (half, unknown):
        assert (reply.status_code, reply.json()["code"]) == (422, "unprocessable")
        assert reply.json()["error"]
    assert http.get(markers).json()["markers"][-1] == made["marker"]
