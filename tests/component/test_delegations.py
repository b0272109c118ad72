"""Delegations begin: what is refused before anything is made, and what is made of the rest."""

from collections.abc import Iterator
from typing import Any

import pytest

from termal.wire.delegation_operations import (
    DELEGATION_CANCEL,
    DELEGATION_CAPACITY,
    DELEGATION_FOLLOWUP,
    DELEGATION_OUTPUT,
    DELEGATION_RESULT,
    DELEGATION_SPAWN,
    DELEGATION_STATUS,
    DelegationsOf,
    FollowUp,
    OneDelegation,
    ReadOutput,
)
from termal.wire.errors import Conflict, InvalidRequest, NotFound, NotImplementedYet, Unprocessable
from termal.wire.settings_operations import PREFERENCES_CHANGE, PROJECT_CREATE, ChangePreferences, CreateProject
from tests.support.delegating import Delegating, House, a_house, packet
from tests.support.state_worker import Json, find
from tests.support.waiting import wait_until

WIDE = "界"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with a_house() as house:
        yield house


@pytest.fixture
def work(house: House) -> Delegating:
    return house.work()


def sessions(work: Delegating) -> list[str]:
    return [session["id"] for session in work.state.state()["sessions"]]


# ------------------------------------------------------------------------- what is made


@pytest.mark.case("A01")
def test_a_prompt_alone_makes_a_read_only_review(house: House) -> None:
    work = house.work("Codex")
    spawned = work.state.json(DELEGATION_SPAWN, work.request(prompt="x", mode=None))
    record = spawned["delegation"]
    assert (record["status"], record["mode"], record["writePolicy"]) == ("running", "reviewer", {"kind": "readOnly"})
    assert (record["title"], record["reviewResultRequired"]) == ("Delegated review", True)
    assert record["reviewResultSubmissionAttempt"] == 1
    child = spawned["childSession"]
    assert (child["sandboxMode"], child["approvalPolicy"]) == ("read-only", "on-request")
    work.cancel(spawned)


def test_a_child_is_told_who_it_is_and_is_started_restricted(work: Delegating) -> None:
    spawned = work.spawn(title="Look", prompt="  Look at it.  ")
    record, turn = spawned["delegation"], work.child_turn(spawned)
    assert turn.start.prompt.startswith(f"TermAl delegation child `{record['id']}`.\n")
    assert f"\nChild session: `{record['childSessionId']}`\n" in turn.start.prompt
    assert "Look at it." in turn.start.prompt
    assert turn.start.spec.read_only
    child = work.state.read(record["childSessionId"])
    assert (child["name"], child["parentDelegationId"], child["workdir"]) == ("Look", record["id"], str(work.workdir))
    assert record["prompt"] == "Look at it."
    row = work.card(spawned)
    assert (row["status"], row["title"]) == ("running", "Look")
    assert row["detail"].split(" · ") == ["Read-only", str(work.workdir), "Demo", "auto"]


@pytest.mark.case("A91")
def test_a_spawn_and_an_end_that_meets_a_wait_tell_of_themselves_in_order(work: Delegating) -> None:
    before = len(work.state.events)
    spawned = work.spawn()
    child = spawned["delegation"]["childSessionId"]
    work.wait_told("delegationCreated")
    wait_until(lambda: work.turns_of(child), "the child's turn")
    told = [event for event in work.state.events[before:] if event["event"] == "delta"]
    first = [event["type"] for event in told if event["revision"] == told[0]["revision"]]
    assert first == ["sessionCreated", "messageAdded", "delegationCreated"]
    work.wait_for(spawned)
    before = len(work.state.events)
    work.finish(spawned, packet())
    resumed = wait_until(lambda: work.turns_of(work.parent), "the parent to be resumed")[0]

    def shown() -> list[Json]:
        told = work.state.events[before:]
        return [event for event in told if event.get("type") == "messageAdded" and event["sessionId"] == work.parent]

    [prompt] = wait_until(shown, "the prompt to be shown")
    told = [event for event in work.state.events[before:] if event["event"] == "delta"]
    [end] = [event for event in told if event["type"] == "delegationCompleted"]
    together = [event["type"] for event in told if event["revision"] == end["revision"]]
    assert together == [
        "sessionSummaryUpdated",
        "delegationCompleted",
        "parallelAgentsUpdate",
        "delegationWaitConsumed",
    ]
    assert prompt["revision"] > end["revision"]
    assert prompt["message"]["text"] == resumed.start.prompt
    revisions = [event["revision"] for event in work.state.events if "revision" in event]
    assert revisions == sorted(revisions)


