"""Delegations canceled and gone on with; the read-only lock while they run."""

import json
from collections.abc import Callable, Iterator

import pytest

from termal.wire.delegation_operations import DELEGATION_CANCEL, DELEGATION_FOLLOWUP
from termal.wire.errors import Conflict, Forbidden, Internal, InvalidRequest
from termal.wire.session_operations import (
    APP_REQUEST_ANSWER,
    ELICITATION_ANSWER,
    AnswerAppRequest,
    AnswerElicitation,
)
from termal.wire.settings_operations import PROJECT_CREATE, SETTINGS_CHANGE, ChangeSettings, CreateProject
from termal.wire.turns import (
    AppRequestAsked,
    ApprovalAsked,
    ElicitationAsked,
    PermissionOption,
    TextDelta,
    TurnEnded,
)
from tests.support.delegating import Delegating, House, a_house, packet
from tests.support.state_worker import Json, texts
from tests.support.waiting import wait_until

OPTIONS = [PermissionOption("yes", "accepted", "Yes"), PermissionOption("no", "rejected", "No")]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with a_house() as house:
        yield house


@pytest.fixture
def work(house: House) -> Delegating:
    return house.work()


def child_of(spawned: Json) -> str:
    return str(spawned["delegation"]["childSessionId"])


def done(work: Delegating) -> Json:
    spawned = work.spawn()
    work.finish(spawned, packet("Done."))
    work.wait_status(spawned, "completed")
    return spawned


# ----------------------------------------------------------------------------- cancel


@pytest.mark.case("A67")
def test_a_running_delegation_is_stopped_and_nothing_of_it_goes_on(work: Delegating) -> None:
    spawned = work.spawn()
    turn = work.child_turn(spawned)
    work.state.send(child_of(spawned), "more work")
    first = work.cancel(spawned)
    assert (first["delegation"]["status"], first["delegation"]["result"]["summary"]) == (
        "canceled",
        "Canceled on request.",
    )
    child = work.state.read(child_of(spawned))
    assert (child["status"], child.get("pendingPrompts", [])) == ("idle", [])
    assert [stop.turn_id for stop in work.runtime.stops if stop.session_id == child["id"]] == [turn.id]
    again = work.cancel(spawned)
    assert (again["revision"], again["delegation"]) == (first["revision"], first["delegation"])
    assert len(work.turns_of(child["id"])) == 1
    told = [event for event in work.told("delegationCanceled") if event["delegationId"] == first["delegation"]["id"]]
    assert ["reason" in event for event in told] == [False]


@pytest.mark.case("A68")
def test_a_failed_delegation_stays_failed(work: Delegating) -> None:
    spawned = work.spawn()
    work.finish(spawned, outcome="failed", detail="boom")
    work.wait_status(spawned, "failed")
    assert work.cancel(spawned)["delegation"]["status"] == "failed"


@pytest.mark.case("A96")
def test_the_partial_text_of_a_canceled_child_can_be_read(work: Delegating) -> None:
    spawned = work.spawn()
    work.runtime.report(work.child_turn(spawned), TextDelta("1", "So far: nothing."))
    record = work.cancel(spawned)["delegation"]
    page = work.output(spawned)
    assert (page["output"], page["summaryFallback"]) == ("So far: nothing.", False)
    assert "So far: nothing." in texts(work.state.read(child_of(spawned)))
    assert (record["status"], work.card(spawned)["status"]) == ("canceled", "error")


def test_a_cancel_names_what_the_child_was_waiting_for(work: Delegating) -> None:
    spawned = work.spawn()
    work.runtime.report(work.child_turn(spawned), ApprovalAsked("r", "Run it", "make", "in here", OPTIONS))
    record = work.cancel(spawned)["delegation"]
    assert record["result"]["summary"].startswith("Canceled while waiting: Waits for approval: Run it")
    told = [event for event in work.told("delegationCanceled") if event["delegationId"] == record["id"]]
    assert told[0]["reason"] == record["result"]["summary"]


def test_a_child_that_cannot_be_stopped_stays_at_work(work: Delegating) -> None:
    spawned = work.spawn()
    work.child_turn(spawned)
    work.runtime.stop_error = Conflict("it does not listen")
    try:
        with pytest.raises(Internal) as failed:
            work.cancel(spawned)
    finally:
        work.runtime.stop_error = None
    assert failed.value.reason == "stopFailed"
    assert work.status(spawned)["status"] == "running"
    work.finish(spawned, packet())
    assert work.wait_status(spawned, "completed")


