"""From a stored message to the turn that it starts: state, coordination and wake as real processes, nobody dies."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from termal.wire.errors import Internal
from termal.wire.queue_operations import QUEUE_OFFER, OfferWake, Wake
from termal.wire.session_operations import PROMPT_SEND
from tests.support.coordination_rows import add_mailbox, add_message
from tests.support.mail_daemon import MailDaemon
from tests.support.state_worker import Json, texts
from tests.support.waiting import wait_until

DELIVERED = "deliveredToIdleSession"
QUEUED = "queuedBehindActiveTurn"
NEVER = "durableButNotWoken"
RECOVERED = "recoveredWake"


@pytest.fixture
def mail(run_dir: Path) -> Iterator[MailDaemon]:
    daemon = MailDaemon(run_dir)
    try:
        yield daemon.boot()
    finally:
        daemon.close()


def pair(mail: MailDaemon) -> tuple[str, str]:
    return mail.state.create(), mail.state.create()


def busy_pair(mail: MailDaemon) -> tuple[str, str]:
    """B works on a prompt of a person's: turn 0."""
    a, b = pair(mail)
    mail.state.send(b, "work")
    mail.runtime.turn(0)
    return a, b


@contextmanager
def writing(mail: MailDaemon) -> Iterator[apsw.Connection]:
    """The coordination file, behind the back of its worker."""
    connection = apsw.Connection(str(mail.home.coordination_db))
    connection.set_busy_timeout(5000)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def cancel_all(mail: MailDaemon, session_id: str) -> None:
    for prompt in mail.state.read(session_id)["pendingPrompts"]:
        mail.state.cancel(session_id, prompt["id"])


def block(mail: MailDaemon, session_id: str, *queue: Json) -> None:
    """Restart the daemon with a session whose queue does not go on by itself."""
    mail.crash()
    stored = mail.state.row(session_id).get("queuedPrompts", [])
    mail.state.change_row(session_id, orchestratorAutoDispatchBlocked=True, queuedPrompts=[*queue, *stored])
    mail.boot()


def workflow(number: int, text: str = "step", source: str = "orchestrator") -> Json:
    prompt = {"id": f"message-{number}", "timestamp": "10:00:00", "text": text}
    return {"source": source, "attachments": [], "pending_prompt": prompt}