def test_a_repeated_spawn_is_answered_with_the_first_ones_delegation(work: Delegating) -> None:
    request = work.request()
    first = work.state.json(DELEGATION_SPAWN, request)
    again = work.state.json(DELEGATION_SPAWN, request)
    assert again["delegation"] == first["delegation"]
    assert len(work.listed()) == 1


@pytest.mark.case("A16")
def test_a_child_that_cannot_be_started_is_a_failed_delegation(work: Delegating) -> None:
    work.runtime.refuse = Conflict("no")
    try:
        spawned = work.spawn()
    finally:
        work.runtime.refuse = None
    record = spawned["delegation"]
    assert (record["status"], record["result"]["summary"]) == ("failed", "The child session could not be started.")
    assert spawned["childSession"]["status"] == "error"
    assert work.card(spawned)["status"] == "error"


# ----------------------------------------------------------------------- what is refused

A05, A07 = pytest.mark.case("A05"), pytest.mark.case("A07")
REFUSED = [
    pytest.param({"prompt": " \n "}, InvalidRequest, "promptEmpty", id="blank-prompt", marks=pytest.mark.case("A02")),
    pytest.param({"prompt": "x" * 65537}, InvalidRequest, "promptTooLarge", id="65537-bytes"),
    pytest.param({"prompt": WIDE * 21846}, InvalidRequest, "promptTooLarge", id="wide-characters"),
    pytest.param({"title": "x" * 201}, InvalidRequest, "titleTooLong", id="title"),
    pytest.param({"title": "x" * 201, "mode": "worker"}, InvalidRequest, "titleTooLong", id="title-before-mode"),
    pytest.param({"model": "x" * 201}, InvalidRequest, "modelTooLong", id="model"),
    pytest.param({"mode": "worker"}, NotImplementedYet, "workerNotImplemented", id="worker", marks=A05),
    pytest.param(
        {"policy": "sharedWorktree"}, NotImplementedYet, "sharedWorktreeNotImplemented", id="shared", marks=A05
    ),
    pytest.param({"policy": True}, Unprocessable, "invalidJson", id="policy-flag"),
    pytest.param({"policy": {"readOnly": True, "isolatedWorktree": {}}}, Unprocessable, "invalidJson", id="two-kinds"),
    pytest.param({"parent": " "}, InvalidRequest, "parentIdRequired", id="blank-parent"),
    pytest.param({"parent": "session-999"}, NotFound, "sessionNotFound", id="unknown-parent"),
    pytest.param({"cwd": "a/../b"}, InvalidRequest, "cwdForbiddenForm", id="dots"),
    pytest.param({"cwd": "nowhere"}, InvalidRequest, "cwdInvalid", id="no-directory"),
    pytest.param({"cwd": "x" * 4097}, InvalidRequest, "cwdTooLong", id="long-cwd"),
    pytest.param({"cwd": "/"}, InvalidRequest, "cwdOutsideProject", id="outside"),
    pytest.param(
        {"agent": "Cursor", "mode": "reviewer"}, InvalidRequest, "reviewerAgentUnsupported", id="cursor", marks=A07
    ),
    pytest.param(
        {"agent": "Gemini", "mode": "reviewer"}, InvalidRequest, "reviewerAgentUnsupported", id="gemini", marks=A07
    ),
    pytest.param(
        {"agent": "OpenCode", "mode": "reviewer"}, InvalidRequest, "reviewerAgentUnsupported", id="opencode", marks=A07
    ),
    pytest.param({"agent": "OpenCode"}, InvalidRequest, "readOnlyAgentUnsupported", id="opencode-read-only"),
    pytest.param({"agent": "Nobody"}, InvalidRequest, "unknownAgent", id="unknown-agent"),
]


