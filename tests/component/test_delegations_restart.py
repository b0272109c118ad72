"""Delegations across crashes: nothing half made, nothing promised is lost, nobody is resumed twice."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from termal.wire.delegation_operations import (
    DELEGATION_CANCEL,
    DELEGATION_LIST,
    DELEGATION_SPAWN,
    DELEGATION_WAIT,
    REVIEW_SUBMIT,
    DelegationsOf,
    OneDelegation,
    SubmitReview,
)
from termal.wire.queue_operations import QUEUE_MATERIALIZE, MaterializeWakes, Wake
from termal.wire.session_operations import STATE_FACTS
from termal.wire.settings_operations import SETTINGS_CHANGE, ChangeSettings
from termal.wire.turns import Anything, ApprovalAsked, PermissionOption, TextDelta, ToolStarted
from tests.support.delegating import Delegating, House, a_house, packet, review
from tests.support.fake_runtime import FakeRuntime
from tests.support.state_worker import Json, StateWorker, texts
from tests.support.waiting import wait_until

ALLOWS_ALL = {"approvalPolicy": "never", "sandboxMode": "danger-full-access"}
OPTIONS = [PermissionOption("yes", "accepted", "Yes"), PermissionOption("no", "rejected", "No")]


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[House]:
    with a_house() as house:
        yield house


@pytest.fixture
def house(shared_daemon: House) -> Iterator[House]:
    yield shared_daemon
    shared_daemon.warm()


def _gone(path: Path) -> bool:
    return not path.exists()


def child_of(spawned: Json) -> str:
    return str(spawned["delegation"]["childSessionId"])


def resumed(work: Delegating) -> str:
    return wait_until(lambda: work.turns_of(work.parent), "the parent to be resumed")[0].start.prompt


@pytest.mark.case("A72")
def test_a_crash_of_the_daemon_fails_what_ran_and_resumes_who_waited(house: House) -> None:
    work = house.work()
    spawned = work.spawn()
    work.runtime.report(work.child_turn(spawned), TextDelta("1", packet()))
    wait = work.wait_for(spawned)["wait"]
    house.restart()
    record = work.status(spawned)
    assert record["status"] == "failed"
    assert "restarted" in record["result"]["summary"]
    wake = Wake(mailbox_id="m", message_id="i", sequence=1, unread_count=1, sender_id="s", sender_name="S", text="mail")
    house.state.ask(QUEUE_MATERIALIZE, MaterializeWakes(work.parent, [wake]))
    house.serving()
    turn = wait_until(lambda: work.turns_of(work.parent), "the wake's turn")[0]
    assert turn.start.prompt == "mail"
    [waiting] = work.queue()
    assert wait["id"] in waiting
    assert house.state.state().get("delegationWaits", []) == []
    work.runtime.end(turn)
    assert wait["id"] in wait_until(lambda: work.turns_of(work.parent)[1:], "the fan-in")[0].start.prompt


def test_a_restart_of_state_alone_leaves_running_children_at_work(house: House) -> None:
    work = house.work()
    spawned = work.spawn()
    turn = work.child_turn(spawned)
    work.wait_for(spawned)
    house.state.kill()
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment)
    assert work.status(spawned)["status"] == "running"
    work.runtime.report(turn, TextDelta("1", packet("Survived.")))
    work.finish(spawned)
    assert "Survived." in resumed(work)
    assert work.status(spawned)["status"] == "completed"


def test_a_turn_that_nobody_holds_after_a_restart_of_state_alone_fails_its_delegation(house: House) -> None:
    work = house.work()
    spawned = work.spawn()
    work.child_turn(spawned)
    work.wait_for(spawned)
    house.state.kill()
    work.runtime.turns.clear()
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment)
    assert spawned["delegation"]["id"] in resumed(work)
    assert work.status(spawned)["status"] == "failed"


def _answer_held(runtime: FakeRuntime) -> None:
    runtime.hold_turns = False
    runtime.release()


@contextmanager
def a_held_card(house: House) -> Iterator[tuple[Delegating, Delegating, str]]:
    """A request that the session's mode allows waits for a reader; then state is killed, and the next one takes the
    reader for lost before it knows whether the turn still runs. The session, who else may send readers, the card."""
    work = house.work("Codex", settings=ALLOWS_ALL)
    other = house.work()
    readers = Delegating(house.state, work.workdir, runtime=other.runtime, shelf=work.shelf)
    spawned = readers.spawn()
    readers.child_turn(spawned)
    house.state.send(work.parent, "work")
    turn = wait_until(lambda: work.turns_of(work.parent), "its turn")[-1]
    work.runtime.report(turn, ApprovalAsked("r", "Write", "touch x", "", OPTIONS, by_mode="yes"))
    card = str(house.state.read(work.parent)["messages"][-1]["id"])
    house.state.kill()
    readers.runtime.turns.clear()
    work.runtime.answers.clear()
    work.runtime.hold_turns = True
    try:
        house.state.start("replacement", running=["runtime-acp", "runtime-codex"], environment=house.environment)
        readers.wait_status(spawned, "failed")
        yield work, readers, card
    finally:
        _answer_held(work.runtime)


def decision(work: Delegating, card: str) -> str:
    messages = work.state.read(work.parent)["messages"]
    return next(str(message["decision"]) for message in messages if message["id"] == card)


def test_what_a_mode_allows_is_held_for_a_reader_that_came_before_the_turn_was_known_to_run(house: House) -> None:
    with a_held_card(house) as (work, readers, card):
        spawned = readers.spawn()
        _answer_held(work.runtime)
        readers.child_turn(spawned)
        work.runtime.report(work.turns_of(work.parent)[-1], TextDelta("1", "on it"))
        assert (decision(work, card), work.runtime.answers) == ("pending", [])
        readers.cancel(spawned)
        wait_until(lambda: decision(work, card) == "accepted", "the mode's answer")
        assert [told.option for told in work.runtime.answers] == ["yes"]


def test_another_mode_that_came_before_the_turn_was_known_to_run_leaves_the_card_to_a_person(house: House) -> None:
    with a_held_card(house) as (work, _, card):
        change = ChangeSettings(session_id=work.parent, settings={"approvalPolicy": "on-request"})
        changing = house.state.begin(SETTINGS_CHANGE, change)
        wait_until(lambda: house.state.read(work.parent)["approvalPolicy"] == "on-request", "the mode")
        _answer_held(work.runtime)
        changing.reply()
        work.runtime.report(work.turns_of(work.parent)[-1], TextDelta("1", "on it"))
        assert (decision(work, card), work.runtime.answers) == ("pending", [])
        work.state.answer(work.parent, card, "accepted")


@pytest.mark.case("A73")
def test_an_envelope_without_its_record_is_found_after_the_crash(house: House, tmp_path: Path) -> None:
    work = house.work()
    spawned = work.spawn(mode="reviewer")
    work.wait_for(spawned)
    house.state.kill()
    faults = tmp_path / "faults"
    faults.mkdir()
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment, faults=faults)
    (faults / "state.review_appended").write_text("kill")
    body = json.dumps(review(summary="Durable.")).encode()
    house.state.begin(REVIEW_SUBMIT, SubmitReview(child_session_id=child_of(spawned), body=body), within_s=1.0)
    wait_until(lambda: not house.state.client.up, "state to be killed")
    house.restart()
    house.serving()
    assert "Durable." in resumed(work)
    record = work.status(spawned)
    assert (record["status"], record["result"]["summary"]) == ("completed", "Durable.")


@pytest.mark.case("A74")
def test_a_held_review_is_promoted_at_the_next_start(house: House) -> None:
    work = house.work()
    spawned = work.spawn(mode="reviewer")
    work.submit(spawned, summary="Held.")
    house.restart()
    house.serving()
    record = work.status(spawned)
    assert (record["status"], record["result"]["summary"]) == ("completed", "Held.")
    assert record["postSubmissionTransportError"].startswith("runtime failed after acceptance: ")


@pytest.mark.case("A75")
def test_what_is_over_is_the_same_after_a_restart(house: House) -> None:
    work = house.work()
    spawned = work.spawn()
    work.finish(spawned, packet("Kept."))
    record = work.wait_status(spawned, "completed")
    output = work.output(spawned)
    house.restart()
    house.serving()
    assert work.status(spawned) == record
    again = work.output(spawned)
    assert {**again, "revision": 0, "serverInstanceId": ""} == {**output, "revision": 0, "serverInstanceId": ""}
    assert house.state.read(child_of(spawned))["parentDelegationId"] == record["id"]


@pytest.mark.case("A76")
def test_a_lost_link_is_mended_from_the_record_or_from_the_first_prompt(house: House) -> None:
    work = house.work()
    known, orphan = work.spawn(), work.spawn()
    for one in (known, orphan):
        work.finish(one, packet())
        work.wait_status(one, "completed")
    marker = texts(house.state.read(child_of(orphan)))[0]
    quoting = house.state.create()
    house.state.send(quoting, f"> {marker}")
    copying = house.state.create()
    house.state.send(copying, marker)
    house.state.stop()
    for one in (known, orphan):
        row = house.state.row(child_of(one))
        del row["session"]["parentDelegationId"]
        house.state.write("UPDATE sessions SET value_json = ? WHERE id = ?", (json.dumps(row), child_of(one)))
    house.state.write("DELETE FROM delegations WHERE id = ?", (orphan["delegation"]["id"],))
    broken = house.state.row(quoting)
    house.state.change_row(quoting, session={**broken["session"], "parentDelegationId": "no id"})
    house.state.start(environment=house.environment)
    house.serving()
    for one in (known, orphan):
        assert house.state.read(child_of(one))["parentDelegationId"] == one["delegation"]["id"]
    for other in (quoting, copying):
        assert "parentDelegationId" not in house.state.read(other)


@pytest.mark.case("A77")
def test_a_wait_without_its_parent_goes_at_the_next_start(house: House) -> None:
    work = house.work()
    spawned = work.spawn()
    wait = work.wait_for(spawned)["wait"]
    house.state.kill()
    house.state.write("DELETE FROM sessions WHERE id = ?", (work.parent,))
    # Waits are looked at once it is known which turns run; until then its events have arrived here.
    work.runtime.hold_turns = True
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment)
    _answer_held(work.runtime)
    [told] = wait_until(
        lambda: [event for event in work.told("delegationWaitConsumed") if event["waitId"] == wait["id"]],
        "the wait to be consumed",
    )
    assert told["reason"] == "parentSessionRemoved"
    state = house.state.state()
    assert state.get("delegationWaits", []) == []
    [record] = [one for one in state["delegations"] if one["id"] == spawned["delegation"]["id"]]
    assert record["status"] == "running"


@pytest.mark.case("A43")
def test_a_result_of_an_older_parser_is_made_anew_once(house: House) -> None:
    work = house.work()
    spawned = work.spawn()
    work.finish(spawned, packet("New words."))
    record = work.wait_status(spawned, "completed")
    house.state.stop()
    old = {**record, "resultParserVersion": 4, "result": {**record["result"], "summary": "Old words."}}
    house.state.write("UPDATE delegations SET value_json = ? WHERE id = ?", (json.dumps(old), record["id"]))
    house.state.start(environment=house.environment)
    house.serving()
    before = house.state.state()["revision"]
    again = work.status(spawned)
    assert (again["resultParserVersion"], again["result"]["summary"]) == (5, "New words.")
    assert house.state.state()["revision"] == before + 1
    work.status(spawned)
    assert house.state.state()["revision"] == before + 1


@pytest.mark.case("A37")
def test_a_child_that_waits_without_a_runtime_has_failed_and_its_parent_hears_of_it(house: House) -> None:
    work = house.work()
    spawned = work.spawn()
    work.wait_for(spawned)
    house.state.kill()
    row = house.state.row(child_of(spawned))
    row["session"]["status"] = "approval"
    row.pop("activeTurn", None)
    house.state.write("UPDATE sessions SET value_json = ? WHERE id = ?", (json.dumps(row), child_of(spawned)))
    house.state.start(environment=house.environment)
    house.serving()
    assert work.wait_status(spawned, "failed")
    assert spawned["delegation"]["id"] in resumed(work)


@pytest.mark.case("A78")
def test_a_row_that_calls_itself_otherwise_is_set_aside_and_stays_on_disk(house: House) -> None:
    work = house.work()
    spawned = work.spawn()
    work.finish(spawned, packet())
    work.wait_status(spawned, "completed")
    house.state.stop()
    name = spawned["delegation"]["id"]
    [(value,)] = house.state.rows("SELECT value_json FROM delegations WHERE id = ?", (name,))
    wrong = str(value).replace(f'"id":"{name}"', '"id":"delegation-other"', 1)
    house.state.write("UPDATE delegations SET value_json = ? WHERE id = ?", (wrong, name))
    house.state.start(environment=house.environment)
    assert [one["id"] for one in house.state.state()["delegations"] if one["parentSessionId"] == work.parent] == []
    house.state.create()
    house.state.stop()
    assert house.state.rows("SELECT value_json FROM delegations WHERE id = ?", (name,)) == [(wrong,)]
    house.state.start(environment=house.environment)
    house.serving()


@pytest.mark.case("A79")
def test_a_fan_in_never_passes_an_older_prompt_of_a_person(house: House) -> None:
    work = house.work()
    work.state.send(work.parent, "work")
    wait_until(lambda: work.turns_of(work.parent), "the parent's own turn")
    work.state.send(work.parent, "an older prompt")
    spawned = work.spawn()
    work.wait_for(spawned)
    work.finish(spawned, packet())
    wait_until(lambda: len(work.queue()) == 2, "the fan-in to wait")
    before = work.queue()
    house.restart()
    house.serving()
    assert work.queue() == before
    other = house.work()
    other.finish(other.spawn(), packet())
    assert work.queue() == before
    assert work.turns_of(work.parent) == []
    house.state.kill()
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment)


def test_the_card_of_a_follow_up_is_found_in_the_store(house: House) -> None:
    work = house.work()
    spawned = work.spawn()
    work.finish(spawned, packet("First."))
    work.wait_status(spawned, "completed")
    work.state.send(work.parent, "talk")
    turn = wait_until(lambda: work.turns_of(work.parent), "the parent's turn")[0]
    steps = [ToolStarted(str(number), "execute", f"step {number}") for number in range(80)]
    work.runtime.report(turn, *steps)
    work.runtime.end(turn)
    house.restart()
    house.serving()
    work.follow_up(spawned)

    def row() -> str:
        page = work.state.history(work.parent, from_start=True)
        [card] = [message for message in page["messages"] if message["type"] == "parallelAgents"]
        return str(card["agents"][0]["status"])

    assert row() == "running"
    work.finish(spawned, packet("Second."))
    work.wait_status(spawned, "completed")
    assert row() == "completed"


# ----------------------------------------------------------------------------- killed

SPAWN_POINTS = [
    "state.before_commit",
    "state.after_commit_before_reply",
    "state.delegation_spawned",
    "state.in_dispatch",
]


def stored(state: StateWorker, parent: str) -> tuple[int, int, int]:
    """How many children, records and cards there are."""
    children = state.rows("SELECT count(*) FROM sessions WHERE value_json LIKE '%parentDelegationId%'")[0][0]
    records = state.rows("SELECT count(*) FROM delegations")[0][0]
    cards = state.rows(
        "SELECT count(*) FROM messages WHERE session_id = ? AND value_json LIKE '%parallelAgents%'", (parent,)
    )[0][0]
    return int(children), int(records), int(cards)


@pytest.mark.case("A90")
@pytest.mark.parametrize("point", SPAWN_POINTS)
def test_a_spawn_that_is_killed_is_there_whole_or_not_at_all(house: House, tmp_path: Path, point: str) -> None:
    work = house.work()
    house.state.stop()
    faults = tmp_path / "faults"
    faults.mkdir()
    house.state.start(environment=house.environment, faults=faults)
    house.serving()
    before = stored(house.state, work.parent)
    request = work.request()
    (faults / point).write_text("kill")
    asked = house.state.begin(DELEGATION_SPAWN, request)
    wait_until(lambda: (faults / point).exists() is False, "the kill")
    wait_until(lambda: not house.state.client.up, "state to be gone")
    house.state.kill()
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment)
    # The request is repeated by its sender's link; what was made is found again by it.
    answer = json.loads(asked.reply().json)
    assert answer["delegation"]["id"] == request.delegation_id
    children, records, cards = stored(house.state, work.parent)
    assert (children - before[0], records - before[1], cards) == (1, 1, 1)


class Held:
    """A spawn whose commit is under way until `go_on`."""

    def __init__(self, house: House, faults: Path) -> None:
        self.work = house.work()
        self._faults = faults
        house.state.stop()
        faults.mkdir()
        house.state.start(environment=house.environment, faults=faults)
        house.serving()
        self.request = self.work.request()
        (faults / "state.before_commit").write_text("hold")
        self._asked = house.state.begin(DELEGATION_SPAWN, self.request)
        wait_until((faults / "state.before_commit.held").exists, "the commit of the spawn to be under way")

    def go_on(self) -> Json:
        """The answer to the spawn."""
        # One connection keeps its order: what was asked before this has been looked at.
        self.work.state.ask(STATE_FACTS, Anything())
        (self._faults / "state.before_commit.go").touch()
        answer: Json = json.loads(self._asked.reply().json)
        return answer


def test_a_look_at_a_delegation_before_its_child_started_ends_nothing(house: House, tmp_path: Path) -> None:
    held = Held(house, tmp_path / "faults")
    listed = house.state.begin(DELEGATION_LIST, DelegationsOf(held.work.parent))
    spawned = held.go_on()
    assert [one["status"] for one in json.loads(listed.reply().json)["delegations"]] == ["running"]
    held.work.finish(spawned, packet())
    assert held.work.wait_status(spawned, "completed")


@pytest.mark.case("A17")
def test_a_delegation_that_is_canceled_before_its_child_started_never_starts(house: House, tmp_path: Path) -> None:
    held = Held(house, tmp_path / "faults")
    work, request = held.work, held.request
    canceled = house.state.begin(
        DELEGATION_CANCEL, OneDelegation(parent_session_id=work.parent, delegation_id=request.delegation_id)
    )
    answer = held.go_on()
    assert answer["delegation"]["status"] == "canceled"
    assert json.loads(canceled.reply().json)["delegation"]["status"] == "canceled"
    child = answer["childSession"]["id"]
    assert (house.state.read(child)["messages"], work.turns_of(child)) == ([], [])


WAIT_POINTS = [
    "state.before_commit",
    "state.after_commit_before_reply",
    "state.wait_met_before_dispatch",
    "state.after_turn_end_before_drain",
]


@pytest.mark.parametrize("point", WAIT_POINTS)
def test_a_parent_is_resumed_exactly_once_whatever_is_killed(house: House, tmp_path: Path, point: str) -> None:
    work = house.work()
    spawned = work.spawn()
    turn = work.child_turn(spawned)
    wait = work.wait_for(spawned)["wait"]
    house.state.kill()
    faults = tmp_path / "faults"
    faults.mkdir()
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment, faults=faults)
    wait_until(lambda: work.status(spawned)["status"] == "running", "the turn to be known again")
    (faults / point).write_text("kill")
    work.runtime.report(turn, TextDelta("1", packet("Once.")), wait=False)
    work.finish_now(turn)
    wait_until(lambda: not (faults / point).exists(), "the kill")
    wait_until(lambda: not house.state.client.up, "state to be gone")
    house.state.kill()
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment)
    assert "Once." in resumed(work)
    assert house.state.state().get("delegationWaits", []) == []
    assert work.status(spawned)["status"] == "completed"
    shown = [text for text in texts(house.state.read(work.parent)) if wait["id"] in text]
    assert (len(shown), work.queue()) == (1, [])


def test_a_wait_is_kept_or_met_when_its_making_is_killed(house: House, tmp_path: Path) -> None:
    work = house.work()
    spawned = work.spawn()
    work.finish(spawned, packet("Met."))
    work.wait_status(spawned, "completed")
    for point in ("state.before_commit", "state.after_commit_before_reply", "state.wait_met_before_dispatch"):
        own = Delegating(house.state, work.workdir, runtime=work.runtime, shelf=work.shelf)
        done = own.spawn()
        own.finish(done, packet("Met."))
        own.wait_status(done, "completed")
        house.state.kill()
        faults = tmp_path / point
        faults.mkdir()
        house.state.start("replacement", running=["runtime-acp"], environment=house.environment, faults=faults)
        own.status(done)
        (faults / point).write_text("kill")
        asked = house.state.begin(DELEGATION_WAIT, own.waiting([done["delegation"]["id"]]))
        fired = faults / point
        wait_until(partial(_gone, fired), "the kill")
        wait_until(lambda: not house.state.client.up, "state to be gone")
        house.state.kill()
        house.state.start("replacement", running=["runtime-acp"], environment=house.environment)
        assert json.loads(asked.reply().json)["resumePromptQueued"]
        assert "Met." in resumed(own)
        assert (len(own.turns_of(own.parent)), own.queue()) == (1, [])
