"""No wake is lost and none comes twice, whoever dies and when: workers killed at named points, whole daemons too."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.wire.errors import Internal
from termal.wire.mail_operations import MAILBOX_ACKNOWLEDGE, AcknowledgeMail
from termal.wire.turns import TextDelta, TextDone
from tests.support.fake_runtime import FakeTurn
from tests.support.mail_daemon import MailDaemon, receipt
from tests.support.state_worker import Json, texts

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


def cut_off(mail: MailDaemon, a: str, b: str) -> None:
    """Send a message in which coordination dies; nobody repeats it."""
    outcome = mail.begin_send(a, b, "k1")
    mail.others["coordination"].wait()
    mail.give_up(outcome)


def box_of(mail: MailDaemon, session_id: str) -> str:
    return str(mail.mailboxes(session_id)[0]["id"])


def entry(number: int, text: str, source: str) -> Json:
    prompt = {"id": f"message-{number}", "timestamp": "10:00:00", "text": text}
    return {"source": source, "attachments": [], "pending_prompt": prompt}


def turns_of(mail: MailDaemon, session_id: str) -> list[FakeTurn]:
    return [turn for turn in mail.runtime.turns if turn.start.spec.session_id == session_id]


# ---------------------------------------------------------------- the whole daemon dies


@pytest.mark.case("C53")
def test_death_before_the_message_is_stored_leaves_no_trace(mail: MailDaemon) -> None:
    a, b = pair(mail)
    mail.arm("coordination.in_group")
    cut_off(mail, a, b)
    mail.crash().boot()
    assert mail.mailboxes(b) == []
    sent = mail.send(a, b, "k1")
    assert (sent["sequence"], sent["duplicate"]) == (1, False)


@pytest.mark.case("C54")
def test_death_between_the_message_and_its_wake_is_repaired_by_the_start(mail: MailDaemon) -> None:
    a, b = pair(mail)
    mail.arm("coordination.before_notice")
    cut_off(mail, a, b)
    mail.crash().boot()
    assert mail.queue(b) == ["mail 1"]
    assert mail.states(b, box_of(mail, b)) == [RECOVERED]
    assert (mail.runtime.turns, mail.state.needs()) == ([], [])
    again = mail.send(a, b, "k1")
    assert (again["duplicate"], again["notificationDisposition"]) == (True, NEVER)
    assert mail.queue(b) == ["mail 1"]


@pytest.mark.case("C55")
@pytest.mark.parametrize("busy", [True, False], ids=["queued", "accepted"])
def test_death_between_the_wake_and_its_outcome_leaves_one_wake(mail: MailDaemon, busy: bool) -> None:
    a, b = busy_pair(mail) if busy else pair(mail)
    mail.arm("coordination.finalize")
    cut_off(mail, a, b)
    mail.crash().boot()
    assert mail.rows("SELECT dispatch_outcome FROM mailbox_messages") == [(None,)]
    assert mail.queue(b) == ["mail 1"]
    assert mail.states(b, box_of(mail, b)) == [RECOVERED]
    again = mail.send(a, b, "k1")
    assert (again["duplicate"], again["notificationDisposition"]) == (True, NEVER)


@pytest.mark.case("C56")
def test_a_queue_from_an_older_copy_gets_its_wake_back(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    mail.send(a, b, "k1")
    mail.crash()
    wrapper = mail.state.row(b)
    del wrapper["queuedPrompts"]
    mail.state.write("UPDATE sessions SET value_json = ? WHERE id = ?", (json.dumps(wrapper), b))
    mail.boot()
    assert mail.queue(b) == ["mail 1"]
    assert mail.states(b, box_of(mail, b)) == [RECOVERED]
    assert mail.rows("SELECT dispatch_outcome FROM mailbox_messages") == [(QUEUED,)]


@pytest.mark.case("C57")
@pytest.mark.parametrize("ended", [True, False], ids=["turn over", "turn running"])
def test_delivered_mail_that_nobody_read_waits_again_after_a_start(mail: MailDaemon, ended: bool) -> None:
    a, b = pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.wait_states(b, box, [DELIVERED])
    if ended:
        mail.runtime.end(mail.runtime.turn(0))
    mail.crash().boot()
    assert mail.states(b, box) == [RECOVERED]
    assert (mail.state.status(b), mail.queue(b)) == ("idle" if ended else "error", ["mail 1"])
    assert mail.runtime.turns == []
    again = mail.send(a, b, "k1")
    assert (again["duplicate"], again["notificationDisposition"]) == (True, DELIVERED)


def test_a_report_from_before_the_crash_does_not_undo_what_the_start_marked(mail: MailDaemon) -> None:
    """That the wake was accepted is stored and not yet told when everything dies."""
    a, b = pair(mail)
    mail.arm("coordination.before_mark", "hold")
    outcome = mail.begin_send(a, b, "k1")
    mail.wait_held("coordination.before_mark")
    mail.give_up(outcome)
    mail.crash()
    assert len(mail._metadata()["pendingWakeReports"]) == 1
    mail.boot()
    mail.settled()
    assert mail.states(b, box_of(mail, b)) == [RECOVERED]
    assert mail.queue(b) == ["mail 1"]


@pytest.mark.case("C58")
def test_a_wake_whose_mail_was_read_before_the_crash_is_dropped(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.kill("wake")
    mail.acknowledge(b, box, 0, 1)
    assert mail.queue(b) == ["mail 1"], "nobody could take it back"
    mail.crash().boot()
    assert mail.queue(b) == ["mail 1"]
    mail.state.send(b, "next")
    assert mail.runtime.turn(0).start.prompt == "next"
    assert (mail.prompts(b), mail.queue(b)) == (["work", "next"], [])


@pytest.mark.case("C59")
def test_an_acknowledgement_that_was_cut_off_is_applied_once(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.arm("coordination.in_group")
    outcome = mail.state.bus.start(mail.coordination, MAILBOX_ACKNOWLEDGE, AcknowledgeMail(b, box, 0, 1))
    mail.others["coordination"].wait()
    mail.give_up(outcome)
    mail.crash().boot()
    for _ in range(2):
        assert mail.acknowledge(b, box, 0, 1)["unreadCount"] == 0


# ------------------------------------------------------------- workflow prompts at a start


def with_workflow(mail: MailDaemon, *queue: Json) -> tuple[str, str]:
    """A started daemon in which B has unread mail and ``queue``; its port does not listen yet."""
    a, b = busy_pair(mail)
    mail.send(a, b, "k1")
    mail.crash()
    mail.state.change_row(b, queuedPrompts=list(queue))
    mail.boot()
    return a, b


@pytest.mark.case("C61")
def test_mail_starts_before_a_workflow_prompt_which_then_runs(mail: MailDaemon) -> None:
    _, b = with_workflow(mail, entry(900, "step", "orchestrator"))
    assert mail.queue(b) == ["mail 1", "step"]
    mail.serve()
    assert mail.runtime.turn(0).start.prompt.startswith("You have 1 unread message")
    assert mail.queue(b) == ["step"]
    mail.runtime.end(mail.runtime.turn(0))
    assert mail.runtime.turn(1).start.prompt == "step"


@pytest.mark.case("C62")
def test_a_persons_prompt_keeps_everything_behind_it_waiting(mail: MailDaemon) -> None:
    _, b = with_workflow(mail, entry(900, "mine", "user"), entry(901, "step", "orchestrator"))
    _, other = pair(mail)
    mail.serve()
    mail.state.send(other, "a sign that the start is over")
    assert mail.runtime.turn(0).start.spec.session_id == other
    assert (mail.queue(b), len(mail.runtime.turns)) == (["mail 1", "mine", "step"], 1)


@pytest.mark.case("C63")
def test_a_wake_that_is_refused_at_a_start_is_tried_once_more(mail: MailDaemon) -> None:
    _, b = with_workflow(mail, entry(900, "step", "orchestrator"))
    mail.runtime.refusals = [Internal("not yet")]
    mail.serve()
    assert mail.runtime.turn(0).start.prompt.startswith("You have 1 unread message")
    mail.wait_states(b, box_of(mail, b), [DELIVERED])
    assert mail.prompts(b) == ["work", "mail 1", "mail 1"], "a refused turn and the one that ran"
    assert mail.queue(b) == ["step"]


@pytest.mark.case("C64")
def test_a_workflow_prompt_that_is_refused_at_a_start_waits_under_another_id(mail: MailDaemon) -> None:
    b = mail.state.create()
    mail.crash()
    mail.state.change_row(b, queuedPrompts=[entry(900, "step", "orchestrator")])
    mail.boot()
    mail.runtime.refuse = Internal("no agent")
    mail.serve()
    shown = mail.state.wait_status(b, "error")
    (prompt,) = shown["pendingPrompts"]
    assert prompt["text"] == "step"
    assert prompt["id"] != "message-900"


# ---------------------------------------------------------------------- one worker dies


@pytest.mark.case("C110")
def test_wake_dies_between_notice_and_offer(mail: MailDaemon) -> None:
    a, b = pair(mail)
    mail.arm("wake.before_offer")
    sent = mail.send(a, b, "k1")
    assert sent["notificationDisposition"] == NEVER
    mail.ended("wake")
    mail.start("wake")
    mail.wait_states(b, sent["mailboxId"], [DELIVERED])
    assert mail.prompts(b) == ["mail 1"]
    again = mail.send(a, b, "k1")
    assert again == {**sent, "duplicate": True}


@pytest.mark.case("C111")
def test_coordination_dies_between_the_message_and_its_notice(mail: MailDaemon) -> None:
    a, b = pair(mail)
    mail.arm("coordination.before_notice")
    outcome = mail.begin_send(a, b, "k1")
    mail.others["coordination"].wait()
    mail.ended("coordination")
    mail.start("coordination")
    assert receipt(outcome)["sequence"] == 1
    assert mail.rows("SELECT sequence FROM mailbox_messages") == [(1,)]
    mail.wait_states(b, box_of(mail, b), [DELIVERED])
    assert (mail.prompts(b), mail.queue(b)) == (["mail 1"], [])


@pytest.mark.case("C112")
@pytest.mark.parametrize("busy", [True, False], ids=["queue", "turn"])
def test_state_dies_between_an_offer_and_its_answer(mail: MailDaemon, busy: bool) -> None:
    a, b = busy_pair(mail) if busy else pair(mail)
    mail.send(b, a, "k0")
    mail.settled()
    mail.arm("state.after_commit_before_reply")
    outcome = mail.begin_send(a, b, "k1")
    mail.ended("state")
    mail.start("state")
    receipt(outcome)
    if busy:
        assert mail.queue(b) == ["mail 2"]
        mail.runtime.end(turns_of(mail, b)[0])
    mail.wait_states(b, box_of(mail, b), [DELIVERED, DELIVERED])
    assert sum(turn.start.prompt.startswith("You have") for turn in turns_of(mail, b)) == 1
    assert mail.queue(b) == []


@pytest.mark.case("C115")
def test_a_restarted_wake_leaves_a_session_at_work_on_its_mail_alone(mail: MailDaemon) -> None:
    a, b = pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.wait_states(b, box, [DELIVERED])
    mail.kill("wake")
    mail.start("wake")
    # The next notice goes through the whole pass of the new worker.
    other = mail.state.create()
    mail.send(a, other, "k2")
    assert mail.runtime.turn(1).start.spec.session_id == other
    assert (mail.queue(b), mail.prompts(b), mail.states(b, box)) == ([], ["mail 1"], [DELIVERED])


@pytest.mark.case("C116")
def test_a_restarted_state_goes_on_with_the_turn_of_a_wake(mail: MailDaemon) -> None:
    a, b = pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    turn = mail.runtime.turn(0)
    mail.runtime.report(turn, TextDelta(item="t", text="half of "))
    mail.kill("state")
    mail.start("state")
    mail.runtime.report(turn, TextDelta(item="t", text="a text"), TextDone(item="t", text="half of a text"))
    mail.runtime.end(turn)
    shown = mail.state.wait_status(b, "idle")
    assert texts(shown)[1:] == ["half of a text"]
    mail.wait_states(b, box, [DELIVERED])
    assert (mail.queue(b), len(mail.runtime.turns)) == ([], 1)


def test_a_taken_wake_is_reported_also_by_the_state_that_did_not_see_it_taken(mail: MailDaemon) -> None:
    a, b = pair(mail)
    mail.arm("state.after_turn_start_sent")
    outcome = mail.begin_send(a, b, "k1")
    mail.ended("state")
    mail.start("state")
    receipt(outcome)
    mail.wait_states(b, box_of(mail, b), [DELIVERED])
    assert (len(mail.runtime.turns), mail.queue(b)) == (1, [])


@pytest.mark.case("C117")
def test_a_wake_is_put_back_once_when_its_runtime_worker_dies(mail: MailDaemon) -> None:
    a, b = pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.wait_states(b, box, [DELIVERED])
    mail.end_runtime()
    mail.state.wait_status(b, "error")
    assert (mail.queue(b), mail.prompts(b)) == (["mail 1"], ["mail 1"])
    mail.wait_states(b, box, [RECOVERED])
    mail.new_runtime()
    mail.state.send(b, "a person's")
    assert mail.runtime.turn(0).start.prompt.startswith("You have 1 unread message")
    assert mail.queue(b) == ["a person's"]
    mail.wait_states(b, box, [DELIVERED])
    mail.end_runtime()
    mail.state.wait_status(b, "error")
    assert mail.queue(b) == ["a person's"]
    assert [one["unreadCount"] for one in mail.mailboxes(b)] == [1]


def test_the_death_of_the_agent_alone_leaves_the_mail_delivered_and_unread(mail: MailDaemon) -> None:
    a, b = pair(mail)
    box = mail.send(a, b, "k1")["mailboxId"]
    mail.wait_states(b, box, [DELIVERED])
    mail.runtime.end(mail.runtime.turn(0), "lost")
    assert (mail.state.status(b), mail.queue(b)) == ("error", [])
    assert (mail.states(b, box), mail.mailboxes(b)[0]["unreadCount"]) == ([DELIVERED], 1)


@pytest.mark.case("C118")
@pytest.mark.parametrize("point", ["wake.in_boot_pass", "wake.before_boot_marks"])
def test_a_start_goes_on_after_the_death_of_wake_in_its_pass(mail: MailDaemon, point: str) -> None:
    senders = [mail.state.create() for _ in range(3)]
    b = mail.state.create()
    mail.state.send(b, "work")
    boxes = [mail.send(sender, b, "k1")["mailboxId"] for sender in senders]
    mail.crash()
    mail.arm(point)
    mail.boot(wake=False)
    mail.start("wake", "boot", ready=False)
    mail.others["wake"].wait()
    mail.ended("wake")
    mail.start("wake", "boot")
    assert mail.queue(b) == ["mail 1"] * 3
    assert mail.runtime.turns == []
    for box in boxes:
        assert mail.states(b, box) == [RECOVERED]


def test_state_dies_between_recovered_wakes_and_the_start_of_the_first(mail: MailDaemon) -> None:
    a, b = busy_pair(mail)
    mail.kill("wake")
    sent = mail.send(a, b, "k1")
    assert sent["notificationDisposition"] == NEVER
    mail.start("wake")
    mail.wait_queue(b, ["mail 1"])
    mail.wait_states(b, sent["mailboxId"], [RECOVERED])
    mail.arm("state.after_turn_end_before_drain")
    mail.runtime.end(mail.runtime.turn(0), wait=False)
    mail.ended("state")
    mail.start("state")
    assert mail.runtime.turn(1).start.prompt.startswith("You have 1 unread message")
    mail.wait_states(b, sent["mailboxId"], [DELIVERED])
    assert len(mail.runtime.turns) == 2
