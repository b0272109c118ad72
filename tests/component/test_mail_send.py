"""Sending mail: who may, what is refused, what is stored and answered. One worker for all of the module."""

from collections.abc import Iterator

import pytest

from termal.wire.errors import Conflict, InvalidRequest, NotFound, TermalError
from termal.wire.mail_operations import MAILBOX_SEND
from tests.support.mail_worker import MailWorker, shared_worker


@pytest.fixture(scope="module")
def mail() -> Iterator[MailWorker]:
    with shared_worker() as worker:
        yield worker


@pytest.fixture
def pair(mail: MailWorker) -> tuple[str, str]:
    one, other = mail.roots()
    return one, other


def refused(mail: MailWorker, sender: str, target: str, **fields: str | None) -> TermalError:
    with pytest.raises(TermalError) as caught:
        mail.send(sender, target, **fields)
    return caught.value


def test_the_first_message_makes_the_mailbox_and_tells_the_receiver_of_it(
    mail: MailWorker, pair: tuple[str, str]
) -> None:
    a, b = pair
    receipt = mail.send(a, b, "k1", message="for you alone")
    assert receipt["mailboxId"].startswith("mailbox-")
    assert receipt["messageId"].startswith("mailbox-message-")
    assert {key: receipt[key] for key in ("sequence", "unreadDepth", "notificationDisposition", "duplicate")} == {
        "sequence": 1,
        "unreadDepth": 1,
        "notificationDisposition": "queuedBehindActiveTurn",
        "duplicate": False,
    }
    (told,) = mail.wake.told(b)
    assert (told.mailbox_id, told.message_id) == (receipt["mailboxId"], receipt["messageId"])
    assert (told.sequence, told.unread_count) == (1, 1)
    assert (told.sender_id, told.sender_name) == (a, f"name of {a}")


