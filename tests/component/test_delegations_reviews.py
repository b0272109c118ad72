"""Structured reviews: handed in, held, promoted word for word; missing ones are never clean."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from termal.wire.delegation_operations import REVIEW_SUBMIT, SubmitReview
from termal.wire.errors import Busy, Conflict, InvalidRequest, Unprocessable
from termal.wire.review_operations import FoundReview
from termal.wire.turns import FileChanged
from tests.support.delegating import Delegating, House, a_house, packet, review
from tests.support.state_worker import Json
from tests.support.waiting import wait_until

MEDIUM = {"severity": "Medium", "message": "A test is missing.", "file": "src/a.py", "line": 3}
UNAVAILABLE = [
    {
        "severity": "Unavailable",
        "message": "Nothing can be said about findings: no structured result was submitted.",
    }
]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with a_house() as house:
        yield house


@pytest.fixture
def work(house: House) -> Delegating:
    return house.work()


def reviewer(work: Delegating) -> Json:
    return work.spawn(mode="reviewer")


@pytest.mark.case("A44")
def test_what_was_handed_in_is_the_result_and_not_the_prose(work: Delegating) -> None:
    spawned = reviewer(work)
    assert "TERMAL_REVIEW_RESULT_SCHEMA_1" in work.child_turn(spawned).start.prompt
    work.submit(spawned, findings=[MEDIUM])
    held = work.status(spawned)
    assert (held["status"], held["submittedReviewResult"]["findings"]) == ("running", [MEDIUM])
    work.finish(spawned, packet("No findings at all."))
    record = work.wait_status(spawned, "completed")
    assert (record["result"]["findings"], record["result"]["summary"]) == ([MEDIUM], "Reviewed.")
    assert record["reviewResultSchemaVersion"] == 1
    assert "submittedReviewResult" not in record
    assert "postSubmissionTransportError" not in record


@pytest.mark.case("A45")
def test_the_same_again_has_the_same_receipt_and_another_one_is_refused(work: Delegating) -> None:
    spawned = reviewer(work)
    first = work.submit(spawned)
    again = work.submit(spawned)
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert again["messageId"] == first["messageId"]
    assert first["notificationDisposition"] == "durableButNotWoken"
    with pytest.raises(Conflict):
        work.submit(spawned, summary="Something else.")
    work.finish(spawned, packet())
    work.wait_status(spawned, "completed")
    assert work.submit(spawned)["duplicate"]
    with pytest.raises(Conflict):
        work.submit(spawned, summary="Something else.")


@pytest.mark.case("A46")
@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        pytest.param({"findings": [{**MEDIUM, "more": 1}]}, Unprocessable, id="more"),
        pytest.param({"commandsRun": [{"command": "x", "status": "maybe"}]}, Unprocessable, id="command-status"),
        pytest.param({"findings": [{**MEDIUM, "severity": "high"}]}, InvalidRequest, id="severity"),
        pytest.param({"findings": [{**MEDIUM, "line": 0}]}, InvalidRequest, id="line"),
        pytest.param({"findings": [MEDIUM] * 101}, InvalidRequest, id="101-findings"),
        pytest.param({"notes": ["x" * 16384] * 16}, InvalidRequest, id="too-large"),
    ],
)
def test_a_payload_that_is_no_review_is_refused(work: Delegating, fields: Json, kind: type[Exception]) -> None:
    spawned = reviewer(work)
    with pytest.raises(kind):
        work.submit(spawned, **fields)
    assert "submittedReviewResult" not in work.status(spawned)
    assert (spawned["delegation"]["id"], 1) not in work.shelf.rows
    work.cancel(spawned)


@pytest.mark.case("A47")
def test_the_whole_envelope_has_a_limit(work: Delegating) -> None:
    spawned = reviewer(work)
    with pytest.raises(InvalidRequest) as refused:
        work.submit(spawned, notes=["x" * 16384] * 16)
    assert refused.value.reason == "reviewTooLarge"
    work.submit(spawned, notes=["x" * 16384] * 15)


@pytest.mark.case("A48")
def test_a_review_that_was_not_handed_in_has_failed_and_says_so(work: Delegating) -> None:
    spawned = reviewer(work)
    work.finish(spawned, packet("All clean."))
    record = work.wait_status(spawned, "failed")
    assert record["result"]["findings"] == UNAVAILABLE
    assert record["result"]["notes"] == ["The reviewer's own text is readable through result/output."]
    assert work.state.read(record["childSessionId"])["status"] == "idle"
    assert work.output(spawned)["output"] == packet("All clean.")


@pytest.mark.case("A49")
def test_a_failure_after_the_review_was_accepted_changes_nothing_in_it(work: Delegating) -> None:
    spawned = reviewer(work)
    work.submit(spawned, findings=[MEDIUM])
    submission = work.status(spawned)["submittedReviewResult"]
    work.finish(spawned, outcome="failed", detail="the pipe broke")
    record = work.wait_status(spawned, "completed")
    assert record["result"] == submission
    assert "the pipe broke" in record["postSubmissionTransportError"]


def test_a_child_that_says_nothing_after_its_review_is_noted(work: Delegating) -> None:
    spawned = reviewer(work)
    work.submit(spawned)
    work.finish(spawned)
    record = work.wait_status(spawned, "completed")
    assert record["postSubmissionTransportError"] == "idle without a closing message after acceptance"


@pytest.mark.case("A50")
def test_a_removed_child_does_not_take_its_review_along(work: Delegating) -> None:
    spawned = reviewer(work)
    work.submit(spawned, summary="It was fine.", findings=[MEDIUM])
    submission = work.status(spawned)["submittedReviewResult"]
    work.wait_for(spawned)
    work.state.kill_session(spawned["delegation"]["childSessionId"])
    record = work.status(spawned)
    assert (record["status"], record["result"]) == ("completed", submission)
    assert record["postSubmissionTransportError"] == (
        "lifecycle ended after acceptance: The child session was removed."
    )
    turn = wait_until(lambda: work.turns_of(work.parent), "the parent to be resumed")[0]
    assert "It was fine." in turn.start.prompt


@pytest.mark.case("A51")
def test_a_review_may_itself_say_that_it_failed(work: Delegating) -> None:
    spawned = reviewer(work)
    work.submit(
        spawned,
        status="failed",
        summary="No access.",
        notes=["One"],
        filesInspected=["a.py"],
        suggestedTrackerUpdates=["Open it"],
    )
    work.finish(spawned, packet())
    record = work.wait_status(spawned, "failed")
    assert record["result"]["summary"] == "No access."
    assert record["result"]["notes"] == ["One", "Inspected a.py", "Suggested tracker update: Open it"]


@pytest.mark.case("A52", "A95")
def test_a_canceled_review_is_kept_but_not_taken(work: Delegating) -> None:
    for submits in (True, False):
        spawned = reviewer(work)
        if submits:
            work.submit(spawned, findings=[MEDIUM])
        record = work.cancel(spawned)["delegation"]
        assert (record["status"], record["result"]["status"]) == ("canceled", "canceled")
        assert record["result"]["findings"] == [
            {"severity": "Unavailable", "message": "Nothing can be said about findings: the review was canceled."}
        ]
        assert ("submittedReviewResult" in record) == submits
        assert submits is False or record["submittedReviewResult"]["findings"] == [MEDIUM]


@pytest.mark.case("A53")
def test_an_envelope_that_cannot_be_used_is_set_aside_and_blocks_nothing(house: House) -> None:
    work = house.work()
    spawned = reviewer(work)
    work.shelf.altered = FoundReview(
        found=True,
        target_session_id=work.parent,
        topic="delegation-review-result/v1",
        state_stamp=f"{spawned['delegation']['id']}:1",
        body="{ no json",
    )
    try:
        work.finish(spawned, packet())
        record = work.wait_status(spawned, "failed")
    finally:
        work.shelf.altered = None
    assert record["reviewResultRecoveryError"]
    assert any("A stored review envelope was set aside" in note for note in record["result"]["notes"])
    assert work.result(spawned)["result"]["findings"] == UNAVAILABLE
    assert work.output(spawned)["output"] == packet()
    assert work.cancel(spawned)["delegation"]["status"] == "failed"
    again = work.follow_up(spawned)["delegation"]
    assert again["reviewResultSubmissionAttempt"] == 2
    assert "reviewResultRecoveryError" not in again
    work.submit(spawned, summary="Second attempt.")
    work.finish(spawned, packet())
    assert work.wait_status(spawned, "completed")["result"]["summary"] == "Second attempt."


@pytest.mark.case("A54")
def test_a_review_of_an_attempt_that_is_over_is_not_held(house: House) -> None:
    work = house.work()
    spawned = reviewer(work)
    work.shelf.hold = True
    try:
        body = json.dumps(review()).encode()
        late = work.state.begin(
            REVIEW_SUBMIT, SubmitReview(child_session_id=spawned["delegation"]["childSessionId"], body=body)
        )
        wait_until(lambda: work.shelf.held, "the append to be under way")
        work.shelf.altered = FoundReview(found=False)
        work.finish(spawned, packet())
        work.wait_status(spawned, "failed")
        assert work.follow_up(spawned)["delegation"]["reviewResultSubmissionAttempt"] == 2
    finally:
        work.shelf.altered = None
        work.shelf.hold = False
    work.shelf.release()
    assert late.error().reason == "reviewAttemptStale"
    assert "submittedReviewResult" not in work.status(spawned)
    work.cancel(spawned)


@pytest.mark.case("A55")
def test_only_the_child_of_a_review_may_hand_one_in(work: Delegating) -> None:
    explorer = work.spawn()
    other = work.state.create()
    for session in (work.parent, explorer["delegation"]["childSessionId"], other):
        with pytest.raises(InvalidRequest):
            work.state.ask(REVIEW_SUBMIT, SubmitReview(child_session_id=session, body=json.dumps(review()).encode()))


@pytest.mark.case("A104")
def test_the_files_of_a_review_are_those_that_were_seen_to_change(work: Delegating) -> None:
    spawned = reviewer(work)
    work.submit(spawned, findings=[MEDIUM], notes=["One"])
    submission = work.status(spawned)["submittedReviewResult"]
    work.runtime.report(work.child_turn(spawned), FileChanged("1", "src/a.py", "edit", "+1", "edit"))
    work.finish(spawned, packet())
    result = work.wait_status(spawned, "completed")["result"]
    assert result.pop("changedFiles") == ["src/a.py"]
    assert result == submission


def test_a_review_that_storage_has_and_the_record_not_is_found_when_the_child_is_done(work: Delegating) -> None:
    spawned = reviewer(work)
    work.shelf.hold = True
    body: dict[str, Any] = review(summary="Stored alone.")
    lost = work.state.begin(
        REVIEW_SUBMIT,
        SubmitReview(child_session_id=spawned["delegation"]["childSessionId"], body=json.dumps(body).encode()),
    )
    wait_until(lambda: work.shelf.held, "the append to be under way")
    work.shelf.hold = False
    work.finish(spawned, packet())
    record = work.wait_status(spawned, "completed")
    assert record["result"]["summary"] == "Stored alone."
    work.shelf.release()
    lost.reply()


def test_no_review_is_called_missing_while_storage_cannot_be_asked(house: House) -> None:
    work = house.work()
    spawned = reviewer(work)
    work.wait_for(spawned)
    work.shelf.away = Busy("not now", code="no_mutation_attempted")
    try:
        work.finish(spawned, packet())
        with pytest.raises(Busy):
            work.status(spawned)
        [shown] = [one for one in work.state.state()["delegations"] if one["id"] == spawned["delegation"]["id"]]
        assert shown["status"] == "running"
        assert work.turns_of(work.parent) == []
    finally:
        work.shelf.away = None
    wait_until(lambda: work.turns_of(work.parent), "the parent to be resumed")
    assert work.status(spawned)["result"]["findings"] == UNAVAILABLE


@pytest.mark.case("A102")
def test_how_a_policy_is_kept_is_said_everywhere_alike(house: House) -> None:
    for agent, word in (("Codex", "guaranteed"), ("Claude", "requested")):
        work = house.work(agent)
        for mode in ("explorer", "reviewer"):
            spawned = work.spawn(mode=mode)
            assert spawned["delegation"]["policyEnforcement"] == word
            if mode == "reviewer":
                work.submit(spawned)
            work.finish(spawned, packet())
            work.wait_status(spawned, "completed")
            assert work.result(spawned)["policyEnforcement"] == word
            shown = {one["id"]: one["policyEnforcement"] for one in work.state.state()["delegations"]}
            assert shown[spawned["delegation"]["id"]] == word
            before = len(work.turns_of(work.parent))
            work.wait_for(spawned)
            turn = wait_until(lambda: work.turns_of(work.parent)[before:], "the fan-in")[0]  # noqa: B023
            assert f"Write policy: read-only {word}" in turn.start.prompt
            work.runtime.end(turn)
            work.state.wait_status(work.parent, "idle")
