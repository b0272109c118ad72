"""Waits for delegations: met, partly met, met too late, lost with their parent; the prompt that comes of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.wire.delegation_operations import DELEGATION_WAIT, DELEGATION_WAITS, DelegationsOf
from termal.wire.errors import Conflict, InvalidRequest, NotFound
from termal.wire.session_operations import PROMPT_SEND
from termal.wire.turns import TextDelta
from tests.support.delegating import Delegating, House, a_house, packet
from tests.support.state_worker import Json
from tests.support.waiting import wait_until

CUT = "[cut by TermAl: page full outputs with termal_get_session_result, outputOffset and outputLimit]"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with a_house() as house:
        yield house


@pytest.fixture
def work(house: House) -> Delegating:
    return house.work()


def resumed(work: Delegating, index: int = 0) -> str:
    """The prompt of the parent's turn number ``index``."""
    return wait_until(lambda: work.turns_of(work.parent)[index:], "the parent to be resumed")[0].start.prompt


def busy(work: Delegating) -> None:
    """The parent is in a turn of its own."""
    work.state.send(work.parent, "work")
    wait_until(lambda: work.turns_of(work.parent), "the parent's own turn")


def name(spawned: Json) -> str:
    return str(spawned["delegation"]["id"])


# -------------------------------------------------------------------------------- met


@pytest.mark.case("A57")
def test_all_wakes_the_parent_once_with_every_result(work: Delegating) -> None:
    first, second = work.spawn(), work.spawn()
    answer = work.wait_for(first, second, title="Fan-in")
    assert (answer["resumePromptQueued"], answer["resumeDispatchRequested"]) == (False, False)
    work.finish(first, packet("First result."))
    work.wait_status(first, "completed")
    assert work.state.json(DELEGATION_WAITS, DelegationsOf(work.parent))["delegationWaits"] == [answer["wait"]]
    assert work.turns_of(work.parent) == []
    work.finish(second, packet("Second result."))
    prompt = resumed(work)
    lines = prompt.splitlines()
    assert lines[0] == "Fan-in"
    assert [line for line in lines if line.startswith(("Wait id: ", "Mode: ", "Delegations:", "Results:"))] == [
        f"Wait id: {answer['wait']['id']}",
        "Mode: all",
        "Delegations:",
        "Results:",
    ]
    assert "First result." in prompt
    assert "Second result." in prompt
    work.state.deltas()
    [consumed] = [event for event in work.told("delegationWaitConsumed") if event["parentSessionId"] == work.parent]
    assert (consumed["reason"], consumed["waitId"]) == ("completed", answer["wait"]["id"])
    assert work.state.json(DELEGATION_WAITS, DelegationsOf(work.parent))["delegationWaits"] == []


@pytest.mark.case("A58")
def test_any_wakes_with_one_result_and_the_state_of_the_others(work: Delegating) -> None:
    first, second = work.spawn(title="One"), work.spawn(title="Two")
    work.wait_for(first, second, mode="any")
    work.finish(second, packet("Only this."))
    prompt = resumed(work)
    assert f"- {name(first)}: running, One" in prompt
    assert f"- {name(second)}: completed, Two" in prompt
    assert prompt.count("Child session: ") == 1


def test_a_count_wakes_when_so_many_are_over(work: Delegating) -> None:
    spawned = [work.spawn() for _ in range(3)]
    work.wait_for(*spawned, mode="count", count=2)
    work.finish(spawned[0], packet())
    work.wait_status(spawned[0], "completed")
    assert work.turns_of(work.parent) == []
    work.finish(spawned[2], packet())
    prompt = resumed(work)
    assert "Mode: count 2 of 3" in prompt
    assert prompt.count("Child session: ") == 2