def test_the_second_message_counts_on_and_is_told_with_its_own_figures(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    first, second = mail.send(a, b), mail.send(a, b)
    assert second["mailboxId"] == first["mailboxId"]
    assert (second["sequence"], second["unreadDepth"]) == (2, 2)
    told = mail.wake.told(b)[-1]
    assert (told.sequence, told.unread_count) == (2, 2)


@pytest.mark.case("C3")
def test_the_answer_of_the_receiver_goes_into_the_same_mailbox(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    first, answer = mail.send(a, b), mail.send(b, a)
    assert answer["mailboxId"] == first["mailboxId"]
    assert answer["sequence"] == 2


@pytest.mark.case("C4")
def test_messages_sent_at_once_get_dense_sequences_of_one_mailbox(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    outcomes = mail.bus.start_all(mail.client, [(MAILBOX_SEND, mail.mail(a, b)) for _ in range(4)])
    receipts = [mail.receipt(outcome) for outcome in outcomes]
    assert sorted(receipt["sequence"] for receipt in receipts) == [1, 2, 3, 4]
    assert len({receipt["mailboxId"] for receipt in receipts}) == 1


@pytest.mark.case("C5")
def test_a_body_of_256_kib_is_accepted_and_one_byte_more_is_not(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    assert mail.send(a, b, message="x" * 262_144)["sequence"] == 1
    error = refused(mail, a, b, message="x" * 262_145)
    assert isinstance(error, InvalidRequest)
    assert "262144" in error.message
    # The limit is of bytes, not of characters.
    assert mail.send(a, b, message="é" * 131_072)["sequence"] == 2
    assert isinstance(refused(mail, a, b, message="é" * 131_073), InvalidRequest)


@pytest.mark.case("C6")
@pytest.mark.parametrize("field", ["topic", "state_stamp"])
def test_a_topic_and_a_stamp_have_4_kib(mail: MailWorker, pair: tuple[str, str], field: str) -> None:
    a, b = pair
    assert mail.send(a, b, **{field: "t" * 4096})["sequence"] == 1
    error = refused(mail, a, b, **{field: "t" * 4097})
    assert isinstance(error, InvalidRequest)
    assert "4096" in error.message


@pytest.mark.case("C7")
def test_a_key_has_256_bytes_and_is_not_blank(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    assert mail.send(a, b, "k" * 256)["sequence"] == 1
    for key in ("k" * 257, "  "):
        with pytest.raises(InvalidRequest):
            mail.send(a, b, key)


@pytest.mark.case("C8")
def test_a_blank_body_is_refused_and_stores_nothing(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    assert isinstance(refused(mail, a, b, message="   "), InvalidRequest)
    assert mail.stored(a) == 0


@pytest.mark.case("C9")
def test_the_class_is_checked_before_anybody_is_looked_for(mail: MailWorker) -> None:
    error = refused(mail, "nobody", "nobody else", kind="stop")
    assert isinstance(error, InvalidRequest)
    assert error.reason == "class"


@pytest.mark.case("C10")
def test_an_urgent_message_is_refused_and_neither_stored_nor_told(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    error = refused(mail, a, b, kind="urgent")
    assert isinstance(error, InvalidRequest)
    assert "routine" in error.message
    assert mail.stored(a) == 0
    assert mail.wake.told(b) == []


def test_routine_and_no_class_are_the_same(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    assert mail.send(a, b, "k", kind="routine")["duplicate"] is False
    assert mail.send(a, b, "k")["duplicate"] is True


@pytest.mark.parametrize("verdict", ["hidden", "remote", "delegated"])
def test_a_session_that_is_no_local_root_neither_gets_nor_sends_nor_reads_mail(
    mail: MailWorker, pair: tuple[str, str], verdict: str
) -> None:
    a, b = pair
    mail.state.sessions[b] = verdict
    error = refused(mail, a, b)
    assert isinstance(error, InvalidRequest)
    assert "target" in error.message
    assert error.reason == verdict
    error = refused(mail, b, a)
    assert isinstance(error, InvalidRequest)
    assert "sending" in error.message
    with pytest.raises(InvalidRequest):
        mail.mailboxes(b)
    assert mail.mailboxes(a) == []
    assert mail.stored(a) + mail.stored(b) == 0


@pytest.mark.case("C13")
def test_a_hidden_receiver_gets_nothing_and_has_not_left(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    mail.send(a, b)
    mail.state.sessions[b] = "hidden"
    assert isinstance(refused(mail, a, b), InvalidRequest)
    (mailbox,) = mail.mailboxes(a)
    assert [one for one in mailbox["participants"] if "leftAt" in one] == []
    assert mail.stored(a) == 1


@pytest.mark.case("C14")
def test_an_unknown_session_is_told_by_its_side(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, _ = pair
    error = refused(mail, a, "nobody")
    assert isinstance(error, NotFound)
    assert "target" in error.message
    with pytest.raises(NotFound):
        mail.mailboxes("nobody")
    error = refused(mail, "nobody", a)
    assert isinstance(error, NotFound)
    assert "sending" in error.message


@pytest.mark.case("C15")
def test_a_message_to_oneself_is_refused(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, _ = pair
    assert isinstance(refused(mail, a, a), InvalidRequest)


@pytest.mark.case("C17")
def test_a_root_outside_the_mailbox_reads_and_acknowledges_nothing_of_it(mail: MailWorker) -> None:
    a, b, c = mail.roots(3)
    receipt = mail.send(a, b)
    for attempt in (
        lambda: mail.read(c, receipt["mailboxId"]),
        lambda: mail.acknowledge(c, receipt["mailboxId"], 0, 1),
        lambda: mail.message(c, receipt["messageId"]),
        lambda: mail.read(c, "mailbox-of-nobody"),
    ):
        with pytest.raises(NotFound):
            attempt()
    assert mail.mailboxes(c) == []


@pytest.mark.case("C108")
def test_the_control_topic_is_reserved(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    error = refused(mail, a, b, topic="delegation-review-result/v1")
    assert isinstance(error, InvalidRequest)
    assert error.reason == "reservedTopic"
    assert mail.stored(a) == 0


# ------------------------------------------------------------------- idempotency


@pytest.mark.case("C29")
@pytest.mark.parametrize(
    "other", [{"message": "other"}, {"topic": "other"}, {"state_stamp": "other"}, {"target": "other"}], ids=str
)
def test_a_key_stands_for_one_intent(mail: MailWorker, other: dict[str, str]) -> None:
    a, b, c = mail.roots(3)
    mail.send(a, b, "k1", topic="t", state_stamp="s")
    if "target" in other:
        other = {"target": c}
    with pytest.raises(Conflict, match="k1"):
        mail.send(**{"sender": a, "target": b, "key": "k1", "topic": "t", "state_stamp": "s", **other})
    assert mail.stored(a) == 1


@pytest.mark.case("C30")
def test_an_empty_topic_is_another_intent_than_none(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    mail.send(a, b, "k1")
    with pytest.raises(Conflict):
        mail.send(a, b, "k1", topic="")
    assert mail.stored(a) == 1


def test_equal_keys_of_two_senders_have_nothing_to_do_with_each_other(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    first, second = mail.send(a, b, "k1"), mail.send(b, a, "k1")
    assert (first["duplicate"], second["duplicate"]) == (False, False)
    assert second["sequence"] == 2


@pytest.mark.case("C31")
def test_a_repeat_after_both_sessions_were_renamed_is_a_duplicate(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    first = mail.send(a, b, "k1")
    mail.state.names[a], mail.state.names[b] = "new a", "new b"
    again = mail.send(a, b, "k1")
    assert again == {**first, "duplicate": True}
    stored = mail.message(b, first["messageId"])
    assert (stored["senderName"], stored["targetName"]) == (f"name of {a}", f"name of {b}")
    names = {one["displayName"] for one in mail.mailboxes(a)[0]["participants"]}
    assert names == {f"name of {a}", f"name of {b}"}
    # A new message takes the new names; the old row keeps its own.
    mail.send(a, b)
    assert {one["displayName"] for one in mail.mailboxes(a)[0]["participants"]} == {"new a", "new b"}
    assert mail.message(b, first["messageId"])["senderName"] == f"name of {a}"


def test_a_repeat_wakes_nobody_and_counts_nothing_again(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    first = mail.send(a, b, "k1")
    mail.acknowledge(b, first["mailboxId"], 0, 1)
    assert mail.send(a, b, "k1")["unreadDepth"] == 1
    assert len(mail.wake.told(b)) == 1


@pytest.mark.case("C107")
def test_a_repeat_gets_its_receipt_also_when_the_receiver_is_gone(mail: MailWorker, pair: tuple[str, str]) -> None:
    a, b = pair
    first = mail.send(a, b, "k1")
    del mail.state.sessions[b]
    assert mail.send(a, b, "k1") == {**first, "duplicate": True}
    with pytest.raises(NotFound):
        mail.send(a, b, "k2")
    # Another intent under the known key is no repeat: the refusal of the check stands.
    with pytest.raises(NotFound):
        mail.send(a, b, "k1", message="other")
    mail.state.sessions[b] = "delegated"
    assert mail.send(a, b, "k1")["duplicate"] is True
    del mail.state.sessions[a]
    with pytest.raises(NotFound, match="sending"):
        mail.send(a, b, "k1")