def test_a_stop_of_the_user_that_is_under_way_does_not_keep_a_cancel(work: Delegating) -> None:
    spawned = work.spawn()
    work.child_turn(spawned)
    work.runtime.hold_stops = True
    from termal.wire.session_operations import SESSION_STOP, OneSession  # noqa: PLC0415

    stopping = work.state.begin(SESSION_STOP, OneSession(child_of(spawned)))
    wait_until(lambda: [stop for stop in work.runtime.stops if stop.session_id == child_of(spawned)], "the stop")
    assert work.cancel(spawned)["delegation"]["status"] == "canceled"
    work.runtime.hold_stops = False
    work.runtime.release()
    stopping.reply()
    assert work.status(spawned)["status"] == "canceled"
    assert work.state.read(child_of(spawned))["status"] == "idle"


# -------------------------------------------------------------------------- follow-up


@pytest.mark.case("A69")
def test_a_follow_up_is_for_delegations_that_are_over(work: Delegating) -> None:
    running, canceled, gone, over = work.spawn(), work.spawn(), work.spawn(), work.spawn()
    work.cancel(canceled)
    work.finish(gone, packet())
    work.wait_status(gone, "completed")
    work.state.kill_session(child_of(gone))
    with pytest.raises(InvalidRequest) as blank:
        work.follow_up(running, "  ")
    assert blank.value.reason == "followupEmpty"
    for spawned, reason in ((running, "stillRunning"), (canceled, "delegationCanceled"), (gone, "childRemoved")):
        with pytest.raises(Conflict) as refused:
            work.follow_up(spawned)
        assert refused.value.reason == reason
    work.finish(over, packet())
    work.wait_status(over, "completed")
    record = work.follow_up(over)["delegation"]
    assert (record["status"], "result" in record) == ("running", False)


@pytest.mark.case("A39")
def test_the_result_of_a_follow_up_is_that_of_its_own_turn(work: Delegating) -> None:
    spawned = done(work)
    work.follow_up(spawned, "And the tests?")
    assert work.child_turn(spawned).start.prompt == "And the tests?"
    assert work.card(spawned)["status"] == "running"
    work.finish(spawned, "Only prose now.")
    record = work.wait_status(spawned, "completed")
    assert record["result"]["summary"] == "Only prose now."
    assert work.output(spawned)["output"] == "Only prose now."


@pytest.mark.case("A70")
def test_of_two_follow_ups_at_once_one_is_refused(work: Delegating) -> None:
    spawned = done(work)
    both = [work.state.begin(DELEGATION_FOLLOWUP, work.following(spawned, text)) for text in ("one", "two")]
    ends = [outcome.wait() for outcome in both]
    errors = [error for _, error in ends if error is not None]
    assert [error.reason for error in errors] == ["stillRunning"]
    wait_until(lambda: len(work.turns_of(child_of(spawned))) > 1, "the second turn")
    assert len(work.turns_of(child_of(spawned))) == 2


def test_a_repeated_follow_up_starts_nothing_again(work: Delegating) -> None:
    spawned = done(work)
    again = work.following(spawned, "once")
    for _ in range(2):
        assert work.state.json(DELEGATION_FOLLOWUP, again)["delegation"]["status"] == "running"
    assert len(work.turns_of(child_of(spawned))) == 2


def far_card(own: House, messages: int = 3000) -> tuple[Delegating, Json]:
    """A delegation that is over, whose card is far up in its parent's transcript and not in memory."""
    work = own.work()
    spawned = done(work)
    own.state.stop()
    own.state.write(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO messages"
        " (session_id, position, message_id, value_json) SELECT ?, i, 'far-' || i, json_object('type', 'text', 'id',"
        " 'far-' || i, 'timestamp', 'now', 'author', 'assistant', 'text', printf('%.*c', 4000, 'x')) FROM n",
        (messages, work.parent),
    )
    own.state.write(
        "UPDATE session_overviews SET value_blob = value_blob || zeroblob(?) WHERE session_id = ?",
        (messages, work.parent),
    )
    own.state.change_row(work.parent, session={"messageCount": messages + 1, "messagesLoaded": False})
    own.state.start(environment=own.environment)
    own.serving()
    return work, spawned


def test_a_follow_up_that_is_repeated_while_its_card_is_looked_for_is_answered_like_the_first() -> None:
    with a_house() as own:
        work, spawned = far_card(own)
        again = work.following(spawned, "once")
        both = [own.state.begin(DELEGATION_FOLLOWUP, again) for _ in range(3)]
        assert [json.loads(outcome.reply().json)["delegation"]["status"] for outcome in both] == ["running"] * 3
        assert len(work.turns_of(child_of(spawned))) == 2


def test_of_two_follow_ups_whose_card_is_looked_for_one_is_refused_and_that_is_audited() -> None:
    with a_house() as own:
        work, spawned = far_card(own)
        both = [own.state.begin(DELEGATION_FOLLOWUP, work.following(spawned, text)) for text in ("one", "two")]
        errors = [error for _, error in (outcome.wait() for outcome in both) if error is not None]
        assert [error.reason for error in errors] == ["stillRunning"]
        audited = [(event["outcome"], event.get("detail")) for event in work.audit() if event["kind"] == "followup"]
        assert sorted(audited) == [("ok", None), ("rejected", "stillRunning")]