def test_a_deadline_wakes_with_what_is_there(work: Delegating) -> None:
    first, second = work.spawn(), work.spawn()
    work.finish(first, packet("In time."))
    work.wait_status(first, "completed")
    answer = work.wait_for(first, second, deadline_ms=1000)
    assert answer["wait"]["deadlineAt"] > answer["wait"]["createdAt"]
    prompt = resumed(work)
    assert "Partial: " in prompt
    assert f"- {name(second)}: running, not ended by the deadline" in prompt
    assert "In time." in prompt
    work.state.deltas()
    [consumed] = [event for event in work.told("delegationWaitConsumed") if event["parentSessionId"] == work.parent]
    assert (consumed["reason"], consumed["partial"]) == ("completed", True)
    work.finish(second, packet())
    work.wait_status(second, "completed")
    assert len(work.turns_of(work.parent)) == 1


@pytest.mark.case("A59")
def test_a_wait_that_is_met_at_once_says_what_it_did(house: House) -> None:
    for is_busy in (False, True):
        work = house.work()
        spawned = work.spawn()
        work.finish(spawned, packet())
        work.wait_status(spawned, "completed")
        if is_busy:
            busy(work)
        answer = work.wait_for(spawned)
        assert (answer["resumePromptQueued"], answer["resumeDispatchRequested"]) == (True, not is_busy)
        assert answer["wait"]["delegationIds"] == [name(spawned)]
        if is_busy:
            assert len(work.queue()) == 1


@pytest.mark.case("A60")
def test_only_the_first_of_two_met_waits_asks_for_a_turn(work: Delegating) -> None:
    spawned = work.spawn()
    work.finish(spawned, packet())
    work.wait_status(spawned, "completed")
    first, second = (
        work.state.begin(DELEGATION_WAIT, work.waiting([name(spawned)], title=title)) for title in ("One", "Two")
    )
    import json  # noqa: PLC0415

    answers = [json.loads(outcome.reply().json) for outcome in (first, second)]
    assert [answer["resumePromptQueued"] for answer in answers] == [True, True]
    assert [answer["resumeDispatchRequested"] for answer in answers] == [True, False]
    assert resumed(work).startswith("One\n")
    assert [text.splitlines()[0] for text in work.queue()] == ["Two"]


def test_a_repeated_wait_is_answered_like_the_first_and_wakes_once(work: Delegating) -> None:
    spawned = work.spawn()
    pending = work.waiting([name(spawned)])
    first = work.state.json(DELEGATION_WAIT, pending)
    assert work.state.json(DELEGATION_WAIT, pending)["wait"] == first["wait"]
    work.finish(spawned, packet())
    resumed(work)
    again = work.state.json(DELEGATION_WAIT, pending)
    assert again["resumePromptQueued"]
    assert (len(work.turns_of(work.parent)), work.queue()) == (1, [])


@pytest.mark.case("A65")
def test_a_fan_in_is_bounded(work: Delegating) -> None:
    many = "\n".join(f"- [High] src/file-{number}.py - {'x' * 300}" for number in range(100))
    spawned = [work.spawn() for _ in range(3)]
    work.wait_for(*spawned)
    for one in spawned:
        work.finish(one, packet().replace("- None", many))
    prompt = resumed(work)
    assert len(prompt.encode()) <= 65536
    assert prompt.endswith("\n\n" + CUT)


@pytest.mark.case("A64")
def test_a_refused_resume_stays_in_the_queue(work: Delegating) -> None:
    spawned = work.spawn()
    work.wait_for(spawned)
    work.runtime.refuse = Conflict("not now")
    try:
        work.finish(spawned, packet("Kept."))
        [failed] = wait_until(
            lambda: [
                event
                for event in work.told("delegationWaitResumeDispatchFailed")
                if event["parentSessionId"] == work.parent
            ],
            "the failure to be told",
        )
    finally:
        work.runtime.refuse = None
    assert "not now" in failed["error"]
    assert [event["reason"] for event in work.told("delegationWaitConsumed")][-1] == "completed"
    [prompt] = work.queue()
    assert "Kept." in prompt


