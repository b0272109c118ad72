"""Mail when the writer is held, the file is locked, state is away or the worker is killed: what is proven is said."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from termal.wire.board_operations import BOARD_SET, SetBoardKey
from termal.wire.errors import OutcomeUnknown, TermalError
from termal.wire.mail_operations import (
    MAILBOX_ACKNOWLEDGE,
    MAILBOX_LIST,
    MAILBOX_READ,
    MAILBOX_SEND,
    AboutSession,
    AcknowledgeMail,
    ReadMailbox,
)
from termal.wire.operation import Operation
from tests.support.bus import Outcome, soon
from tests.support.mail_worker import MailWorker
from tests.support.waiting import wait_until

Call = tuple[Operation[Any, Any], object]


def faults_of(mail: MailWorker) -> Path:
    return mail.run_dir / "faults"


def held(mail: MailWorker) -> Outcome[Any]:
    """The writer is held in the middle of a send of a to c, which is returned."""
    (faults_of(mail) / "coordination.in_group").write_text("hold")
    outcome = mail.begin(MAILBOX_SEND, mail.mail("a", "c"))
    wait_until((faults_of(mail) / "coordination.in_group.held").exists, "the writer to be held")
    return outcome


def let_go(mail: MailWorker) -> None:
    (faults_of(mail) / "coordination.in_group.go").touch()


def code(error: TermalError) -> tuple[int, str]:
    return error.status, error.code


@pytest.mark.case("C65")
def test_who_is_not_admitted_in_time_wrote_nothing_and_may_come_again(mail_worker: MailWorker) -> None:
    mail = mail_worker.start(faults=faults_of(mail_worker))
    mail.state.projects["a"] = "project-1"
    box = mail.send("a", "b")["mailboxId"]
    blocker = held(mail)
    send, acknowledge = mail.mail("a", "b", "late"), AcknowledgeMail("b", box, 0, 1)
    board = SetBoardKey(session_id="a", key="k", expected_revision=0, idempotency_key="k", value=b"1")
    requests = ((MAILBOX_SEND, send), (MAILBOX_ACKNOWLEDGE, acknowledge), (BOARD_SET, board))
    ends = [mail.begin(op, request, deadline_s=soon(0.4)) for op, request in requests]
    assert [code(end.error()) for end in ends] == [(503, "no_write_committed")] * 3
    let_go(mail)
    assert mail.receipt(blocker)["sequence"] == 1
    assert mail.send("a", "b", "late")["duplicate"] is False
    assert mail.acknowledge("b", box, 0, 1)["unreadCount"] == 1
    assert mail.ask(BOARD_SET, board).created


@pytest.mark.case("C66")
def test_a_lock_of_another_process_is_retryable_and_leaves_nothing(mail_worker: MailWorker) -> None:
    mail = mail_worker.start()
    box = mail.send("a", "b")["mailboxId"]
    other = apsw.Connection(str(mail.home.coordination_db))
    other.execute("BEGIN IMMEDIATE")
    try:
        send = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "late"), deadline_s=soon(0.5))
        assert code(send.error()) == (503, "no_write_committed")
        acknowledge = mail.begin(MAILBOX_ACKNOWLEDGE, AcknowledgeMail("b", box, 0, 1), deadline_s=soon(0.5))
        assert code(acknowledge.error()) == (503, "no_write_committed")
        # Who reads waits for nobody who writes.
        assert len(mail.read("b", box)) == 1
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert mail.send("a", "b", "late")["duplicate"] is False
    assert mail.stored("a") == 2


@pytest.mark.case("C113")
def test_without_state_nothing_is_written_and_nothing_read(mail_worker: MailWorker) -> None:
    mail = mail_worker.start()
    box = mail.send("a", "b")["mailboxId"]
    mail.peer_down("state")
    writes: list[Call] = [
        (MAILBOX_SEND, mail.mail("a", "b", "late")),
        (MAILBOX_ACKNOWLEDGE, AcknowledgeMail("b", box, 0, 1)),
    ]
    for outcome in mail.bus.start_all(mail.client, writes, deadline_s=soon(0.4)):
        assert code(outcome.error()) == (503, "no_write_committed")
    reads: list[Call] = [(MAILBOX_LIST, AboutSession("a")), (MAILBOX_READ, ReadMailbox("a", box))]
    for outcome in mail.bus.start_all(mail.client, reads, deadline_s=soon(0.4)):
        assert code(outcome.error()) == (503, "no_mutation_attempted")
    assert mail.stored("a") == 1
    mail.peer_up("state")
    assert mail.send("a", "b", "late")["duplicate"] is False


def test_a_send_waits_for_a_state_that_comes_back_in_time(mail_worker: MailWorker) -> None:
    mail = mail_worker.start()
    mail.peer_down("state")
    short = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "short"), deadline_s=soon(0.3))
    long = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "long"))
    assert code(short.error()) == (503, "no_write_committed")
    mail.peer_up("state")
    assert mail.receipt(long)["sequence"] == 1


@pytest.mark.case("C114")
def test_without_coordination_a_read_is_refused_and_a_send_under_way_is_unknown(mail_worker: MailWorker) -> None:
    mail = mail_worker.start(faults=faults_of(mail_worker))
    (faults_of(mail) / "coordination.in_group").write_text("hold")
    send = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"), deadline_s=soon(3.0))
    wait_until((faults_of(mail) / "coordination.in_group.held").exists, "the writer to be held")
    mail.kill()
    listed = mail.begin(MAILBOX_LIST, AboutSession("a"), deadline_s=soon(0.3))
    assert code(listed.error()) == (503, "no_mutation_attempted")
    never = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k2"), deadline_s=soon(0.3))
    assert code(never.error()) == (503, "no_write_committed")
    error = send.error()
    assert isinstance(error, OutcomeUnknown)
    assert code(error) == (504, "outcome_unknown")
    mail.start("replacement")
    assert mail.send("a", "b", "k1")["sequence"] == 1
    assert mail.stored("a") == 1


@pytest.mark.case("C53")
def test_a_send_that_was_killed_before_its_commit_leaves_no_gap(mail_worker: MailWorker) -> None:
    mail = mail_worker.start(faults=faults_of(mail_worker))
    mail.send("a", "b")
    (faults_of(mail) / "coordination.in_group").write_text("kill")
    send = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"))
    mail.process.wait()
    mail.start("replacement")
    receipt = mail.receipt(send)
    assert (receipt["sequence"], receipt["duplicate"]) == (2, False)
    assert mail.send("a", "b", "k1") == {**receipt, "duplicate": True}


def test_a_send_that_was_killed_after_its_commit_is_a_duplicate(mail_worker: MailWorker) -> None:
    mail = mail_worker.start(faults=faults_of(mail_worker))
    (faults_of(mail) / "coordination.after_commit").write_text("kill")
    send = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1"))
    mail.process.wait()
    assert mail.wake.notices == []
    mail.start("replacement")
    receipt = mail.receipt(send)
    assert (receipt["sequence"], receipt["duplicate"]) == (1, True)
    assert receipt["notificationDisposition"] == "durableButNotWoken"
    assert mail.stored("a") == 1


@pytest.mark.case("C59")
@pytest.mark.parametrize("point", ["coordination.in_group", "coordination.after_commit"])
def test_an_acknowledgement_that_was_killed_is_applied_once(mail_worker: MailWorker, point: str) -> None:
    mail = mail_worker.start(faults=faults_of(mail_worker))
    box = mail.send("a", "b")["mailboxId"]
    (faults_of(mail) / point).write_text("kill")
    acknowledge = mail.begin(MAILBOX_ACKNOWLEDGE, AcknowledgeMail("b", box, 0, 1))
    mail.process.wait()
    mail.start("replacement")
    acknowledge.reply()
    assert mail.cursor("b", box) == 1
    assert mail.acknowledge("b", box, 0, 1)["unreadCount"] == 0


def test_what_is_remembered_of_a_group_that_failed_is_forgotten(mail_worker: MailWorker) -> None:
    """The disk says no in the middle: sequences stay dense, counts stay true."""
    mail = mail_worker.start(faults=faults_of(mail_worker))
    mail.send("a", "b")
    (faults_of(mail) / "coordination.in_group").write_text("raise")
    error = mail.begin(MAILBOX_SEND, mail.mail("a", "b", "k1")).error()
    assert code(error) in {(503, "no_write_committed"), (504, "outcome_unknown")}
    receipt = mail.send("a", "b", "k1")
    assert (receipt["sequence"], receipt["unreadDepth"], receipt["duplicate"]) == (2, 2, False)
    assert [message["sequence"] for message in mail.read("b", receipt["mailboxId"])] == [1, 2]