@pytest.mark.parametrize(("fields", "kind", "reason"), REFUSED)
def test_what_is_refused_makes_nothing(work: Delegating, fields: Json, kind: type[Exception], reason: str) -> None:
    before = sessions(work)
    parent = fields.get("parent")
    with pytest.raises(kind) as refused:
        work.state.ask(DELEGATION_SPAWN, work.request(parent, **{k: v for k, v in fields.items() if k != "parent"}))
    assert refused.value.reason == reason  # type: ignore[attr-defined]
    assert sessions(work) == before
    assert work.listed() == []


@pytest.mark.case("A02", "A03", "A04")
def test_limits_are_reached_but_not_crossed(work: Delegating) -> None:
    exact = work.spawn(prompt="x" * 65536, title=f"  {WIDE * 200}  ")
    assert work.state.read(exact["delegation"]["childSessionId"])["name"] == WIDE * 200
    assert len(exact["delegation"]["prompt"]) == 65536
    with pytest.raises(InvalidRequest, match="title"):
        work.spawn(title=WIDE * 201)
    with pytest.raises(InvalidRequest, match="title"):
        work.spawn(title="x" * 201, mode="worker")


@pytest.mark.case("A08")
def test_the_default_mode_counts_for_an_agent_that_cannot_review(house: House) -> None:
    work = house.work("Cursor")
    with pytest.raises(InvalidRequest) as refused:
        work.spawn(mode=None)
    assert refused.value.reason == "reviewerAgentUnsupported"


@pytest.mark.case("A10")
def test_the_fifth_active_delegation_is_refused_until_one_ends(work: Delegating) -> None:
    spawned = [work.spawn() for _ in range(4)]
    with pytest.raises(Conflict) as refused:
        work.spawn()
    assert refused.value.reason == "activeLimit"
    assert work.state.json(DELEGATION_CAPACITY, DelegationsOf(work.parent))["available"] == 0
    work.finish(spawned[0], packet())
    work.wait_status(spawned[0], "completed")
    work.spawn()
    work.cancel(spawned[1])
    work.spawn()
    with pytest.raises(Conflict):
        work.spawn()


def test_a_hundred_spawns_at_once_make_four(work: Delegating) -> None:
    outcomes = [work.state.begin(DELEGATION_SPAWN, work.request()) for _ in range(100)]

    wait_until(lambda: all(outcome.ends for outcome in outcomes), "every spawn to be answered")
    errors = [error for outcome in outcomes for _, error in outcome.ends if error is not None]
    assert (len(outcomes) - len(errors), {error.reason for error in errors}) == (4, {"activeLimit"})
    assert len(work.listed()) == 4


@pytest.mark.case("A11", "A93")
def test_three_generations_and_no_nested_reviewer(work: Delegating) -> None:
    parent, before = work.parent, None
    for _ in range(3):
        before = work.spawn(parent)
        parent = before["delegation"]["childSessionId"]
    known = sessions(work)
    with pytest.raises(Conflict) as refused:
        work.spawn(parent)
    assert refused.value.reason == "depthLimit"
    for mode in ("reviewer", None):
        with pytest.raises(InvalidRequest) as nested:
            work.spawn(parent, mode=mode)
        assert nested.value.reason == "nestedReviewerUnsupported"
    assert sessions(work) == known


@pytest.mark.case("A12")
def test_a_blank_model_is_the_preference_of_the_agent_and_never_the_parents(house: House) -> None:
    house.state.ask(PREFERENCES_CHANGE, ChangePreferences(values={"defaultCodexModel": "gpt-5.5"}))
    work = house.work("Claude", model="claude-parents-own")
    house.work("Codex")
    codex = work.spawn(agent="Codex", model="   ")
    assert codex["delegation"]["model"] == codex["childSession"]["model"] == "gpt-5.5"
    claude = work.spawn()
    assert claude["delegation"]["model"] == "default"
    assert claude["childSession"]["claudeApprovalMode"] == "read-only-auto-approve"
    for one in (codex, claude):
        work.cancel(one)


