"""Unread and never-woken mail as `wake` asks for it, and the marks of what became of wakes, on a real file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import apsw
import pytest

from termal.model.mail import CONTROL_TOPIC
from termal.wire.mail_operations import AskStale, AskUnwoken, ListUnread, Mark
from tests.support.coordination_rows import add_mailbox, add_message
from workers.coordination import marks, unread
from workers.coordination.schema import create_tables

Event = Literal["delivered", "recovered", "rewoken"]
NOBODY: set[str] = set()
OTHER_STATES = ("queuedBehindActiveTurn", "recoveredWake", "deliveredToIdleSession")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(tmp_path / "coordination.sqlite"))
    create_tables(connection)
    yield connection
    connection.close()


def at(connection: apsw.Connection, message_id: str, time: str) -> None:
    connection.execute("UPDATE mailbox_messages SET created_at = ? WHERE id = ?", (time, message_id))


def states(connection: apsw.Connection, mailbox: str) -> list[str]:
    rows = connection.execute(
        "SELECT notification_disposition FROM mailbox_messages WHERE mailbox_id = ? ORDER BY sequence", (mailbox,)
    )
    return [state for (state,) in rows]


def leave(connection: apsw.Connection, session: str) -> None:
    connection.execute("UPDATE mailbox_participants SET left_at = '2026' WHERE session_id = ?", (session,))


def mark(connection: apsw.Connection, mailbox: str, through: int, event: Event) -> int:
    """How many rows it changed."""
    before = states(connection, mailbox)
    marks.apply(connection, [Mark("b", mailbox, through, event)])
    return sum(old != new for old, new in zip(before, states(connection, mailbox), strict=True))


# ------------------------------------------------------------------------------ reading


def test_never_woken_mail_is_named_by_its_newest_message_with_all_that_is_unread(store: apsw.Connection) -> None:
    mailbox = add_mailbox(store, "a", "b")
    for state in ("deliveredToIdleSession", "durableButNotWoken", "durableButNotWoken", "queuedBehindActiveTurn"):
        add_message(store, mailbox, "a", "b", state=state)
    (mail,) = unread.unwoken(store, AskUnwoken("b"), NOBODY).mail
    assert (mail.sequence, mail.unread_count) == (3, 4)
    assert (mail.mailbox_id, mail.session_id, mail.sender_id, mail.sender_name) == (mailbox, "b", "a", "a")
    assert unread.unwoken(store, AskUnwoken("a"), NOBODY).mail == []
    newest = unread.unread_of(store, "b", mailbox)
    assert newest is not None
    assert (newest.sequence, newest.unread_count) == (4, 4)


@pytest.mark.parametrize("why", ["read", "left", "control topic", "woken", "being sent"])
def test_what_nobody_has_to_be_told_of_is_not_found(store: apsw.Connection, why: str) -> None:
    mailbox = add_mailbox(store, "a", "b", cursors=(0, 1 if why == "read" else 0))
    topic = CONTROL_TOPIC if why == "control topic" else None
    state = "queuedBehindActiveTurn" if why == "woken" else "durableButNotWoken"
    message = add_message(store, mailbox, "a", "b", topic=topic, state=state)
    if why == "left":
        leave(store, "b")
    pending = {message} if why == "being sent" else NOBODY
    found = unread.unwoken(store, AskUnwoken("b"), pending)
    assert found.mail == []
    assert found.settled == (why != "being sent")
    page = unread.unread_page(store, ListUnread(only_unwoken=True), pending)
    assert (page.mail, page.skipped) == ([], int(why == "being sent"))
    still = unread.unread_page(store, ListUnread(), pending).mail
    assert len(still) == (1 if why in ("woken", "being sent") else 0)


def test_an_older_never_woken_message_is_found_behind_one_that_is_being_sent(store: apsw.Connection) -> None:
    mailbox = add_mailbox(store, "a", "b")
    add_message(store, mailbox, "a", "b")
    pending = {add_message(store, mailbox, "a", "b")}
    found = unread.unwoken(store, AskUnwoken("b"), pending)
    assert [(mail.sequence, mail.unread_count) for mail in found.mail] == [(1, 2)]
    assert not found.settled


def test_a_message_whose_dispatch_ends_while_it_is_read_is_left_to_it(store: apsw.Connection) -> None:
    message = add_message(store, add_mailbox(store, "a", "b"), "a", "b")

    class Ending(set[str]):
        def copy(self) -> set[str]:
            before = set(self)
            self.clear()
            return before

    assert unread.unwoken(store, AskUnwoken("b"), Ending({message})).mail == []


@pytest.mark.case("C60")
def test_a_pass_takes_the_sixteen_newest_mailboxes_and_says_that_there_are_more(store: apsw.Connection) -> None:
    for number in range(17):
        mailbox = add_mailbox(store, f"peer-{number:02d}", "b")
        at(store, add_message(store, mailbox, f"peer-{number:02d}", "b"), f"2026-01-{number + 1:02d}")
    found = unread.unwoken(store, AskUnwoken("b"), NOBODY)
    assert [mail.sender_id for mail in found.mail] == [f"peer-{number:02d}" for number in range(16, 0, -1)]
    assert not found.settled
    everything = unread.unread_page(store, ListUnread(), NOBODY)
    assert len(everything.mail) == 17, "a start takes all of them"


def test_equal_times_are_ordered_by_mailbox(store: apsw.Connection) -> None:
    for peer in ("z", "m", "a"):
        add_message(store, add_mailbox(store, peer, "b"), peer, "b")
    found = [mail.mailbox_id for mail in unread.unwoken(store, AskUnwoken("b"), NOBODY).mail]
    assert found == sorted(found)
    assert [mail.mailbox_id for mail in unread.unread_page(store, ListUnread(), NOBODY).mail] == found


def test_the_head_of_a_queue_is_answered_with_what_is_unread_behind_it(store: apsw.Connection) -> None:
    mailbox = add_mailbox(store, "a", "b")
    for _ in range(3):
        add_message(store, mailbox, "a", "b", state="deliveredToIdleSession")
    asked = AskUnwoken("b", head=(mailbox, 2))
    head = unread.unwoken(store, asked, NOBODY).head
    assert head is not None
    assert (head.sequence, head.unread_count) == (3, 3)
    store.execute("UPDATE mailbox_participants SET processed_through = 3 WHERE session_id = 'b'")
    assert unread.unwoken(store, asked, NOBODY).head is None
    wakes = [("b", mailbox, 2), ("a", mailbox, 9), ("nobody", "none", 1)]
    assert unread.stale(store, AskStale(wakes)).wakes == wakes


@pytest.mark.parametrize("only_unwoken", [False, True], ids=["all unread", "never woken"])
def test_pages_hold_whole_receivers_and_leave_nobody_out(store: apsw.Connection, only_unwoken: bool) -> None:
    for receiver in range(5):
        for sender in range(3):
            one, other = f"receiver-{receiver}", f"sender-{sender}"
            add_message(store, add_mailbox(store, one, other), other, one)
    seen: list[tuple[str, str]] = []
    sizes = []
    after: tuple[str, str] | None = None
    while True:
        page = unread.unread_page(store, ListUnread(after, 4, only_unwoken), NOBODY)
        seen += [(mail.session_id, mail.mailbox_id) for mail in page.mail]
        sizes.append(len(page.mail))
        after = page.next
        if after is None:
            break
    assert sizes == [6, 6, 3]
    assert len(set(seen)) == len(seen) == 15
    assert [session for session, _ in seen] == sorted(session for session, _ in seen)


def test_the_figures_say_how_much_waits_and_since_when(store: apsw.Connection) -> None:
    assert unread.counts(store).unread_since is None
    mailbox = add_mailbox(store, "a", "b")
    at(store, add_message(store, mailbox, "a", "b", state="deliveredToIdleSession"), "2026-01-01")
    at(store, add_message(store, mailbox, "a", "b"), "2026-01-02")
    at(store, add_message(store, mailbox, "a", "b", topic=CONTROL_TOPIC), "2025-01-01")
    counts = unread.counts(store)
    assert (counts.count, counts.unread, counts.unwoken) == (1, 2, 1)
    assert (counts.unread_since, counts.unwoken_since) == ("2026-01-01", "2026-01-02")


@pytest.mark.parametrize(
    ("topic", "state", "read"),
    [(None, "deliveredToIdleSession", True), (CONTROL_TOPIC, "durableButNotWoken", False)],
    ids=["delivered mail", "reviews"],
)
def test_no_question_reads_the_history(topic: str | None, state: str, read: bool) -> None:
    """The work is counted in steps of SQLite's own machine: the same for few and for many old rows."""

    def steps(history: int) -> list[int]:
        store = apsw.Connection(":memory:")
        create_tables(store)
        mailbox = add_mailbox(store, "a", "b", cursors=(0, history if read else 0))
        for _ in range(history):
            add_message(store, mailbox, "a", "b", topic=topic, state=state)
        marks.apply(store, [Mark("b", mailbox, history, "delivered")])
        add_message(store, mailbox, "a", "b")
        counted = 0

        def count() -> bool:
            nonlocal counted
            counted += 1
            return False

        figures = []
        store.set_progress_handler(count, 1)
        for ask in (
            lambda: unread.unwoken(store, AskUnwoken("b", head=(mailbox, 1)), NOBODY),
            lambda: unread.unread_of(store, "b", mailbox),
            lambda: unread.unread_page(store, ListUnread(), NOBODY),
            lambda: unread.unread_page(store, ListUnread(only_unwoken=True), NOBODY),
            lambda: unread.counts(store),
            lambda: marks.apply(store, [Mark("b", mailbox, history + 1, "recovered")]),
            lambda: marks.apply(store, [Mark("b", mailbox, history + 1, "delivered")]),
            lambda: marks.apply(store, [Mark("b", mailbox, history + 1, "rewoken")]),
        ):
            counted = 0
            ask()
            figures.append(counted)
        store.close()
        return figures

    for fewer, more in zip(steps(20), steps(1000), strict=True):
        assert more < fewer + 20