@pytest.mark.parametrize("end", ["completed", "failed", "stopped"])
def test_a_refused_resume_of_a_parent_that_was_busy_stays_in_the_queue(work: Delegating, end: str) -> None:
    def told(count: int) -> list[Json]:
        events = work.wait_told("delegationWaitResumeDispatchFailed", count)
        return [event for event in events if event["parentSessionId"] == work.parent]

    spawned = work.spawn()
    busy(work)
    [own] = work.turns_of(work.parent)
    work.wait_for(spawned)
    work.finish(spawned, packet("Kept."))
    [waiting] = wait_until(work.queue, "the prompt to wait")
    before = len(work.told("delegationWaitResumeDispatchFailed"))
    work.runtime.refuse = Conflict("not now")
    try:
        if end == "stopped":
            work.state.stop_turn(work.parent)
        else:
            work.runtime.end(own, end, wait=False)
        [failed] = told(before + 1)
        assert "not now" in failed["error"]
        assert work.queue() == [waiting]
        work.state.send(work.parent, "go on")
        assert len(told(before + 2)) == 2
    finally:
        work.runtime.refuse = None
    assert work.queue() == [waiting, "go on"]
    assert len(work.turns_of(work.parent)) == 1


def test_a_resume_that_was_refused_before_is_not_lost_by_a_kill(tmp_path: Path) -> None:
    with a_house() as own:
        work = own.work()
        spawned = work.spawn()
        work.wait_for(spawned)
        own.state.kill()
        own.state.start("replacement", running=["runtime-acp"], environment=own.environment, faults=tmp_path)
        work.runtime.refuse = Conflict("not now")
        try:
            work.finish(spawned, packet("Kept."))
            wait_until(work.queue, "the prompt to wait again")
        finally:
            work.runtime.refuse = None
        (tmp_path / "state.after_commit_before_reply").write_text("kill")
        own.state.begin(PROMPT_SEND, own.state.prompt(work.parent, "go on"), within_s=1.0)
        wait_until(lambda: not own.state.client.up, "state to be killed")
        own.state.kill()
        assert work.turns_of(work.parent) == []
        own.state.start("replacement", running=["runtime-acp"], environment=own.environment)
        assert "Kept." in resumed(work)
        assert work.queue() == ["go on"]


@pytest.mark.case("A66")
def test_a_look_at_one_delegation_ends_only_the_waits_for_it(work: Delegating) -> None:
    first, second = work.spawn(), work.spawn()
    answer = work.wait_for(second)["wait"]
    work.status(first)
    assert answer in work.state.state()["delegationWaits"]
    work.finish(second, packet())
    work.wait_status(second, "completed")
    assert answer not in work.state.state().get("delegationWaits", [])


# ----------------------------------------------------------------------------- refused


@pytest.mark.case("A61")
def test_waits_are_checked(work: Delegating, house: House) -> None:
    spawned, stranger = work.spawn(), house.work()
    foreign = stranger.spawn()
    mine = name(spawned)
    refused: list[tuple[list[str], Json, type[Exception], str]] = [
        ([f"delegation-{number}" for number in range(11)], {}, InvalidRequest, "waitTooManyIds"),
        ([mine, " "], {}, InvalidRequest, "waitIdEmpty"),
        ([], {}, InvalidRequest, "waitNoIds"),
        ([mine], {"title": "x" * 201}, InvalidRequest, "waitTitleTooLong"),
        ([mine], {"mode": "count", "count": 2}, InvalidRequest, "waitCountInvalid"),
        ([mine], {"deadline_ms": 10}, InvalidRequest, "waitDeadlineInvalid"),
        ([mine, "delegation-unknown"], {}, NotFound, "delegationNotFound"),
        ([mine, name(foreign)], {}, InvalidRequest, "waitForeignDelegation"),
    ]
    for ids, fields, kind, reason in refused:
        with pytest.raises(kind) as error:
            work.state.ask(DELEGATION_WAIT, work.waiting(ids, **fields))
        assert error.value.reason == reason  # type: ignore[attr-defined]
    assert str(error.value) == f"delegation {name(foreign)} does not belong to parent session {work.parent}"
    with pytest.raises(NotFound):
        work.state.ask(DELEGATION_WAIT, work.waiting([mine], "session-999"))
    assert work.state.json(DELEGATION_WAITS, DelegationsOf(work.parent))["delegationWaits"] == []
    more = [work.spawn() for _ in range(3)]
    for _ in range(6):
        work.finish(more[0], packet())
        work.wait_status(more[0], "completed")
        more.append(more.pop(0))
        more.insert(0, work.spawn())
    ids = [one["id"] for one in work.listed()]
    assert len(ids) == 10
    assert len(work.state.json(DELEGATION_WAIT, work.waiting([*ids, ids[0]]))["wait"]["delegationIds"]) == 10


