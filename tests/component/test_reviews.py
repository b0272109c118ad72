"""Review results in a mailbox: appended once for each attempt, found again, and never mail for anybody."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from termal.model.mail import CONTROL_TOPIC
from termal.wire.errors import Conflict, InvalidRequest, NotFound
from termal.wire.mail_operations import (
    MAILBOX_MESSAGE,
    MAILBOX_UNREAD,
    MAILBOX_UNWOKEN,
    AskUnwoken,
    ListUnread,
    ReadMessage,
)
from termal.wire.review_operations import (
    REVIEW_APPEND,
    REVIEW_FIND,
    AppendReview,
    FindReview,
    FoundReview,
    ReviewReceipt,
)
from tests.support.mail_worker import MailWorker

KIB = 1024


@pytest.fixture(scope="module")
def mail() -> Iterator[MailWorker]:
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    worker = MailWorker(folder / "home", folder).start()
    # A message goes through all links of the worker: no test of this module is the first to see one opened.
    worker.send("a", "b")
    yield worker
    worker.close()
    shutil.rmtree(folder)


class Review:
    """A delegation of a fresh parent, whose child is no root and so takes part in no mail."""

    def __init__(self, mail: MailWorker) -> None:
        self.mail = mail
        self.parent, self.other = mail.roots()
        self.id = f"delegation-of-{self.parent}"
        self.child = f"child-of-{self.parent}"

    def append(self, body: str = "{}", attempt: int = 1) -> ReviewReceipt:
        return self.mail.ask(REVIEW_APPEND, self.submission(body, attempt))

    def submission(self, body: str = "{}", attempt: int = 1) -> AppendReview:
        return AppendReview(
            delegation_id=self.id,
            attempt=attempt,
            child_session_id=self.child,
            child_name="Reviewer",
            parent_session_id=self.parent,
            parent_name="Lead",
            body=body,
        )

    def find(self, attempt: int = 1) -> FoundReview:
        return self.mail.ask(REVIEW_FIND, FindReview(self.id, attempt, self.child))


@pytest.fixture
def own(run_dir: Path, home_dir: Path) -> Iterator[Review]:
    """A review of a worker that the test may kill."""
    worker = MailWorker(home_dir, run_dir).start()
    yield Review(worker)
    worker.close()


def edit(mail: MailWorker, statement: str, *parameters: str) -> None:
    """Change the file as an older build may have left it, and start the worker on it."""
    mail.kill()
    connection = apsw.Connection(str(mail.home.coordination_db))
    connection.execute(statement, parameters)
    connection.close()
    mail.start("replacement")


@pytest.fixture
def review(mail: MailWorker) -> Review:
    return Review(mail)


def test_a_review_is_stored_under_what_follows_from_its_delegation(mail: MailWorker, review: Review) -> None:
    receipt = review.append('{"status":"completed"}')
    assert (receipt.sequence, receipt.unread_depth, receipt.duplicate) == (1, 0, False)
    assert receipt.notification_disposition == "durableButNotWoken"
    (row,) = mail.rows(
        "SELECT id, mailbox_id, sender_session_id, target_session_id, topic, state_stamp, idempotency_key, body,"
        " dispatch_outcome, notification_disposition FROM mailbox_messages WHERE sender_session_id = ?",
        review.child,
    )
    assert row == (
        receipt.message_id,
        receipt.mailbox_id,
        review.child,
        review.parent,
        CONTROL_TOPIC,
        f"{review.id}:1",
        f"delegation-review-result-v1-{review.id}-1",
        '{"status":"completed"}',
        "durableButNotWoken",
        "durableButNotWoken",
    )
    assert review.find() == FoundReview(True, review.parent, CONTROL_TOPIC, f"{review.id}:1", '{"status":"completed"}')


def test_the_same_review_again_has_its_first_receipt(mail: MailWorker, review: Review) -> None:
    first = review.append("same")
    again = review.append("same")
    assert (again.message_id, again.mailbox_id, again.sequence) == (first.message_id, first.mailbox_id, first.sequence)
    assert again.duplicate
    assert mail.stored(review.child) == 1


@pytest.mark.case("C100")
def test_another_review_of_the_same_attempt_conflicts_and_changes_nothing(mail: MailWorker, review: Review) -> None:
    review.append("one")
    with pytest.raises(Conflict) as refused:
        review.append("two")
    assert refused.value.reason == "reviewConflict"
    assert mail.stored(review.child) == 1
    assert review.find().body == "one"


def test_of_two_reviews_at_once_one_wins(mail: MailWorker, review: Review) -> None:
    outcomes = mail.bus.start_all(mail.client, [(REVIEW_APPEND, review.submission(body)) for body in ("one", "two")])
    ended = [outcome.wait() for outcome in outcomes]
    assert sorted(isinstance(error, Conflict) for _, error in ended) == [False, True]
    assert mail.stored(review.child) == 1


def test_a_new_attempt_is_a_new_row_with_the_next_sequence(review: Review) -> None:
    first, second = review.append("same"), review.append("same", attempt=2)
    assert second.mailbox_id == first.mailbox_id
    assert (first.sequence, second.sequence, second.duplicate) == (1, 2, False)
    assert review.find(2).state_stamp == f"{review.id}:2"


def test_nothing_is_found_of_an_attempt_that_was_never_submitted(review: Review) -> None:
    assert review.find() == FoundReview(False)
    review.append("x")
    assert review.find(attempt=2) == FoundReview(False)


def test_a_review_wakes_nobody_and_is_no_mail(mail: MailWorker, review: Review) -> None:
    receipt = review.append("never read as mail")
    assert [notice for notice in mail.wake.notices if review.parent in (notice.session_id, notice.sender_id)] == []
    assert mail.ask(MAILBOX_UNWOKEN, AskUnwoken(review.parent)).mail == []
    unread = mail.ask(MAILBOX_UNREAD, ListUnread()).mail
    assert [row for row in unread if row.session_id in (review.parent, review.child)] == []
    assert mail.read(review.parent, receipt.mailbox_id) == []
    assert mail.mailboxes(review.parent) == []
    with pytest.raises(NotFound):
        mail.ask(MAILBOX_MESSAGE, ReadMessage(review.parent, receipt.message_id))
    assert mail.rows("SELECT processed_through FROM mailbox_participants WHERE mailbox_id = ?", receipt.mailbox_id) == [
        (0,),
        (0,),
    ]


@pytest.mark.case("C101")
def test_of_a_mailbox_with_reviews_around_one_message_only_that_message_is_seen(
    mail: MailWorker, review: Review
) -> None:
    mail.state.sessions[review.child] = ""
    first = review.append("control before")
    sent = mail.send(review.child, review.parent, message="the only mail")
    review.append("control behind", attempt=2)
    assert (first.mailbox_id, sent["sequence"]) == (sent["mailboxId"], 2)
    (listed,) = mail.mailboxes(review.parent)
    assert (listed["unreadCount"], listed["latestSequence"]) == (1, 2)
    assert listed["latestMessagePreview"] == "the only mail"
    (row,) = mail.read(review.parent, sent["mailboxId"])
    assert row["body"] == "the only mail"


@pytest.mark.case("A56")
def test_a_review_leaves_a_mailbox_that_was_read_as_it_was(mail: MailWorker, review: Review) -> None:
    mail.state.sessions[review.child] = ""
    box = mail.send(review.child, review.parent)["mailboxId"]
    mail.acknowledge(review.parent, box, 0, 1)
    told = len(mail.wake.notices)
    assert review.append("control").sequence == 2
    (listed,) = mail.mailboxes(review.parent)
    assert (listed["unreadCount"], listed["latestSequence"]) == (0, 1)
    assert mail.cursor(review.parent, box) == 1
    assert mail.read(review.parent, box, after=1) == []
    assert mail.ask(MAILBOX_UNWOKEN, AskUnwoken(review.parent)).mail == []
    assert len(mail.wake.notices) == told


def test_sequences_stay_dense_when_reviews_and_mail_come_at_once(mail: MailWorker, review: Review) -> None:
    mail.state.sessions[review.child] = ""
    wanted = [(REVIEW_APPEND, review.submission(str(number), number)) for number in range(1, 9)]
    outcomes = mail.bus.start_all(mail.client, wanted)
    sent = [mail.send(review.parent, review.child, message=str(number)) for number in range(8)]
    receipts = [outcome.reply() for outcome in outcomes]
    sequences = [receipt.sequence for receipt in receipts] + [one["sequence"] for one in sent]
    assert sorted(sequences) == list(range(1, 17))


def test_a_review_goes_to_a_parent_that_was_taken_for_gone(own: Review) -> None:
    receipt = own.append("first")
    left = "2026-01-01T00:00:00.000000+00:00"
    edit(own.mail, "UPDATE mailbox_participants SET left_at = ? WHERE mailbox_id = ?", left, receipt.mailbox_id)
    assert own.append("second", attempt=2).sequence == 2


def test_a_review_beyond_the_limit_is_refused_before_anything_is_stored(mail: MailWorker, review: Review) -> None:
    assert review.append("x" * 256 * KIB).sequence == 1
    with pytest.raises(InvalidRequest) as refused:
        review.append("x" * (256 * KIB + 1), attempt=2)
    assert refused.value.reason == "reviewTooLarge"
    assert mail.stored(review.child) == 1


def test_what_was_answered_survives_a_kill(own: Review) -> None:
    receipt = own.append("kept")
    own.mail.restart()
    assert own.find().body == "kept"
    again = own.append("kept")
    assert (again.message_id, again.duplicate) == (receipt.message_id, True)
    assert own.append("next", attempt=2).sequence == 2


def test_a_row_of_an_older_build_without_an_outcome_gets_one_when_it_is_found(own: Review) -> None:
    own.append("imported")
    edit(own.mail, "UPDATE mailbox_messages SET dispatch_outcome = NULL WHERE sender_session_id = ?", own.child)
    assert own.find().body == "imported"
    query = "SELECT dispatch_outcome FROM mailbox_messages WHERE sender_session_id = ?"
    assert own.mail.rows(query, own.child) == [("durableButNotWoken",)]