# -------------------------------------------------------------------------------- marks


def test_an_accepted_wake_delivers_all_that_it_covers(store: apsw.Connection) -> None:
    mailbox = add_mailbox(store, "a", "b")
    for state in ("durableButNotWoken", *OTHER_STATES, "durableButNotWoken"):
        add_message(store, mailbox, "a", "b", state=state)
    add_message(store, mailbox, "b", "a")
    assert mark(store, mailbox, 4, "delivered") == 3
    assert states(store, mailbox) == ["deliveredToIdleSession"] * 4 + ["durableButNotWoken"] * 2
    assert mark(store, mailbox, 4, "delivered") == 0


def test_what_was_delivered_and_taken_back_is_delivered_again(store: apsw.Connection) -> None:
    mailbox = add_mailbox(store, "a", "b", cursors=(0, 1))
    for _ in range(3):
        add_message(store, mailbox, "a", "b")
    assert mark(store, mailbox, 3, "delivered") == 3
    assert mark(store, mailbox, 3, "rewoken") == 2
    assert mark(store, mailbox, 3, "delivered") == 2


def test_mail_below_a_message_that_was_delivered_by_itself_is_not_forgotten(store: apsw.Connection) -> None:
    mailbox = add_mailbox(store, "a", "b")
    for state in ("deliveredToIdleSession", "durableButNotWoken", "deliveredToIdleSession"):
        add_message(store, mailbox, "a", "b", state=state)
    assert mark(store, mailbox, 1, "delivered") == 0
    assert mark(store, mailbox, 3, "delivered") == 1


