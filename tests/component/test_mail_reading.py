"""Lists, pages, single messages, cursors and acknowledgements. One worker for all of the module."""

from collections.abc import Iterator

import pytest

from termal.rules.mail import mail_preview
from termal.wire.errors import Conflict, InvalidRequest, NotFound
from termal.wire.mail_operations import MAILBOX_SEND
from tests.support.coordination_rows import add_mailbox, add_message, coordination_file
from tests.support.mail_worker import MailWorker, shared_worker


@pytest.fixture(scope="module")
def mail() -> Iterator[MailWorker]:
    with shared_worker() as worker:
        yield worker


@pytest.fixture
def pair(mail: MailWorker) -> tuple[str, str]:
    one, other = mail.roots()
    return one, other


def fill(mail: MailWorker, sender: str, target: str, count: int) -> str:
    """``count`` messages; the id of their mailbox."""
    outcomes = mail.bus.start_all(mail.client, [(MAILBOX_SEND, mail.mail(sender, target)) for _ in range(count)])
    return [str(mail.receipt(outcome)["mailboxId"]) for outcome in outcomes].pop()


def unread(mail: MailWorker, session_id: str) -> int:
    (mailbox,) = mail.mailboxes(session_id)
    count: int = mailbox["unreadCount"]
    return count