@pytest.mark.case("A71")
def test_a_follow_up_that_cannot_start_leaves_the_result_as_it_was(work: Delegating) -> None:
    spawned = work.spawn(mode="reviewer")
    work.submit(spawned, summary="Stands.")
    work.finish(spawned, packet())
    before = work.wait_status(spawned, "completed")
    work.runtime.refuse = Conflict("no")
    try:
        with pytest.raises(Internal) as refused:
            work.follow_up(spawned)
    finally:
        work.runtime.refuse = None
    assert refused.value.reason == "runtimeRefused"
    record = work.status(spawned)
    assert record == {**before, "reviewResultSubmissionAttempt": 2}
    assert work.card(spawned)["status"] == "completed"


def test_a_second_end_is_waited_for_like_the_first(work: Delegating) -> None:
    spawned = done(work)
    work.follow_up(spawned)
    answer = work.wait_for(spawned)
    assert not answer["resumePromptQueued"]
    work.finish(spawned, packet("Again."))
    turn = wait_until(lambda: work.turns_of(work.parent), "the parent to be resumed")[0]
    assert "Again." in turn.start.prompt


# ------------------------------------------------------------------------------- lock


def asking(work: Delegating, session_id: str) -> str:
    """``session_id`` is in a turn that asks for an approval; the message that shows it."""
    work.state.send(session_id, "work")
    turn = wait_until(lambda: work.turns_of(session_id), "its turn")[-1]
    work.runtime.report(turn, ApprovalAsked("r", "Write", "touch x", "", OPTIONS))
    return str(work.state.read(session_id)["messages"][-1]["id"])


@pytest.mark.case("A28")
def test_a_read_only_child_may_be_renamed_and_told_no(work: Delegating) -> None:
    spawned = work.spawn()
    child = child_of(spawned)
    work.runtime.report(work.child_turn(spawned), ApprovalAsked("r", "Write", "touch x", "", OPTIONS))
    message = work.state.read(child)["messages"][-1]["id"]
    with pytest.raises(Forbidden) as refused:
        work.state.answer(child, message, "accepted")
    assert refused.value.reason == "readOnlyLocked"
    work.state.answer(child, message, "rejected")
    assert work.runtime.answers[-1].option == "no"
    for session in (work.parent, child):
        work.state.ask(SETTINGS_CHANGE, ChangeSettings(session_id=session, name="New name"))
        assert work.state.read(session)["name"] == "New name"
    with pytest.raises(Forbidden):
        work.state.ask(SETTINGS_CHANGE, ChangeSettings(session_id=child, model="another"))


def tool_call(request: str, *, own: bool) -> ElicitationAsked:
    """Codex asks whether a tool of an MCP server may be called."""
    asked = {
        "mode": "form",
        "message": "Allow it?",
        "requestedSchema": {"type": "object", "properties": {}},
        "_meta": {"codex_approval_kind": "mcp_tool_call"},
    }
    return ElicitationAsked(request, "Codex wants to use a tool", "", json.dumps(asked).encode(), own_tool=own)


@pytest.mark.case("A106")
def test_a_read_only_child_may_be_allowed_a_tool_of_the_bridge_and_nothing_else(house: House) -> None:
    work = house.work("Codex")
    spawned = work.spawn()
    child = child_of(spawned)
    work.runtime.report(
        work.child_turn(spawned),
        tool_call("own-call", own=True),
        ApprovalAsked("own-approval", "Use a tool", "termal_list_sessions", "", OPTIONS, own_tool=True),
        tool_call("other-call", own=False),
        ApprovalAsked("other-approval", "Use a tool", "other.tool", "", OPTIONS),
        AppRequestAsked("rights", "More rights", "", "item/permissions/requestApproval", b"{}"),
    )
    cards = [str(message["id"]) for message in work.state.read(child)["messages"]][-5:]
    own_call, own_approval, *others = cards
    calls, approvals, rights = others

    def accept(message: str) -> AnswerElicitation:
        return AnswerElicitation(child, message, "accept", b"{}")

    refusals: list[Callable[[], object]] = [
        lambda: work.state.ask(ELICITATION_ANSWER, accept(calls)),
        lambda: work.state.answer(child, approvals, "accepted"),
        lambda: work.state.ask(APP_REQUEST_ANSWER, AnswerAppRequest(child, rights, b"{}")),
    ]
    for refused in refusals:
        with pytest.raises(Forbidden) as error:
            refused()
        assert (error.value.status, error.value.reason) == (403, "readOnlyLocked")
    work.state.ask(ELICITATION_ANSWER, accept(own_call))
    work.state.answer(child, own_approval, "accepted")
    assert [told.request for told in work.runtime.answers[-2:]] == ["own-call", "own-approval"]
    work.cancel(spawned)


