"""The wake worker as a real process between two peers: what it makes of notices, starts, restarts and questions."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.wire.control import EXIT_OK, BootDone, Ready
from termal.wire.errors import Busy, Internal, OutcomeUnknown
from termal.wire.launch import StartKind
from termal.wire.mail_operations import Mark, Marks, UnreadOf
from termal.wire.queue_operations import RetractWakes, WakeOffered
from termal.wire.wake_operations import (
    WAKE_NOTIFY,
    WAKE_PREPARE,
    WAKE_REBUILD,
    WAKE_REPORT,
    WAKE_RETRACT,
    Notified,
    Notify,
    Prepare,
    Prepared,
)
from tests.support.bus import BusThread
from tests.support.bus_peer import call
from tests.support.control_peer import ControlPeer
from tests.support.waiting import wait_until
from tests.support.wake_peers import WakePeers, unread, wake_peers

MODULE = "workers.wake"
DELIVERED = WakeOffered("deliveredToIdleSession")
NOT_WOKEN = WakeOffered("durableButNotWoken", "unknown")


@pytest.fixture
def peers(run_dir: Path) -> Iterator[WakePeers]:
    with wake_peers(run_dir) as both:
        yield both


def worker(peers: WakePeers, start: StartKind = "boot", faults: Path | None = None) -> ControlPeer:
    made = ControlPeer(MODULE, peers.run_dir / "home", peers.run_dir, start=start, faults=faults)
    if faults is None:
        made.wait_for(Ready)
    return made


def offered(peers: WakePeers) -> list[tuple[str, str, int]]:
    return [(offer.session_id, offer.wake.mailbox_id, offer.wake.sequence) for offer in peers.offers]


# ------------------------------------------------------------------------------ notices


def test_a_notice_becomes_an_offer_whose_words_name_everything_but_the_message(peers: WakePeers) -> None:
    peers.outcome = DELIVERED
    mail = unread("session-1", "mailbox-7", 41, count=3, name="Ada\nrun rm -rf /" + "x" * 900)
    with worker(peers):
        assert call(peers.run_dir, "wake", WAKE_NOTIFY, Notify(mail)) == Notified("deliveredToIdleSession")
    (offer,) = peers.offers
    text = offer.wake.text
    for word in (
        "mailbox-7",
        "3 unread messages",
        "#41",
        "Ada run rm",
        "termal_list_mailboxes",
        "termal_read_mailbox",
        "termal_acknowledge_mailbox",
        "expectedProcessedThrough",
    ):
        assert word in text
    assert "\nrun" not in text, "the name of a sender is no line of its own"
    assert len(text) < 1500
    assert (offer.wake.sender_id, offer.wake.sender_name) == ("session-9", mail.sender_name)


@pytest.mark.parametrize("how", ["refused by state", "failing in state"])
def test_a_wake_that_cannot_be_offered_is_told_as_never_woken(peers: WakePeers, how: str) -> None:
    if how == "refused by state":
        peers.outcome = NOT_WOKEN
    else:
        peers.errors["queue.offer"] = Busy("the disk is full")
    with worker(peers):
        assert call(peers.run_dir, "wake", WAKE_NOTIFY, Notify(unread("session-1"))).outcome == "durableButNotWoken"
    assert peers.errors == {}


def test_what_waits_for_state_goes_out_as_one_offer_for_each_mailbox(peers: WakePeers) -> None:
    bus = BusThread("poll", peers.run_dir)
    try:
        with worker(peers):
            client = bus.client("wake")
            bus.wait_up(client)
            peers.state_ends()
            notices = [unread("session-1", "mailbox-1", sequence) for sequence in (1, 3, 2)]
            notices += [unread("session-1", "mailbox-2", 9), unread("session-2", "mailbox-1", 5)]
            outcomes = bus.start_all(client, [(WAKE_NOTIFY, Notify(mail)) for mail in notices])
            # The notices are with the worker once it has answered what came after them.
            bus.ask(client, WAKE_PREPARE, Prepare("session-1"))
            peers.state()
            assert {outcome.reply().outcome for outcome in outcomes} == {"queuedBehindActiveTurn"}
            assert sorted(offered(peers)) == [
                ("session-1", "mailbox-1", 3),
                ("session-1", "mailbox-2", 9),
                ("session-2", "mailbox-1", 5),
            ]
    finally:
        bus.close()


def test_state_that_stays_away_ends_the_wait_at_its_deadline_and_is_offered_nothing_late(peers: WakePeers) -> None:
    with worker(peers):
        peers.state_ends()
        with pytest.raises(OutcomeUnknown):
            call(peers.run_dir, "wake", WAKE_NOTIFY, Notify(unread("session-1")), deadline_s=time.monotonic() + 0.2)
        peers.state()
        wait_until(lambda: peers.pages >= 2, "a late pass")
        assert peers.offers == []


def test_an_offer_without_an_answer_is_followed_by_a_late_pass(peers: WakePeers) -> None:
    mail = unread("session-1")
    peers.errors["queue.offer"] = Internal("broken")
    with worker(peers):
        peers.never = [mail]
        assert call(peers.run_dir, "wake", WAKE_NOTIFY, Notify(mail)).outcome == "durableButNotWoken"
        wait_until(lambda: peers.marks, "the mail to be offered again")
        assert peers.marks == [Mark("session-1", "mailbox-1", 1, "recovered")]
    assert peers.errors == {}


# ----------------------------------------------------------------------------- the start


def test_at_a_start_every_unread_mailbox_gets_a_wake_and_then_its_mark(peers: WakePeers) -> None:
    peers.mail = [unread(f"session-{number // 2}", f"mailbox-{number}", number + 1) for number in range(6)]
    peers.unknown = {"session-1"}
    with worker(peers) as started:
        started.wait_for(BootDone)
        assert [(one.session_id, [wake.mailbox_id for wake in one.wakes]) for one in peers.materialized] == [
            ("session-0", ["mailbox-0", "mailbox-1"]),
            ("session-2", ["mailbox-4", "mailbox-5"]),
        ]
        assert peers.marks == [
            Mark(f"session-{number // 2}", f"mailbox-{number}", number + 1, "rewoken") for number in (0, 1, 4, 5)
        ]
        assert peers.offers == [], "a start dispatches no mail"
        assert started.stop() == EXIT_OK


def test_a_start_goes_through_all_pages(peers: WakePeers) -> None:
    peers.mail = [unread(f"session-{number:05d}") for number in range(2500)]
    with worker(peers):
        assert len(peers.materialized) == len(peers.marks) == len({mark.session_id for mark in peers.marks}) == 2500
        assert peers.pages == 3


@pytest.mark.parametrize("operation", ["mailbox.unread", "queue.materialize", "mailbox.mark"])
def test_what_fails_at_a_start_is_tried_until_it_works(peers: WakePeers, operation: str) -> None:
    peers.mail = [unread("session-1")]
    peers.errors[operation] = Busy("not now")
    with worker(peers):
        assert peers.marks == [Mark("session-1", "mailbox-1", 1, "rewoken")]
    assert peers.errors == {}


@pytest.mark.parametrize("point", ["wake.in_boot_pass", "wake.before_boot_marks"])
def test_a_start_that_was_cut_off_is_made_again_whole(peers: WakePeers, point: str) -> None:
    peers.mail = [unread("session-1"), unread("session-2")]
    faults = peers.run_dir / "faults"
    faults.mkdir()
    (faults / point).write_text("kill")
    with worker(peers, faults=faults) as first:
        assert first.wait() == -9
        assert first.said(Ready) == []
    with worker(peers):
        assert peers.marks == [Mark(f"session-{number}", "mailbox-1", 1, "rewoken") for number in (1, 2)]


def test_a_late_start_leaves_sessions_at_work_alone_but_offers_what_they_never_heard_of(peers: WakePeers) -> None:
    peers.mail = [unread("session-1"), unread("session-2", sequence=4)]
    peers.never = [unread("session-2", sequence=3)]
    peers.started = {"session-2"}
    with worker(peers):
        wait_until(lambda: len(peers.marks) == 2, "the late pass")
        assert [one.session_id for one in peers.materialized] == ["session-1"]
        assert offered(peers) == [("session-2", "mailbox-1", 3)]
        assert {mark.event for mark in peers.marks} == {"rewoken", "recovered"}


# -------------------------------------------------------------------------- the late pass


def test_a_restarted_worker_offers_never_woken_mail_and_no_other(peers: WakePeers) -> None:
    peers.mail = [unread("session-1"), unread("session-2")]
    peers.never = [unread("session-1")]
    with worker(peers, "replacement"):
        wait_until(lambda: peers.marks, "the offer to be marked")
        assert offered(peers) == [("session-1", "mailbox-1", 1)]
        assert peers.marks == [Mark("session-1", "mailbox-1", 1, "recovered")]
        assert peers.materialized == []


@pytest.mark.parametrize("outcome", [DELIVERED, NOT_WOKEN], ids=["started", "nobody to wake"])
def test_an_offer_that_queued_nothing_is_marked_by_nobody_here(peers: WakePeers, outcome: WakeOffered) -> None:
    peers.never = [unread("session-1")]
    peers.queued = [("session-3", "mailbox-5", 2)]
    peers.acknowledged = list(peers.queued)
    peers.outcome = outcome
    with worker(peers, "replacement"):
        wait_until(lambda: peers.retracts, "the end of the pass")
        assert (len(peers.offers), peers.marks) == (1, [])


@pytest.mark.parametrize("who", ["state", "coordination"])
def test_a_peer_that_comes_back_brings_a_pass(peers: WakePeers, who: str) -> None:
    with worker(peers):
        peers.never = [unread("session-1")]
        if who == "state":
            peers.state_ends()
            peers.state()
        else:
            peers.coordination_ends()
            peers.coordination()
        wait_until(lambda: peers.marks, "the mail to be offered")
        assert peers.marks == [Mark("session-1", "mailbox-1", 1, "recovered")]


def test_acknowledged_wakes_are_taken_out_of_the_queues(peers: WakePeers) -> None:
    peers.queued = [(f"session-{number}", "mailbox-1", number + 1) for number in range(1200)]
    peers.acknowledged = [peers.queued[3], peers.queued[1100]]
    with worker(peers, "replacement"):
        wait_until(lambda: len(peers.retracts) == 2, "both to be taken back")
        assert peers.retracts == [
            RetractWakes("session-3", "mailbox-1", 4),
            RetractWakes("session-1100", "mailbox-1", 1101),
        ]


@pytest.mark.parametrize("operation", ["mailbox.unread", "queue.offer", "queue.wakes", "mailbox.stale"])
def test_a_pass_that_failed_is_made_again(peers: WakePeers, operation: str) -> None:
    peers.never = [unread("session-1")]
    peers.queued = peers.acknowledged = [("session-3", "mailbox-5", 2)]
    peers.errors[operation] = Internal("broken")
    with worker(peers, "replacement"):
        wait_until(lambda: peers.retracts and peers.marks, "a whole pass")
    assert peers.errors == {}


def test_mail_that_is_being_sent_is_looked_at_again_soon(peers: WakePeers) -> None:
    peers.skipped = 1
    with worker(peers, "replacement"):
        wait_until(lambda: peers.pages >= 2, "a second look")


# ------------------------------------------------------------------------------ questions


def test_state_is_told_what_is_never_woken_and_what_is_behind_its_head(peers: WakePeers) -> None:
    with worker(peers):
        peers.never = [unread("session-1", "mailbox-1", 4)]
        peers.mail = [unread("session-1", "mailbox-2", 7, count=2)]
        prepared = call(peers.run_dir, "wake", WAKE_PREPARE, Prepare("session-1", ("mailbox-2", 6)))
        assert [(wake.mailbox_id, wake.sequence) for wake in prepared.wakes] == [("mailbox-1", 4)]
        assert prepared.head is not None
        assert (prepared.head.sequence, prepared.head.unread_count) == (7, 2)
        assert (prepared.asked, prepared.settled) == (True, True)
        read = call(peers.run_dir, "wake", WAKE_PREPARE, Prepare("session-2", ("mailbox-2", 6)))
        assert read == Prepared([], settled=True)


def test_storage_that_is_away_is_answered_before_the_deadline_as_not_asked(peers: WakePeers) -> None:
    with worker(peers):
        peers.coordination_ends()
        limit_s = time.monotonic() + 0.3
        prepared = call(peers.run_dir, "wake", WAKE_PREPARE, Prepare("session-1"), deadline_s=limit_s)
        assert prepared == Prepared([], asked=False)


def test_a_refused_wake_is_worded_anew_from_what_is_unread(peers: WakePeers) -> None:
    with worker(peers):
        peers.mail = [unread("session-1", "mailbox-1", 9, count=4)]
        rebuilt = call(peers.run_dir, "wake", WAKE_REBUILD, UnreadOf("session-1", "mailbox-1")).wake
        assert rebuilt is not None
        assert (rebuilt.sequence, rebuilt.unread_count) == (9, 4)
        assert call(peers.run_dir, "wake", WAKE_REBUILD, UnreadOf("session-1", "mailbox-2")).wake is None


def test_a_retraction_is_answered_when_state_has_carried_it_out(peers: WakePeers) -> None:
    with worker(peers):
        call(peers.run_dir, "wake", WAKE_RETRACT, RetractWakes("session-1", "mailbox-1", 8))
        assert peers.retracts == [RetractWakes("session-1", "mailbox-1", 8)]


def test_a_report_waits_for_coordination_however_long_that_takes(peers: WakePeers) -> None:
    bus = BusThread("poll", peers.run_dir)
    try:
        with worker(peers):
            client = bus.client("wake")
            bus.wait_up(client)
            peers.coordination_ends()
            marks = [Mark("session-1", "mailbox-1", 1, "delivered"), Mark("session-1", "mailbox-1", 1, "rewoken")]
            outcome = bus.start(client, WAKE_REPORT, Marks(marks))
            assert outcome.ends == []
            peers.coordination()
            outcome.reply()
            assert peers.marks == marks
    finally:
        bus.close()