@pytest.mark.case("A62")
def test_an_archived_parent_is_not_resumed() -> None:
    with a_house() as own:
        work = own.work("Codex")
        first, second = work.spawn(), work.spawn()
        work.wait_for(first)
        own.state.stop()
        own.state.change_row(
            work.parent,
            externalSessionId="thread-1",
            session={"codexThreadState": "archived", "externalSessionId": "thread-1"},
        )
        own.state.start(environment=own.environment)
        with pytest.raises(Conflict) as refused:
            work.wait_for(second)
        assert refused.value.reason == "waitParentArchived"
        own.serving()
        consumed = work.wait_told("delegationWaitConsumed")[-1]
        assert (consumed["reason"], consumed["parentSessionId"]) == ("parentSessionUnavailable", work.parent)
        assert work.queue() == []


# -------------------------------------------------------------------------------- lost


@pytest.mark.case("A63")
def test_a_removed_parent_takes_its_children_and_its_waits_along(work: Delegating) -> None:
    done, running = work.spawn(), work.spawn()
    grandchild = work.spawn(running["delegation"]["childSessionId"])
    work.finish(done, packet("Stays."))
    stays = work.wait_status(done, "completed")
    wait = work.wait_for(done, running)["wait"]
    met = work.wait_for(running, mode="any")["wait"]
    before = len(work.state.events)
    left = work.state.kill_session(work.parent)
    gone = {one["delegation"]["childSessionId"] for one in (done, running, grandchild)} | {work.parent}
    assert not gone & {session["id"] for session in left["sessions"]}
    records = {one["id"]: one for one in left["delegations"]}
    assert records[name(done)]["completedAt"] == stays["completedAt"]
    for one in (running, grandchild):
        assert records[name(one)]["status"] == "failed"
        assert records[name(one)]["result"]["summary"] == "The parent session was removed."
    consumed = wait_until(
        lambda: found if len(found := work.state.events[before:]) > 0 and found[-1]["event"] == "state" else None,
        "the snapshot",
    )
    reasons = {event["waitId"]: event["reason"] for event in consumed if event.get("type") == "delegationWaitConsumed"}
    assert reasons == {wait["id"]: "parentSessionRemoved", met["id"]: "parentSessionRemoved"}
    cards = [event for event in consumed if event.get("type") == "parallelAgentsUpdate"]
    assert work.parent not in {event["sessionId"] for event in cards}
    with pytest.raises(NotFound):
        work.status(done)


def test_a_removed_child_fails_and_its_parent_goes_on(work: Delegating) -> None:
    spawned = work.spawn()
    work.runtime.report(work.child_turn(spawned), TextDelta("1", "half"))
    work.wait_for(spawned)
    work.state.kill_session(spawned["delegation"]["childSessionId"])
    record = work.status(spawned)
    assert (record["status"], record["result"]["summary"]) == ("failed", "The child session was removed.")
    assert work.card(spawned)["status"] == "error"
    assert "The child session was removed." in resumed(work)