@pytest.mark.case("A13", "A94")
def test_the_directory_stays_within_the_project_or_the_repository(house: House, work: Delegating) -> None:
    inner, outer = work.workdir / "inner", house.root / "outer"
    inner.mkdir()
    outer.mkdir()
    (work.workdir / "link").symlink_to(outer)
    (work.workdir / ".git").mkdir()
    child_of_inner = Delegating(work.state, inner, runtime=work.runtime, shelf=work.shelf)
    assert child_of_inner.spawn(cwd=str(work.workdir))["delegation"]["cwd"] == str(work.workdir)
    project = work.state.json(PROJECT_CREATE, CreateProject(root_path=str(work.workdir)))["projectId"]
    inside = Delegating(work.state, inner, runtime=work.runtime, shelf=work.shelf, project_id=project)
    assert inside.spawn(cwd="./")["delegation"]["cwd"] == str(inner)
    for cwd in ("../inner", str(inner / ".." / "inner")):
        with pytest.raises(InvalidRequest) as dots:
            inside.spawn(cwd=cwd)
        assert dots.value.reason == "cwdForbiddenForm"
    for one in (inside, child_of_inner):
        for cwd in (str(work.workdir / "link"), str(outer)):
            with pytest.raises(InvalidRequest) as outside:
                one.spawn(cwd=cwd)
            assert outside.value.reason == "cwdOutsideProject"


@pytest.mark.case("A15")
@pytest.mark.parametrize("policy", ["readOnly", {"kind": "read_only"}, {"readOnly": True}, {}])
def test_every_way_to_say_read_only_is_the_same(work: Delegating, policy: Any) -> None:
    assert work.spawn(policy=policy)["delegation"]["writePolicy"] == {"kind": "readOnly"}


@pytest.mark.case("A18")
def test_another_parent_sees_nothing_of_a_delegation(work: Delegating, house: House) -> None:
    spawned, stranger = work.spawn(), house.work()
    name = spawned["delegation"]["id"]
    one = OneDelegation(parent_session_id=stranger.parent, delegation_id=name)
    asked: list[tuple[Any, Any]] = [
        (DELEGATION_STATUS, one),
        (DELEGATION_RESULT, one),
        (DELEGATION_OUTPUT, ReadOutput(parent_session_id=stranger.parent, delegation_id=name)),
        (DELEGATION_CANCEL, one),
        (
            DELEGATION_FOLLOWUP,
            FollowUp(key="k", parent_session_id=stranger.parent, delegation_id=name, message="go"),
        ),
    ]
    for op, request in asked:
        with pytest.raises(NotFound) as refused:
            work.state.ask(op, request)
        assert refused.value.reason == "delegationNotFound"
    assert work.status(spawned)["status"] == "running"


@pytest.mark.case("A19")
def test_the_list_keeps_delegations_of_one_title_apart_and_shows_no_prompt(work: Delegating) -> None:
    first, second = work.spawn(title="Twice"), work.spawn(title="Twice")
    work.finish(first, packet())
    wait_until(lambda: [one["status"] for one in work.listed()] == ["completed", "running"], "the first to be over")
    listed = work.listed()
    assert [one["id"] for one in listed] == [first["delegation"]["id"], second["delegation"]["id"]]
    assert [one["title"] for one in listed] == ["Twice", "Twice"]
    assert not {"prompt", "cwd"} & set().union(*listed)


@pytest.mark.case("A92")
def test_broad_state_alone_says_what_all_events_said(work: Delegating) -> None:
    running, done, canceled = (work.spawn() for _ in range(3))
    wait = work.wait_for(running)["wait"]
    work.finish(done, packet("Done."))
    work.wait_status(done, "completed")
    work.cancel(canceled)
    state = work.state.state()
    mine = [one for one in state["delegations"] if one["parentSessionId"] == work.parent]
    assert mine == work.listed()
    assert [one["status"] for one in mine] == ["running", "completed", "canceled"]
    assert mine[1]["result"]["summary"] == "Done."
    assert wait in state["delegationWaits"]
    assert find(state, running["delegation"]["childSessionId"])["parentDelegationId"] == running["delegation"]["id"]


def test_a_session_of_another_daemon_cannot_delegate() -> None:
    with a_house() as own:
        work = own.work()
        own.state.stop()
        own.state.change_row(work.parent, remoteId="host", remoteSessionId="session-1", session={"remoteId": "host"})
        own.state.start(environment=own.environment)
        with pytest.raises(NotImplementedYet) as remote:
            work.spawn()
        assert remote.value.reason == "remoteSessionNotImplemented"
        assert work.parent not in str(own.state.rows("SELECT value_json FROM delegations"))
