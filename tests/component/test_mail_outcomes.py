"""What a receipt says of the waking: repeats that come meanwhile, wakes that fail, outcomes that are never recorded."""

import pytest

from termal.model.mail import UNWOKEN
from termal.wire.errors import Internal
from termal.wire.mail_operations import MAILBOX_MARK, MAILBOX_SEND, Mark, Marks
from tests.support.bus import soon
from tests.support.mail_worker import MailWorker
from tests.support.waiting import wait_until

QUEUED = "queuedBehindActiveTurn"
DELIVERED = "deliveredToIdleSession"


@pytest.mark.case("C28")
def test_a_receipt_stays_what_it_was_whatever_becomes_of_the_message(mail_worker: MailWorker) -> None:
    mail = mail_worker.start()
    first = mail.send("a", "b", "k1")
    box = first["mailboxId"]
    mail.ask(MAILBOX_MARK, Marks([Mark("b", box, 1, "delivered")]))
    mail.acknowledge("b", box, 0, 1)
    assert mail.send("a", "b", "k1") == {**first, "duplicate": True}
    assert (first["sequence"], first["unreadDepth"], first["notificationDisposition"]) == (1, 1, QUEUED)
    assert mail.read("b", box)[0]["notificationState"] == DELIVERED


@pytest.mark.case("C32")
def test_a_repeat_waits_for_the_outcome_of_the_original_and_holds_up_nobody(mail_worker: MailWorker) -> None:
    mail = mail_worker.start()
    mail.wake.hold = {"b"}
    original = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"))
    wait_until(lambda: mail.wake.told("b"), "wake to be told")
    repeat = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"))
    assert mail.send("a", "c")["sequence"] == 1
    assert (original.ends, repeat.ends) == ([], [])
    mail.wake_answers(QUEUED)
    assert mail.receipt(original)["notificationDisposition"] == QUEUED
    assert mail.receipt(repeat) == {**mail.receipt(original), "duplicate": True}
    assert len(mail.wake.told("b")) == 1


@pytest.mark.case("C33")
def test_a_repeat_that_waits_in_vain_is_told_that_the_message_is_stored(mail_worker: MailWorker) -> None:
    faults = mail_worker.run_dir / "faults"
    mail = mail_worker.start(faults=faults)
    mail.wake.hold = {"b"}
    original = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"))
    wait_until(lambda: mail.wake.told("b"), "wake to be told")
    repeat = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"), deadline_s=soon(2.5))
    # Behind the look for the repeat's key: from now on it waits. Then the outcome cannot be recorded.
    mail.acknowledge("a", mail.wake.notices[0].mailbox_id, 1, 1)
    (faults / "coordination.in_group").write_text("hold")
    mail.wake_answers(QUEUED)
    error = repeat.error()
    assert (error.status, error.code) == (503, "original_append_durable")
    assert original.ends == []
    assert mail.stored("a") == 1
    (faults / "coordination.in_group.go").touch()
    assert mail.receipt(original)["notificationDisposition"] == QUEUED
    assert mail.send("a", "b", "k1") == {**mail.receipt(original), "duplicate": True}


@pytest.mark.case("C34")
def test_an_outcome_that_cannot_be_recorded_releases_who_waits_for_it(mail_worker: MailWorker) -> None:
    faults = mail_worker.run_dir / "faults"
    mail = mail_worker.start(faults=faults)
    mail.wake.hold = {"b"}
    original = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"))
    wait_until(lambda: mail.wake.told("b"), "wake to be told")
    repeat = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"))
    # Behind the look for the repeat's key: an answer of this session comes when that is done.
    mail.acknowledge("a", mail.wake.notices[0].mailbox_id, 1, 1)
    (faults / "coordination.finalize").write_text("raise")
    mail.wake_answers(QUEUED)
    for outcome in (original, repeat):
        assert mail.receipt(outcome)["notificationDisposition"] == UNWOKEN
    assert mail.rows("SELECT dispatch_outcome, notification_disposition FROM mailbox_messages") == [(None, UNWOKEN)]
    # Nobody finalizes it any more: a later repeat does not wait.
    assert mail.send("a", "b", "k1")["notificationDisposition"] == UNWOKEN


