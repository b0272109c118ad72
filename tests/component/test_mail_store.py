"""The writes of mail on a real file: outcomes that are recorded once, sides that count right, the writer's line."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from termal.bus.loop import PollLoop
from termal.log import Log
from termal.store.connection import Cursorlike
from termal.store.writer import Writer
from termal.wire.errors import Busy
from termal.wire.mail_operations import AcknowledgeMail, ListSent, ReadMailbox
from tests.support.coordination_rows import add_mailbox, add_message, coordination_file
from workers.coordination import mail_reads, mail_sent
from workers.coordination.admission import Admission
from workers.coordination.mail_boxes import Boxes
from workers.coordination.mail_counts import UnreadCounts, count_between
from workers.coordination.mail_store import Mail, MailStore, Stored

QUEUED, DELIVERED, UNWOKEN = "queuedBehindActiveTurn", "deliveredToIdleSession", "durableButNotWoken"


@pytest.fixture
def connection(home_dir: Path) -> Iterator[Cursorlike]:
    with coordination_file(home_dir) as connection:
        yield connection


@pytest.fixture
def store() -> MailStore:
    return MailStore(Boxes(UnreadCounts()))


def mail(number: int, sender: str = "a", target: str = "b", topic: str | None = None) -> Mail:
    now = "2026-01-01T00:00:00.000000+00:00"
    return Mail(f"message-{number}", now, sender, sender, target, target, f"key-{number}", "hello", topic)


def states(connection: Cursorlike) -> list[Any]:
    return connection.execute("SELECT dispatch_outcome, notification_disposition FROM mailbox_messages").fetchall()


def append(store: MailStore, connection: Cursorlike, message: Mail) -> Stored:
    stored = store.append(connection, message)
    assert isinstance(stored, Stored)
    return stored


@pytest.mark.case("C36")
def test_an_outcome_is_recorded_once(connection: Cursorlike, store: MailStore) -> None:
    stored = append(store, connection, mail(1))
    assert store.finalize(connection, [(stored.row, stored.message_id, QUEUED)]) == [QUEUED]
    assert store.finalize(connection, [(stored.row, stored.message_id, DELIVERED)]) == [QUEUED]
    assert states(connection) == [(QUEUED, QUEUED)]


@pytest.mark.case("C37")
def test_an_outcome_never_puts_a_delivered_message_back(connection: Cursorlike, store: MailStore) -> None:
    stored = append(store, connection, mail(1))
    connection.execute("UPDATE mailbox_messages SET notification_disposition = ?", (DELIVERED,))
    assert store.finalize(connection, [(stored.row, stored.message_id, QUEUED)]) == [QUEUED]
    assert states(connection) == [(QUEUED, DELIVERED)]


def test_an_outcome_is_recorded_for_no_other_message(connection: Cursorlike, store: MailStore) -> None:
    stored = append(store, connection, mail(1))
    assert store.finalize(connection, [(stored.row, "message-of-nobody", QUEUED)]) == [UNWOKEN]
    assert states(connection) == [(None, UNWOKEN)]


def test_a_row_that_wakes_nobody_has_its_outcome_at_once_and_counts_for_nothing(
    connection: Cursorlike, store: MailStore
) -> None:
    append(store, connection, mail(1))
    control = mail(2, topic="delegation-review-result/v1")._replace(outcome=UNWOKEN)
    assert append(store, connection, control).unread_depth == 1
    assert append(store, connection, mail(3))[3:6] == (3, 2, None)
    assert states(connection) == [(None, UNWOKEN), (UNWOKEN, UNWOKEN), (None, UNWOKEN)]


@pytest.mark.case("C50")
def test_a_receiver_that_left_gets_nothing_and_no_sequence_is_used(connection: Cursorlike, store: MailStore) -> None:
    append(store, connection, mail(1))
    connection.execute("UPDATE mailbox_participants SET left_at = '2026-01-01' WHERE session_id = 'b'")
    store.boxes.forget()
    refused = store.append(connection, mail(2))
    assert not isinstance(refused, Stored)
    assert (refused.status, refused.reason) == (409, "departed")
    assert connection.execute("SELECT next_sequence FROM mailboxes").get == 2


def test_what_is_remembered_is_what_is_read_again(connection: Cursorlike, store: MailStore) -> None:
    """The same writes with a memory that lasts and with one that is lost all the time."""
    forgetful = MailStore(Boxes(UnreadCounts()))
    for number, (sender, target) in enumerate([("a", "b"), ("b", "a"), ("a", "b"), ("a", "b"), ("b", "a")] * 3):
        forgetful.boxes.forget()
        append(store, connection, mail(number, sender, target))
        append(forgetful, connection, mail(100 + number, f"{sender}-", f"{target}-"))
        if number % 4 == 3:
            for one, suffix in ((store, ""), (forgetful, "-")):
                box = connection.execute(
                    "SELECT mailbox_id FROM mailbox_participants WHERE session_id = ?", ("a" + suffix,)
                ).get
                cursor = connection.execute(
                    "SELECT processed_through FROM mailbox_participants WHERE session_id = ?", ("b" + suffix,)
                ).get
                one.acknowledge(connection, AcknowledgeMail("b" + suffix, box, cursor, number))
    depths = connection.execute(
        "SELECT rtrim(sender_session_id, '-'), sequence, unread_depth_at_append FROM mailbox_messages ORDER BY rowid"
    ).fetchall()
    assert depths[::2] == depths[1::2]


def test_unread_mail_is_counted_the_same_from_any_place(connection: Cursorlike) -> None:
    box = add_mailbox(connection, "a", "b")
    counts = UnreadCounts()
    for number in range(40):
        sender, target = ("a", "b") if number % 3 else ("b", "a")
        add_message(connection, box, sender, target)
        for cursor in (0, number // 2, number):
            assert counts.unread(connection, (box, "b"), cursor, number + 1, keep=True) == count_between(
                connection, (box, "b"), cursor, number + 1
            )


def test_a_page_ends_before_it_is_too_large_to_travel(
    connection: Cursorlike, store: MailStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        box = append(store, connection, mail(number)._replace(body="x" * 1000)).mailbox_id
    monkeypatch.setattr(mail_reads, "PAGE_BYTES", 3000)
    pages = [json.loads(mail_reads.page(connection, ReadMailbox("b", box, after))) for after in (0, 2, 4)]
    assert [[message["sequence"] for message in found] for found in pages] == [[1, 2], [3, 4], [5]]
    # A message that is larger than a page is one.
    monkeypatch.setattr(mail_reads, "PAGE_BYTES", 10)
    assert len(json.loads(mail_reads.page(connection, ReadMailbox("b", box)))) == 1


def test_a_long_history_of_sent_messages_is_looked_through_in_parts(
    connection: Cursorlike, store: MailStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        append(store, connection, mail(number, "a" if number % 2 else "c"))
    append(store, connection, mail(9, "a", topic="delegation-review-result/v1"))
    monkeypatch.setattr(mail_sent, "SEARCH_ROWS", 2)
    seen: list[int] = []
    before: str | None = None
    pages = 0
    while pages == 0 or before is not None:
        page = json.loads(mail_sent.sent_page(connection, ListSent("a", before=before)))
        seen += [message["sequence"] for message in page["messages"]]
        before = page.get("nextBefore")
        pages += 1
    assert (seen, pages) == ([3, 2, 1], 3)


@pytest.mark.case("C68")
def test_the_line_of_the_writer_is_served_in_order_and_skips_who_gave_up(home_dir: Path) -> None:
    with coordination_file(home_dir):
        pass
    loop, log = PollLoop(), Log("test", home_dir / "logs" / "test.log")
    writer = Writer(
        home_dir / "coordination.sqlite", durability="normal", notify=lambda: loop.threadsafe(writer.finish), log=log
    )
    gate, entered = threading.Event(), threading.Event()
    order: list[str] = []
    ended: dict[str, Exception | None] = {}

    def hold(_: Cursorlike) -> None:
        entered.set()
        assert gate.wait(5)

    def job(name: str) -> Callable[[Cursorlike], None]:
        return lambda _: order.append(name)

    def done(name: str) -> Callable[[None, Exception | None], None]:
        return lambda _, error: ended.update({name: error})

    admission = Admission(loop, lambda: writer)
    try:
        writer.submit(hold, done("holder"))
        assert entered.wait(5)
        now = time.monotonic()
        admission.submit(job("late"), done("late"), deadline_s=now)
        admission.submit(job("request"), done("request"), deadline_s=now + 60)
        writer.submit(job("internal"), done("internal"))
        while "late" not in ended:
            loop.one_pass(0.01)
        assert isinstance(ended["late"], Busy)
        assert order == []
        gate.set()
        while len(ended) < 4:
            loop.one_pass(0.01)
        assert order == ["request", "internal"]
        assert [error for name, error in ended.items() if name != "late"] == [None, None, None]
    finally:
        gate.set()
        writer.close(time.monotonic() + 5)
        loop.close()
        log.close()