def test_a_wake_that_knows_of_more_than_the_file_does_not_cover_what_comes_later(store: apsw.Connection) -> None:
    """The file was put back from a backup that is older than the wake."""
    mailbox = add_mailbox(store, "a", "b")
    add_message(store, mailbox, "a", "b")
    assert mark(store, mailbox, 40, "delivered") == 1
    add_message(store, mailbox, "a", "b")
    assert mark(store, mailbox, 2, "delivered") == 1
    marks.apply(store, [Mark("b", "mailbox-of-another-file", 7, "delivered")])


def test_a_file_of_a_build_without_the_record_is_brought_up_each_time(store: apsw.Connection) -> None:
    old_index = "CREATE INDEX mailbox_messages_undelivered ON mailbox_messages(notification_disposition, sequence)"
    mailbox, read, empty = add_mailbox(store, "a", "b"), add_mailbox(store, "b", "c"), add_mailbox(store, "b", "d")
    for state in ("deliveredToIdleSession", "deliveredToIdleSession", "queuedBehindActiveTurn"):
        add_message(store, mailbox, "a", "b", state=state)
    add_message(store, read, "c", "b", state="deliveredToIdleSession")

    def record() -> list[tuple[str, int]]:
        query = (
            "SELECT mailbox_id, delivered_through FROM mailbox_deliveries WHERE session_id = 'b' ORDER BY mailbox_id"
        )
        return list(store.execute(query))

    for expected in ([(mailbox, 2), (read, 1), (empty, 0)], [(mailbox, 0), (read, 1), (empty, 0)]):
        store.execute(old_index)
        marks.complete_deliveries(store)
        assert record() == expected
        # What such a build does at its next start, and this one would never look at again.
        store.execute("UPDATE mailbox_messages SET notification_disposition = 'recoveredWake' WHERE sequence = 1")
        store.execute(
            "UPDATE mailbox_messages SET notification_disposition = 'deliveredToIdleSession' WHERE mailbox_id = ?",
            (read,),
        )
        marks.complete_deliveries(store)
        assert record() == expected, "once only"
    assert mark(store, mailbox, 3, "delivered") == 2