@pytest.mark.case("C18")
def test_reading_twice_shows_the_same_and_moves_nothing(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    receipt = mail.send(a, b)
    box = receipt["mailboxId"]
    before = mail.rows("SELECT * FROM mailbox_participants WHERE mailbox_id = ?", box)
    first, second = mail.read(b, box), mail.read(b, box)
    assert first == second == [mail.message(b, receipt["messageId"])]
    assert first[0]["notificationState"] == "queuedBehindActiveTurn"
    assert "notificationDisposition" not in first[0]
    assert unread(mail, b) == 1
    assert mail.rows("SELECT * FROM mailbox_participants WHERE mailbox_id = ?", box) == before


def test_a_message_shows_what_it_should_and_nothing_else(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    plain = mail.message(b, mail.send(a, b, "secret")["messageId"])
    full = mail.message(a, mail.send(a, b, topic="", state_stamp="s")["messageId"])
    always = {
        "id",
        "mailboxId",
        "sequence",
        "senderSessionId",
        "senderName",
        "targetSessionId",
        "targetName",
        "createdAt",
        "class",
        "body",
        "notificationState",
    }
    assert set(plain) == always
    assert set(full) == always | {"topic", "stateStamp"}
    assert (plain["class"], full["topic"], full["stateStamp"]) == ("routine", "", "s")


@pytest.mark.case("C19")
def test_a_page_has_50_messages_or_from_1_to_200(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    box = fill(mail, a, b, 250)
    for limit, rows in ((50, 50), (0, 1), (5000, 200)):
        page = mail.read(b, box, limit=limit)
        assert [message["sequence"] for message in page] == list(range(1, rows + 1))
    assert [message["sequence"] for message in mail.read(b, box, after=248)] == [249, 250]
    assert mail.read(b, box, after=2**63 - 1) == []


@pytest.mark.case("C20")
def test_the_sender_has_read_what_it_sent(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    box = mail.send(a, b)["mailboxId"]
    assert mail.cursor(a, box) == 1
    assert unread(mail, a) == 0


@pytest.mark.case("C21")
def test_sending_never_consumes_what_the_sender_has_not_read(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    box = mail.send(b, a)["mailboxId"]
    mail.send(a, b)
    assert mail.cursor(a, box) == 0
    assert unread(mail, a) == 1


@pytest.mark.case("C22")
def test_a_cursor_that_stands_where_it_is_asked_to_is_satisfied(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    box = mail.send(a, b)["mailboxId"]
    mail.send(a, b)
    assert mail.acknowledge(a, box, 2, 2)["unreadCount"] == 0


@pytest.mark.case("C23")
@pytest.mark.parametrize(("letters", "shown"), [(161, "x" * 160 + "…"), (160, "x" * 160)], ids=["cut", "whole"])
def test_a_preview_has_160_characters(mail: MailWorker, pair: tuple[str, str], letters: int, shown: str) -> None:
    a, b = pair
    mail.send(a, b, message="x" * letters)
    assert mail.mailboxes(a)[0]["latestMessagePreview"] == shown


@pytest.mark.case("C24")
def test_an_acknowledgement_is_forward_only_compare_and_swap(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    box = fill(mail, a, b, 2)
    mail.acknowledge(b, box, 0, 1)
    assert mail.acknowledge(b, box, 0, 1)["unreadCount"] == 1
    with pytest.raises(Conflict, match="stale"):
        mail.acknowledge(b, box, 0, 2)
    with pytest.raises(InvalidRequest, match="backwards"):
        mail.acknowledge(b, box, 1, 0)
    with pytest.raises(InvalidRequest, match=r"3 .*2"):
        mail.acknowledge(b, box, 1, 3)
    assert mail.cursor(b, box) == 1


def test_backwards_is_told_also_to_outsiders(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, _ = pair
    with pytest.raises(InvalidRequest):
        mail.acknowledge(a, "mailbox-of-nobody", 2, 1)


@pytest.mark.case("C25")
def test_an_acknowledgement_whose_answer_was_lost_is_answered_the_same_again(
    mail: MailWorker, pair: tuple[str, str]
) -> None:
    a, b = pair
    box = mail.send(a, b)["mailboxId"]
    first = mail.acknowledge(b, box, 0, 1)
    assert mail.acknowledge(b, box, 0, 1) == first
    assert first == mail.mailboxes(b)[0]


def test_an_acknowledgement_takes_the_wakes_back(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    box = fill(mail, a, b, 3)
    mail.acknowledge(b, box, 0, 2)
    stale = [one for one in mail.wake.retracted if one.session_id == b]
    assert [(one.mailbox_id, one.through) for one in stale] == [(box, 2)]


def test_an_acknowledgement_does_not_wait_long_for_wakes_to_be_taken_back(
    mail: MailWorker, pair: tuple[str, str]
) -> None:
    a, b = pair
    box = fill(mail, a, b, 1)
    mail.wake.hold = {b}
    assert mail.acknowledge(b, box, 0, 1)["unreadCount"] == 0
    mail.wake_answers()


def test_the_summary_of_an_acknowledgement_is_that_of_the_list(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    box = fill(mail, a, b, 10)
    fill(mail, b, a, 3)
    fill(mail, a, b, 4)
    for expected, through in ((0, 2), (2, 11), (11, 12), (12, 16)):
        summary = mail.acknowledge(b, box, expected, through)
        assert summary == mail.mailboxes(b)[0]
    assert summary["unreadCount"] == 1


def test_a_list_has_the_newest_mail_first_and_what_was_just_written(mail: MailWorker) -> None:
    a, b, c = mail.roots(3)
    older, newer = mail.send(b, a)["mailboxId"], mail.send(c, a)["mailboxId"]
    assert [mailbox["id"] for mailbox in mail.mailboxes(a)] == [newer, older]
    mail.send(b, a)
    assert [mailbox["id"] for mailbox in mail.mailboxes(a)] == [older, newer]
    mail.acknowledge(a, older, 0, 1)
    assert [mailbox["unreadCount"] for mailbox in mail.mailboxes(a)] == [1, 1]


def test_control_rows_are_seen_by_nobody_and_count_for_nothing(mail_worker: MailWorker) -> None:
    mail = mail_worker
    control = "delegation-review-result/v1"
    with coordination_file(mail.home.root) as connection:
        box = add_mailbox(connection, "a", "b")
        hidden = add_message(connection, box, "b", "a", topic=control)
        add_message(connection, box, "b", "a", body="for you")
        add_message(connection, box, "b", "a", topic=control)
        only = add_mailbox(connection, "a", "c")
        add_message(connection, only, "c", "a", topic=control)
    mail.start()
    (mailbox,) = mail.mailboxes("a")
    assert (mailbox["unreadCount"], mailbox["latestSequence"], mailbox["latestMessagePreview"]) == (1, 2, "for you")
    assert [message["sequence"] for message in mail.read("a", box, limit=2)] == [2]
    for reader in ("a", "b"):
        with pytest.raises(NotFound):
            mail.message(reader, hidden)
    # They have sequences of their own: the last one may be acknowledged, and the next message comes behind it.
    assert mail.acknowledge("a", box, 0, 3)["unreadCount"] == 0
    assert mail.send("b", "a")["sequence"] == 4
    with pytest.raises(NotFound):
        mail.acknowledge("a", only, 0, 1)
    assert mail.rows("SELECT processed_through FROM mailbox_participants WHERE mailbox_id = ?", only) == [(0,), (0,)]


# -------------------------------------------------------------------------- sent


def test_a_sender_sees_what_became_of_its_messages(mail: MailWorker) -> None:
    a, b, c = mail.roots(3)
    first, second, third = mail.send(a, b), mail.send(a, c, message="to  c", topic="t"), mail.send(a, b)
    mail.send(b, a)
    mail.acknowledge(b, first["mailboxId"], 0, 1)
    page = mail.sent(a)
    assert [one["messageId"] for one in page["messages"]] == [one["messageId"] for one in (third, second, first)]
    assert [one["processed"] for one in page["messages"]] == [False, False, True]
    assert "nextBefore" not in page
    assert page["messages"][1] == {
        "messageId": second["messageId"],
        "mailboxId": second["mailboxId"],
        "sequence": 1,
        "targetSessionId": c,
        "targetName": f"name of {c}",
        "createdAt": page["messages"][1]["createdAt"],
        "topic": "t",
        "preview": "to c",
        "notificationState": "queuedBehindActiveTurn",
        "processed": False,
    }


@pytest.mark.parametrize(
    "body",
    ["a" + " " * 5_000 + "b", "a\0 b", "\0" + "x" * 200, "ä" * 5_000, " " * 4_095 + "a b", "🦊 " * 2_100],
    ids=["a gap behind the head", "a zero", "a zero and long", "long and wide", "a late start", "at the edge"],
)
def test_a_preview_is_the_same_wherever_it_is_shown(mail: MailWorker, pair: tuple[str, str], body: str) -> None:
    a, b = pair
    receipt = mail.send(a, b, message=body)
    (mailbox,) = mail.mailboxes(b)
    (message,) = mail.sent(a)["messages"]
    acknowledged = mail.acknowledge(b, receipt["mailboxId"], 0, 1)
    assert mailbox["latestMessagePreview"] == message["preview"] == mail_preview(body)
    assert acknowledged["latestMessagePreview"] == mail_preview(body)


def test_sent_messages_come_in_pages_and_by_state(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    fill(mail, a, b, 5)
    seen, before = [], None
    while True:
        page = mail.sent(a, limit=2, before=before)
        seen += [one["sequence"] for one in page["messages"]]
        before = page.get("nextBefore")
        if before is None:
            break
    assert seen == [5, 4, 3, 2, 1]
    assert len(mail.sent(a, state="queuedBehindActiveTurn")["messages"]) == 5
    assert mail.sent(a, state="deliveredToIdleSession") == {"messages": []}
    for wrong in ({"state": "lost"}, {"before": "x"}):
        with pytest.raises(InvalidRequest):
            mail.sent(a, **wrong)


def test_mail_to_a_session_that_left_is_undeliverable_unless_it_was_processed(mail_worker: MailWorker) -> None:
    mail = mail_worker
    with coordination_file(mail.home.root) as connection:
        box = add_mailbox(connection, "a", "gone", cursors=(2, 1))
        add_message(connection, box, "a", "gone")
        lost = add_message(connection, box, "a", "gone")
        connection.execute("UPDATE mailbox_participants SET left_at = '2026-01-01' WHERE session_id = 'gone'")
    mail.start()
    newest, oldest = mail.sent("a")["messages"]
    assert newest["undeliverable"] == {"reason": "receiverLeft", "leftAt": "2026-01-01"}
    assert oldest["processed"] is True
    assert "undeliverable" not in oldest
    assert [one["messageId"] for one in mail.sent("a", state="undeliverable")["messages"]] == [lost]