@pytest.mark.case("C1", "C2")
def test_mail_to_a_busy_session_waits_in_one_wake_that_names_the_newest(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    first = mail.send(a, b, "k1", "secret words")
    assert (first["sequence"], first["unreadDepth"], first["duplicate"]) == (1, 1, False)
    assert first["notificationDisposition"] == QUEUED
    (prompt,) = mail.state.read(b)["pendingPrompts"]
    assert "#1" in prompt["text"]
    assert first["mailboxId"] in prompt["text"]
    assert "secret" not in prompt["text"]
    second = mail.send(a, b, "k2")
    assert (second["sequence"], second["mailboxId"], second["unreadDepth"]) == (2, first["mailboxId"], 2)
    (prompt,) = mail.state.read(b)["pendingPrompts"]
    assert (prompt["source"]["mailbox"]["sequence"], prompt["source"]["mailbox"]["unreadCount"]) == (2, 2)
    queues = [event["session"] for event in mail.state.deltas(b) if event["type"] == "sessionSummaryUpdated"]
    assert queues, "clients are told of the queue"


@pytest.mark.case("C26")
def test_an_acknowledgement_takes_the_queued_wake_away_at_once(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    for key in ("k1", "k2", "k3"):
        box = mail.send(a, b, key)["mailboxId"]
    assert mail.queue(b) == ["mail 3"]
    mail.acknowledge(b, box, 0, 3)
    assert mail.queue(b) == []
    assert "queuedPrompts" not in mail.state.row(b)


@pytest.mark.case("C27")
def test_a_wake_whose_mail_was_read_meanwhile_never_becomes_a_turn(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.state.send(b, "next")
    assert mail.queue(b) == ["mail 1", "next"]
    with writing(mail) as connection:
        connection.execute("UPDATE mailbox_participants SET processed_through = 1 WHERE session_id = ?", (b,))
    mail.runtime.end(mail.runtime.turn(0))
    assert mail.runtime.turn(1).start.prompt == "next"
    assert mail.prompts(b) == ["work", "next"]
    assert mail.queue(b) == []
    assert mail.states(b, box) == [QUEUED]


@pytest.mark.case("C41")
def test_one_accepted_wake_delivers_older_mail_too(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.crash().boot()
    cancel_all(mail, b)
    with writing(mail) as connection:
        connection.execute("UPDATE mailbox_messages SET notification_disposition = ?", (NEVER,))
    assert mail.send(a, b, "k2")["notificationDisposition"] == DELIVERED
    mail.wait_states(b, box, [DELIVERED, DELIVERED])
    assert mail.prompts(b) == ["work", "mail 2"]


@pytest.mark.case("C42", "C43")
def test_a_refused_wake_waits_in_front_and_the_next_prompt_starts_it_first(mail: MailDaemon) -> None:
    a, b = pair(mail)
    mail.runtime.refuse = Internal("the command channel is closed")
    sent = mail.send(a, b, "k1")
    assert sent["notificationDisposition"] == NEVER
    mail.wait_states(b, sent["mailboxId"], [RECOVERED])
    shown = mail.state.read(b)
    assert (shown["status"], mail.queue(b)) == ("error", ["mail 1"])
    assert texts(shown)[-1].startswith("Turn failed: ")
    mail.runtime.refuse = None
    mail.state.send(b, "a person's")
    assert mail.runtime.turn(0).start.prompt.startswith("You have 1 unread message")
    assert mail.queue(b) == ["a person's"]
    mail.wait_states(b, sent["mailboxId"], [DELIVERED])


@pytest.mark.case("C44")
def test_a_blocked_queue_keeps_one_wake_and_starts_nothing(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    mail.send(a, b, "k1")
    block(mail, b)
    assert mail.queue(b) == ["mail 1"]
    assert mail.send(a, b, "k2")["notificationDisposition"] == QUEUED
    assert mail.queue(b) == ["mail 2"]
    assert mail.runtime.turns == []


@pytest.mark.case("C45")
def test_new_mail_starts_the_wake_that_waits_for_its_mailbox(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.crash().boot()
    assert mail.queue(b) == ["mail 1"]
    assert mail.send(a, b, "k2")["notificationDisposition"] == DELIVERED
    mail.wait_states(b, box, [DELIVERED, DELIVERED])
    assert (mail.queue(b), len(mail.runtime.turns)) == ([], 1)


@pytest.mark.case("C46")
def test_an_older_message_never_takes_the_place_of_a_newer_one(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.send(a, b, "k2")
    late = Wake(mailbox_id=box, message_id="m", sequence=1, unread_count=1, sender_id=a, sender_name="A", text="late")
    mail.state.ask(QUEUE_OFFER, OfferWake(b, late))
    assert mail.queue(b) == ["mail 2"]
    with writing(mail) as connection:
        connection.execute("UPDATE mailbox_messages SET notification_disposition = ? WHERE sequence = 1", (NEVER,))
    mail.runtime.hold_starts = True
    mail.runtime.end(mail.runtime.turn(0))
    mail.wait_states(b, box, [RECOVERED, QUEUED])
    assert mail.prompts(b) == ["work", "mail 2"]
    mail.runtime.release()
    mail.wait_states(b, box, [DELIVERED, DELIVERED])


@pytest.mark.case("C47")
def test_mail_that_was_delivered_and_not_acknowledged_starts_no_second_turn(mail: MailDaemon) -> None:
    a, b = pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.runtime.end(mail.runtime.turn(0))
    mail.state.wait_status(b, "idle")
    mail.settled()
    mail.state.send(b, "something else")
    mail.runtime.end(mail.runtime.turn(1))
    mail.state.wait_status(b, "idle")
    assert mail.prompts(b) == ["mail 1", "something else"]
    assert [one["unreadCount"] for one in mail.mailboxes(b)] == [1]
    assert mail.states(b, box) == [DELIVERED]


@pytest.mark.case("C109")
def test_new_mail_waits_behind_a_blocked_workflow(mail: MailDaemon) -> None:
    a, b = pair(mail)
    block(mail, b, workflow(900))
    assert mail.send(a, b, "k1")["notificationDisposition"] == QUEUED
    assert mail.queue(b) == ["step", "mail 1"]
    assert mail.runtime.turns == []


def mail_from_seventeen(mail: MailDaemon, session_id: str, state: str) -> None:
    """Behind the back of the daemon: one message in each of seventeen mailboxes."""
    peers = [mail.state.create() for _ in range(17)]
    with writing(mail) as connection:
        for peer in peers:
            add_message(connection, add_mailbox(connection, peer, session_id), peer, session_id, state=state)


@pytest.mark.case("C60")
def test_a_start_wakes_for_every_mailbox_and_a_running_daemon_for_sixteen_at_a_time(mail: MailDaemon) -> None:
    b, c = pair(mail)
    mail_from_seventeen(mail, b, DELIVERED)
    mail.crash().boot()
    assert mail.queue(b) == ["mail 1"] * 17
    assert mail.runtime.turns == []
    mail_from_seventeen(mail, c, NEVER)
    mail.state.send(c, "a person's")
    assert (mail.prompts(c), mail.queue(c)) == (["mail 1"], ["mail 1"] * 15 + ["a person's"])
    mail.runtime.end(mail.runtime.turn(0))
    wait_until(lambda: len(mail.prompts(c)) == 2, "the next wake to start")
    assert mail.queue(c) == ["mail 1"] * 15 + ["a person's"], "the seventeenth came with the next start"


def test_mail_that_nobody_was_told_of_goes_ahead_of_a_prompt(mail: MailDaemon) -> None:
    a, b = pair(mail)
    mail.crash().boot()
    with writing(mail) as connection:
        box = add_mailbox(connection, a, b)
        add_message(connection, box, a, b)
    mail.state.send(b, "a person's")
    assert mail.runtime.turn(0).start.prompt.startswith("You have 1 unread message")
    assert (mail.prompts(b), mail.queue(b)) == (["mail 1"], ["a person's"])
    mail.wait_states(b, box, [DELIVERED])
    mail.runtime.end(mail.runtime.turn(0))
    assert mail.runtime.turn(1).start.prompt == "a person's"


def test_a_session_without_mail_asks_nobody(mail: MailDaemon) -> None:
    """Its prompts start while neither coordination nor wake can answer."""
    session_id = mail.state.create()
    mail.kill("coordination", "wake")
    mail.state.send(session_id, "go")
    assert mail.runtime.turn(0).start.prompt == "go"
    log = mail.home.log("state").read_text()
    assert "mail.not_asked" not in log


def test_prompts_go_on_in_their_order_while_mail_cannot_be_asked_for(mail: MailDaemon) -> None:
    a, b = pair(mail)
    mail.send(a, b, "k1")
    mail.runtime.end(mail.runtime.turn(0))
    mail.state.wait_status(b, "idle")
    mail.kill("wake")
    prompts = [mail.state.prompt(b, text) for text in ("one", "two", "three")]
    outcomes = mail.state.bus.start_all(mail.state.client, [(PROMPT_SEND, prompt) for prompt in prompts])
    for outcome in outcomes:
        outcome.reply()
    assert mail.runtime.turn(1).start.prompt == "one"
    assert mail.queue(b) == ["two", "three"]
    wait_until(lambda: "mail.not_asked" in mail.home.log("state").read_text(), "the skipped question to be logged")