@pytest.mark.case("C38")
def test_never_woken_marking_leaves_delivered_mail_alone(store: apsw.Connection) -> None:
    mailbox = add_mailbox(store, "a", "b")
    for state in OTHER_STATES:
        add_message(store, mailbox, "a", "b", state=state)
    assert mark(store, mailbox, 3, "recovered") == 0
    add_message(store, mailbox, "a", "b")
    assert mark(store, mailbox, 3, "recovered") == 0, "it is above the wake"
    assert mark(store, mailbox, 4, "recovered") == 1
    assert states(store, mailbox) == [*OTHER_STATES, "recoveredWake"]


@pytest.mark.case("C39")
def test_boot_marking_takes_delivered_mail_back_once(store: apsw.Connection) -> None:
    mailbox = add_mailbox(store, "a", "b")
    add_message(store, mailbox, "a", "b", state="deliveredToIdleSession")
    assert mark(store, mailbox, 1, "rewoken") == 1
    assert states(store, mailbox) == ["recoveredWake"]
    assert mark(store, mailbox, 1, "rewoken") == 0


@pytest.mark.case("C40")
@pytest.mark.parametrize("why", ["acknowledged", "departed"])
def test_boot_marking_leaves_read_mail_and_gone_receivers_alone(store: apsw.Connection, why: str) -> None:
    mailbox = add_mailbox(store, "a", "b", cursors=(0, 1 if why == "acknowledged" else 0))
    add_message(store, mailbox, "a", "b", state="deliveredToIdleSession")
    if why == "departed":
        leave(store, "b")
    assert mark(store, mailbox, 1, "rewoken") == 0


@pytest.mark.parametrize("event", ["delivered", "recovered", "rewoken"])
def test_rows_of_the_control_topic_never_change(store: apsw.Connection, event: Event) -> None:
    mailbox = add_mailbox(store, "a", "b")
    add_message(store, mailbox, "a", "b", topic=CONTROL_TOPIC)
    assert mark(store, mailbox, 1, event) == 0