def test_nothing_in_the_scope_is_allowed_to_write_until_the_delegation_is_over(house: House) -> None:
    work, elsewhere = house.work(), house.work()
    inner = work.workdir / "inner"
    beside = work.workdir / "beside"
    inner.mkdir()
    beside.mkdir()
    sibling = work.state.create(workdir=str(inner))
    spawned = work.spawn()
    asked = {session: asking(work, session) for session in (work.parent, sibling, elsewhere.parent)}
    for session in (work.parent, sibling):
        with pytest.raises(Forbidden) as refused:
            work.state.answer(session, asked[session], "accepted")
        assert refused.value.reason == "readOnlyLocked"
    work.state.answer(elsewhere.parent, asked[elsewhere.parent], "accepted")
    work.finish(spawned, packet())
    work.wait_status(spawned, "completed")
    work.state.answer(work.parent, asked[work.parent], "accepted")
    work.follow_up(spawned)
    with pytest.raises(Forbidden):
        work.state.answer(sibling, asked[sibling], "accepted")
    work.cancel(spawned)
    work.state.answer(sibling, asked[sibling], "accepted")


def test_a_project_is_locked_as_a_whole_and_paths_by_their_parts(house: House) -> None:
    work = house.work()
    folders = {name: work.workdir / name for name in ("delegated", "delegated2", "other")}
    for folder in folders.values():
        folder.mkdir()
    project = work.state.json(PROJECT_CREATE, CreateProject(root_path=str(work.workdir)))["projectId"]
    inside = Delegating(work.state, folders["delegated"], runtime=work.runtime, shelf=work.shelf, project_id=project)
    member = work.state.create(workdir=str(folders["other"]), project_id=project)
    stranger = work.state.create(workdir=str(folders["delegated2"]))
    loose = house.work()
    locking = loose.spawn()
    message = asking(work, stranger)
    work.state.answer(stranger, message, "accepted")
    loose.cancel(locking)
    spawned = inside.spawn()
    with pytest.raises(Forbidden):
        work.state.answer(member, asking(work, member), "accepted")
    inside.cancel(spawned)


def test_a_delegation_whose_child_is_not_there_fails_and_locks_nobody() -> None:
    with a_house() as own:
        work = own.work()
        sibling = own.state.create(workdir=str(work.workdir))
        spawned = work.spawn()
        own.state.stop()
        own.state.write("DELETE FROM sessions WHERE id = ?", (child_of(spawned),))
        own.state.start(environment=own.environment, ready=False)
        own.state.stop()
        own.state.start(environment=own.environment)
        record = work.status(spawned)
        assert (record["status"], record["result"]["summary"]) == (
            "failed",
            "The child session no longer exists.",
        )
        own.state.answer(sibling, asking(work, sibling), "accepted")


@pytest.mark.case("A30")
def test_a_child_that_was_removed_by_hand_leaves_its_directory_locked_while_its_delegation_is_active() -> None:
    with a_house() as own:
        work = own.work()
        sibling = own.state.create(workdir=str(work.workdir))
        spawned = work.spawn(mode="reviewer")
        message = asking(work, sibling)
        own.state.kill()
        own.state.write("DELETE FROM sessions WHERE id = ?", (child_of(spawned),))
        # What has become of it is not known before the store of reviews has answered.
        own.shelf.hold_finds = True
        own.state.start("replacement", running=["runtime-acp"], environment=own.environment)
        with pytest.raises(Forbidden) as refused:
            own.state.answer(sibling, message, "accepted")
        assert refused.value.reason == "readOnlyLocked"
        own.shelf.hold_finds = False
        wait_until(lambda: own.shelf.held, "the review to be looked for")
        own.shelf.release()
        work.wait_status(spawned, "failed")
        own.state.answer(sibling, message, "accepted")


def test_a_child_ends_while_it_is_canceled_and_one_end_wins(work: Delegating) -> None:
    for _ in range(10):
        spawned = work.spawn()
        turn = work.child_turn(spawned)
        work.runtime.report(turn, TextDelta("1", packet()), TurnEnded("completed"), wait=False)
        outcome = work.state.begin(DELEGATION_CANCEL, work.one(spawned))
        outcome.reply()
        work.runtime.wait_confirmed(turn)
        record = work.status(spawned)
        assert record["status"] in ("completed", "canceled")
        ends = [
            event
            for event in work.told("delegationCompleted", "delegationFailed", "delegationCanceled")
            if event["delegationId"] == record["id"]
        ]
        assert len(ends) == 1
