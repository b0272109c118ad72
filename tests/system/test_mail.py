"""Mail over HTTP with the whole daemon: what wakes whom, who may, what goes on when a part is blocked or killed."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import httpx
import pytest

from tests.support.board_http import BoardHttp
from tests.support.daemon import Daemon
from tests.support.mail_http import MailHttp
from tests.support.stored import StoredSessions
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT, MARKED, CHILD, PROXY, HALF = (f"session-{number}" for number in range(1, 6))


def prepare_sessions(path: Path) -> None:
    """One root session, and all the kinds that are none."""
    with StoredSessions(path) as store:
        for _ in range(5):
            store.add(0)
    with closing(apsw.Connection(str(path))) as connection:
        for session_id, change in (
            (MARKED, {"session": {"parentDelegationId": "delegation-9"}}),
            (PROXY, {"remoteId": "host", "remoteSessionId": "session-7", "session": {"remoteId": "host"}}),
            (HALF, {"remoteSessionId": "session-7"}),
        ):
            row = json.loads(connection.execute("SELECT value_json FROM sessions WHERE id = ?", (session_id,)).get)
            row["session"].update(change.pop("session", {}))
            row.update(change)
            connection.execute("UPDATE sessions SET value_json = ? WHERE id = ?", (json.dumps(row), session_id))
        record = {"id": "delegation-1", "parentSessionId": ROOT, "childSessionId": CHILD, "status": "completed"}
        connection.execute("INSERT INTO delegations VALUES (?, ?)", (record["id"], json.dumps(record)))


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    prepare_sessions(folder / "home" / "termal.sqlite")
    try:
        with Daemon(folder / "home") as running:
            running.start()
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def http(shared_daemon: Daemon) -> Iterator[httpx.Client]:
    with shared_daemon.client() as client:
        yield client


@pytest.fixture
def mail(http: httpx.Client) -> MailHttp:
    return MailHttp(http)


# ------------------------------------------------------------------------- waking


@pytest.mark.case("C1")
@pytest.mark.case("C2")
def test_a_busy_receiver_has_one_wake_that_names_the_newest_message(mail: MailHttp) -> None:
    a, b = mail.a, mail.b
    mail.occupy(b)
    first = mail.send(a, b)
    assert {key: first[key] for key in ("sequence", "unreadDepth", "notificationDisposition", "duplicate")} == {
        "sequence": 1,
        "unreadDepth": 1,
        "notificationDisposition": "queuedBehindActiveTurn",
        "duplicate": False,
    }
    (wake,) = mail.queue(b)
    assert "#1" in wake["text"]
    assert first["mailboxId"] in wake["text"]
    assert "the text of the message" not in wake["text"]
    second = mail.send(a, b)
    assert (second["sequence"], second["mailboxId"], second["unreadDepth"]) == (2, first["mailboxId"], 2)
    (wake,) = mail.queue(b)
    assert "#2" in wake["text"]
    source = wake["source"]["mailbox"]
    assert (source["mailboxId"], source["sequence"], source["unreadCount"]) == (first["mailboxId"], 2, 2)


@pytest.mark.case("C26")
def test_an_acknowledgement_takes_the_queued_wake_back_at_once(mail: MailHttp) -> None:
    a, b = mail.a, mail.b
    mail.occupy(b)
    box = [mail.send(a, b) for _ in range(3)].pop()["mailboxId"]
    assert mail.queue(b)[0]["source"]["mailbox"]["sequence"] == 3
    assert mail.acknowledge(b, box, 0, 3).status_code == 200
    assert mail.queue(b) == []


def test_an_idle_receiver_begins_a_turn(mail: MailHttp) -> None:
    receipt = mail.send(mail.a, mail.b)
    assert receipt["notificationDisposition"] == "deliveredToIdleSession"
    (wake,) = mail.wait_woken(mail.b)
    assert wake["source"]["mailbox"]["messageId"] == receipt["messageId"]


# -------------------------------------------------------------------- who may not


@pytest.mark.parametrize(
    ("session_id", "status"),
    [
        pytest.param(MARKED, 400, id="a child by its mark", marks=pytest.mark.case("C11")),
        pytest.param(CHILD, 400, id="a child by a record alone", marks=pytest.mark.case("C12")),
        pytest.param(PROXY, 400, id="a session of another host", marks=pytest.mark.case("C16")),
        pytest.param(HALF, 404, id="half a remote identity, which is set aside at the start"),
    ],
)
def test_who_is_no_root_session_of_this_host_takes_no_part(mail: MailHttp, session_id: str, status: int) -> None:
    refused = mail.post(mail.a, session_id)
    assert refused.status_code == status
    assert "target" in refused.json()["error"]
    assert mail.mailboxes(mail.a) == []
    refused = mail.post(session_id, mail.a)
    assert refused.status_code == status
    assert "sending" in refused.json()["error"]
    assert mail.http.get(f"/api/sessions/{session_id}/mailboxes").status_code == status
    assert mail.http.get(f"/api/sessions/{session_id}/mailboxes/sent").status_code == status
    assert mail.read(session_id, "mailbox-1").status_code == status
    assert mail.acknowledge(session_id, "mailbox-1", 0, 0).status_code == status


def test_a_deleted_receiver_is_told_to_its_sender(mail: MailHttp) -> None:
    a, b = mail.a, mail.b
    first = mail.send(a, b, "k1")
    mail.http.post(f"/api/sessions/{b}/kill")
    assert mail.post(a, b, "k1").json() == {**first, "duplicate": True}
    gone = mail.post(a, b, "k2")
    assert (gone.status_code, gone.json()["code"]) == (404, "not_found")

    def sent() -> object:
        return mail.http.get(f"/api/sessions/{a}/mailboxes/sent").json()["messages"][0].get("undeliverable")

    assert wait_until(sent, "the departure to be recorded")["reason"] == "receiverLeft"  # type: ignore[index]


# ---------------------------------------------------------------------- the shapes


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"targetSessionId": 1, "message": "x", "idempotencyKey": "k"},
        {"targetSessionId": "b", "message": None, "idempotencyKey": "k"},
        {"targetSessionId": "b", "message": "x", "idempotencyKey": "k", "class": 1},
    ],
    ids=str,
)
def test_a_send_of_another_form_is_422(mail: MailHttp, body: dict[str, object]) -> None:
    assert mail.http.post(f"/api/sessions/{mail.a}/mailboxes/send", json=body).status_code == 422


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 200),
        ({"unknown": 1}, 200),
        ({"afterSequence": 10**30}, 200),
        ({"limit": 10**30}, 200),
        ({"afterSequence": -1}, 422),
        ({"afterSequence": 1.5}, 422),
        ({"limit": "1"}, 422),
        ([], 422),
    ],
    ids=str,
)
def test_the_numbers_of_a_page(mail: MailHttp, body: object, status: int) -> None:
    box = mail.send(mail.a, mail.b)["mailboxId"]
    reply = mail.http.post(f"/api/sessions/{mail.b}/mailboxes/{box}/read", json=body)
    assert reply.status_code == status
    if status == 200:
        assert len(reply.json()) == (0 if "afterSequence" in str(body) else 1)


@pytest.mark.parametrize("query", ["state=lost", "limit=0", "limit=201", "limit=x", "before=", "before=x"], ids=str)
def test_a_query_for_sent_messages_that_makes_no_sense_is_400(mail: MailHttp, query: str) -> None:
    assert mail.http.get(f"/api/sessions/{mail.a}/mailboxes/sent?{query}").status_code == 400


def test_a_mailbox_over_http(mail: MailHttp) -> None:
    a, b = mail.a, mail.b
    receipt = mail.send(a, b, topic="t", stateStamp="s", unknown=1)
    box = receipt["mailboxId"]
    (message,) = mail.read(b, box).json()
    assert message == mail.http.get(f"/api/sessions/{a}/mailbox-messages/{receipt['messageId']}").json()
    assert (message["body"], message["topic"], message["stateStamp"]) == ("the text of the message", "t", "s")
    assert mail.acknowledge(b, box, 0, 1).json() == mail.mailboxes(b)[0]
    stale = mail.acknowledge(b, box, 0, 2)
    assert (stale.status_code, stale.json()["code"], stale.json()["reason"]) == (400, "invalid_request", "beyondLatest")
    other = mail.session("C")
    missing = mail.read(other, box)
    assert (missing.status_code, missing.json()["reason"]) == (404, "notParticipant")


# ------------------------------------------------------- what goes on without what


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process writes into a database: nobody else can."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


@pytest.mark.case("C67")
def test_mail_and_boards_go_on_while_sessions_cannot_be_stored(
    shared_daemon: Daemon, mail: MailHttp, tmp_path: Path
) -> None:
    a, b = mail.a, mail.b
    mail.occupy(b)
    box = mail.send(a, b)["mailboxId"]
    board = BoardHttp(mail.http, tmp_path)
    with locked(shared_daemon.home.termal_db):
        assert mail.send(a, b)["sequence"] == 2
        assert mail.acknowledge(b, box, 0, 1).status_code == 200
        assert board.set("a", 0, 1).status_code == 201


@pytest.mark.case("C69")
def test_mail_goes_on_while_the_writer_of_sessions_stands_still(shared_daemon: Daemon, mail: MailHttp) -> None:
    a, b = mail.a, mail.b
    mail.occupy(b)
    box = mail.send(a, b)["mailboxId"]
    shared_daemon.arm("termal.in_group", "hold")
    try:
        receipt = mail.send(a, b)
        assert receipt["sequence"] == 2
        assert receipt["notificationDisposition"] == "durableButNotWoken"
        assert len(mail.read(b, box).json()) == 2
        assert mail.acknowledge(b, box, 0, 1).status_code == 200
    finally:
        (shared_daemon.faults / "termal.in_group.go").touch()
    wait_until(lambda: not (shared_daemon.faults / "termal.in_group").exists(), "the writer to go on")


@pytest.mark.case("C111")
def test_a_send_survives_the_death_of_coordination_between_commit_and_notice(
    shared_daemon: Daemon, mail: MailHttp
) -> None:
    a, b = mail.a, mail.b
    shared_daemon.arm("coordination.before_notice")
    receipt = mail.send(a, b, "k1")
    assert shared_daemon.fired("coordination.before_notice")
    assert (receipt["sequence"], receipt["duplicate"]) == (1, True)
    mail.wait_woken(b)
    assert mail.send(a, b, "k1") == receipt
    shared_daemon.wait_healthy()
    # The next message makes its own wake; had the first one had two, there would be three.
    mail.send(a, b)
    mail.wait_woken(b, 2)
    wait_until(lambda: mail.look(b)["status"] == "idle" and not mail.queue(b), "b to be idle again", 30)
    assert len(mail.wakes(b)) == 2
    assert len(mail.read(b, receipt["mailboxId"]).json()) == 2