def test_a_send_whose_outcome_cannot_be_written_in_time_says_that_it_is_stored(mail_worker: MailWorker) -> None:
    faults = mail_worker.run_dir / "faults"
    mail = mail_worker.start(faults=faults)
    mail.wake.hold = {"b"}
    original = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"), deadline_s=soon(3.0))
    wait_until(lambda: mail.wake.told("b"), "wake to be told")
    (faults / "coordination.in_group").write_text("hold")
    mail.wake_answers(QUEUED)
    error = original.error()
    (faults / "coordination.in_group.go").touch()
    assert (error.status, error.code) == (503, "original_append_durable")
    receipt = mail.send("a", "b", "k1")
    assert (receipt["duplicate"], receipt["notificationDisposition"]) == (True, QUEUED)


@pytest.mark.case("C35")
def test_after_a_restart_a_repeat_does_not_wait_for_an_outcome_that_nobody_records(mail_worker: MailWorker) -> None:
    mail = mail_worker.start()
    mail.wake.hold = {"b"}
    original = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"))
    wait_until(lambda: mail.wake.told("b"), "wake to be told")
    mail.restart()
    # The original is repeated by its caller, like any other call to a worker that was killed.
    for receipt in (mail.receipt(original), mail.send("a", "b", "k1")):
        assert (receipt["sequence"], receipt["duplicate"]) == (1, True)
        assert receipt["notificationDisposition"] == UNWOKEN
    assert len(mail.wake.told("b")) == 1
    assert mail.rows("SELECT dispatch_outcome FROM mailbox_messages") == [(None,)]


def test_mail_is_stored_and_answered_when_wake_is_away(mail_worker: MailWorker) -> None:
    mail = mail_worker.start()
    mail.peer_down("wake")
    assert mail.send("a", "b", "k1")["notificationDisposition"] == UNWOKEN
    mail.peer_up("wake")
    assert mail.send("a", "b", "k1")["notificationDisposition"] == UNWOKEN
    assert mail.rows("SELECT dispatch_outcome FROM mailbox_messages") == [(UNWOKEN,)]


def test_mail_is_stored_and_answered_when_wake_refuses(mail_worker: MailWorker) -> None:
    mail = mail_worker.start()
    mail.wake.refuse = Internal("broken")
    assert mail.send("a", "b")["notificationDisposition"] == UNWOKEN


def test_what_waits_together_is_told_in_one_notice_by_the_newest_message(mail_worker: MailWorker) -> None:
    faults = mail_worker.run_dir / "faults"
    mail = mail_worker.start(faults=faults)
    mail.send("a", "b")
    (faults / "coordination.in_group").write_text("hold")
    blocker = mail.begin(MAILBOX_SEND, mail.mail("a", "c"))
    wait_until((faults / "coordination.in_group.held").exists, "the writer to be held")
    sends = [mail.begin(MAILBOX_SEND, mail.mail("a", "b")) for _ in range(4)]
    # Its question to state is answered behind those of the sends: all four wait for the writer then.
    mail.mailboxes("a")
    (faults / "coordination.in_group.go").touch()
    receipts = [mail.receipt(outcome) for outcome in (*sends, blocker)]
    assert [receipt["sequence"] for receipt in receipts] == [2, 3, 4, 5, 1]
    assert {receipt["notificationDisposition"] for receipt in receipts} == {QUEUED}
    assert [(notice.sequence, notice.unread_count) for notice in mail.wake.told("b")] == [(1, 1), (5, 5)]
    assert mail.rows("SELECT DISTINCT dispatch_outcome FROM mailbox_messages") == [(QUEUED,)]


def test_a_wake_that_started_a_turn_is_said_so(mail_worker: MailWorker) -> None:
    mail = mail_worker.start()
    mail.wake.outcome = DELIVERED
    receipt = mail.send("a", "b")
    assert receipt["notificationDisposition"] == DELIVERED
    assert mail.message("b", receipt["messageId"])["notificationState"] == DELIVERED
