"""What becomes of a delegation: its packet, plain prose, failures, its output by pages, who did what."""

from collections.abc import Iterator

import pytest

from termal.wire.delegation_operations import (
    AUDIT_RECORD,
    DELEGATION_OUTPUT,
    DELEGATION_RESULT,
    ReadOutput,
    RecordTimeout,
)
from termal.wire.errors import Conflict, Forbidden, InvalidRequest
from termal.wire.queue_operations import QUEUE_OFFER, OfferWake, Wake
from termal.wire.turns import (
    ApprovalAsked,
    FileChanged,
    PermissionOption,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TouchedFile,
    TurnEnded,
)
from tests.support.delegating import Delegating, House, a_house, packet
from tests.support.state_worker import texts
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with a_house() as house:
        yield house


@pytest.fixture
def work(house: House) -> Delegating:
    return house.work()


# ------------------------------------------------------------------------------- ends


@pytest.mark.case("A33")
def test_a_packet_is_the_result_as_it_was_written(work: Delegating) -> None:
    spawned = work.spawn()
    text = packet("Two things.").replace("- None", "- [High] src/a.py:12 - leaks\n- [Low] docs - old")
    turn = work.child_turn(spawned)
    work.runtime.report(turn, ToolStarted("1", "execute", "git status"), ToolEnded("1", "success", "clean"))
    work.finish(spawned, text)
    record = work.wait_status(spawned, "completed")
    assert record["result"]["summary"] == "Two things."
    assert record["result"]["findings"] == [
        {"severity": "High", "file": "src/a.py", "line": 12, "message": "leaks"},
        {"severity": "Low", "file": "docs", "message": "old"},
    ]
    assert record["result"]["commandsRun"] == [{"command": "git status", "status": "success"}]
    assert record["resultParserVersion"] == 5
    wait_until(lambda: record["childSessionId"] in work.runtime.closed, "the child's agent to be closed")


@pytest.mark.case("A34")
def test_plain_prose_is_a_completed_result(work: Delegating) -> None:
    spawned = work.spawn()
    work.finish(spawned, "I could not finish this.")
    assert work.wait_status(spawned, "completed")["result"]["summary"] == "I could not finish this."


@pytest.mark.case("A35")
def test_a_child_that_the_user_stopped_has_failed(work: Delegating) -> None:
    spawned = work.spawn()
    work.runtime.report(work.child_turn(spawned), TextDelta("1", "Half of a"))
    work.state.stop_turn(spawned["delegation"]["childSessionId"])
    record = work.wait_status(spawned, "failed")
    assert record["result"]["summary"] == "The child finished without a usable result."


@pytest.mark.case("A36")
@pytest.mark.parametrize(
    ("said", "status"),
    [
        pytest.param([packet(), "But then"], "failed", id="packet-then-prose"),
        pytest.param(["First", packet()], "completed", id="prose-then-packet"),
    ],
)
def test_the_newest_text_of_a_child_in_error_decides(work: Delegating, said: list[str], status: str) -> None:
    spawned = work.spawn()
    turn = work.child_turn(spawned)
    for number, text in enumerate(said):
        work.runtime.report(turn, TextDelta(str(number), text))
    work.finish(spawned, outcome="failed", detail="boom")
    assert work.wait_status(spawned, status)["status"] == status


def test_a_child_in_error_without_a_packet_says_why(work: Delegating) -> None:
    spawned = work.spawn()
    work.finish(spawned, outcome="failed", detail="boom")
    record = work.wait_status(spawned, "failed")
    assert record["result"]["summary"] == "Turn failed: boom"
    assert [event["type"] for event in work.told("delegationUpdated", "delegationFailed")][-2:] == [
        "delegationUpdated",
        "delegationFailed",
    ]
    assert work.state.read(record["childSessionId"])["status"] == "error"


@pytest.mark.case("A40")
def test_broad_state_has_the_short_form_of_a_long_summary(work: Delegating) -> None:
    spawned = work.spawn()
    work.finish(spawned, packet("x" * 1128))
    work.wait_status(spawned, "completed")
    assert work.result(spawned)["result"]["summary"] == "x" * 1128
    short = work.listed()[0]["result"]["summary"]
    assert (len(short), short[-4:]) == (1003, "x...")
    assert work.card(spawned)["detail"] == short


@pytest.mark.case("A116")
def test_findings_are_counted_and_unavailable_ones_are_not(house: House) -> None:
    work = house.work()
    found, missing = work.spawn(), work.spawn(mode="reviewer")
    work.finish(found, packet().replace("- None", "- [High] a - b"))
    work.finish(missing, packet())
    work.wait_status(missing, "failed")
    assert [one["result"]["findingCount"] for one in work.listed()] == [1, 0]


# ----------------------------------------------------------------------------- output


@pytest.mark.case("A41")
def test_the_output_is_read_by_pages_that_end_at_characters(work: Delegating) -> None:
    spawned = work.spawn()
    text = packet("🙂" * 300)
    work.finish(spawned, text)
    work.wait_status(spawned, "completed")
    pages, offset = [], 0
    while True:
        page = work.output(spawned, offset, 257)
        pages.append(page["output"])
        assert page["totalBytes"] == len(text.encode())
        assert not page["summaryFallback"]
        if page["complete"]:
            break
        offset = page["nextOffsetBytes"]
    assert "".join(pages) == text
    inside = text.encode().index("🙂".encode()) + 1
    with pytest.raises(InvalidRequest) as boundary:
        work.output(spawned, inside)
    assert boundary.value.reason == "outputOffsetInvalid"
    assert work.output(spawned, len(text.encode()))["output"] == ""
    for limit in (255, 8193):
        with pytest.raises(InvalidRequest) as refused:
            work.state.ask(DELEGATION_OUTPUT, ReadOutput(parent_session_id="?", delegation_id="?", limit_bytes=limit))
        assert refused.value.reason == "outputLimitOutOfRange"


def test_a_child_that_said_nothing_has_its_summary_for_output(work: Delegating) -> None:
    spawned = work.spawn()
    work.finish(spawned)
    work.wait_status(spawned, "failed")
    page = work.output(spawned)
    assert (page["output"], page["summaryFallback"]) == ("The child finished without a usable result.", True)


@pytest.mark.case("A42")
def test_a_result_before_the_end_is_refused_and_changes_nothing(work: Delegating) -> None:
    spawned = work.spawn()
    work.child_turn(spawned)
    before = work.state.state()["revision"]
    with pytest.raises(Conflict) as refused:
        work.state.ask(DELEGATION_RESULT, work.one(spawned))
    assert refused.value.reason == "resultNotAvailable"
    assert work.state.state()["revision"] == before


@pytest.mark.case("A42b")
def test_a_person_may_go_on_with_a_finished_child_and_nobody_else(work: Delegating) -> None:
    spawned = work.spawn()
    work.finish(spawned, packet("First."))
    record = work.wait_status(spawned, "completed")
    output = work.output(spawned)
    child = record["childSessionId"]
    work.state.send(child, "And now?")
    turn = wait_until(lambda: work.turns_of(child)[1:], "the second turn")[0]
    assert turn.start.spec.read_only
    work.runtime.report(turn, TextDelta("1", packet("Second.")), TurnEnded("completed"))
    work.state.wait_status(child, "idle")
    assert work.status(spawned) == record
    assert {**work.output(spawned), "revision": 0} == {**output, "revision": 0}
    wake = Wake(mailbox_id="m", message_id="i", sequence=1, unread_count=1, sender_id="s", sender_name="S", text="mail")
    offered = work.state.ask(QUEUE_OFFER, OfferWake(child, wake))
    assert (offered.outcome, offered.reason) == ("durableButNotWoken", "delegated")
    with pytest.raises(Conflict) as refused:
        work.state.send(child, "from a session", source_session_id=work.parent)
    assert refused.value.reason == "delegationNotStartable"


@pytest.mark.case("A109")
def test_a_result_names_the_transcript_and_the_diffs(work: Delegating) -> None:
    spawned = work.spawn()
    turn = work.child_turn(spawned)
    work.runtime.report(
        turn,
        FileChanged("1", "a.py", "one", "+1", "edit"),
        FileChanged("2", "b.py", "two", "+2", "create"),
    )
    work.finish(spawned, packet())
    work.wait_status(spawned, "completed")
    answer = work.result(spawned)
    assert [one["kind"] for one in answer["artifacts"]] == ["transcript", "diff", "diff"]
    assert answer["artifacts"][0]["id"] == spawned["delegation"]["childSessionId"]
    assert answer["policyEnforcement"] == "requested"
    assert answer["result"]["changedFiles"] == ["a.py", "b.py"]


def test_files_that_were_seen_to_change_are_in_the_result_once(work: Delegating) -> None:
    spawned = work.spawn()
    turn = work.child_turn(spawned)
    full = f"{turn.start.spec.workdir}/b.py"
    seen = [TouchedFile("a.py", "modified"), TouchedFile("b.py", "created"), TouchedFile("by-a-shell", "created")]
    work.runtime.report(
        turn,
        FileChanged("1", "a.py", "one", "+1", "edit"),
        FileChanged("2", full, "two", "+2", "create"),
        TextDelta("t", packet()),
        TurnEnded("completed", "", seen),
    )
    record = work.wait_status(spawned, "completed")
    assert record["result"]["changedFiles"] == sorted(["a.py", full, "by-a-shell"])
    assert record["result"]["summary"] == "All is well."


# ------------------------------------------------------------------------------- card


def test_the_card_says_what_the_child_waits_for(work: Delegating) -> None:
    spawned = work.spawn()
    turn = work.child_turn(spawned)
    running = work.card(spawned)["detail"]
    options = [PermissionOption("yes", "accepted", "Yes"), PermissionOption("no", "rejected", "No")]
    work.runtime.report(turn, ApprovalAsked("r", "Run it", "make", "in the folder", options))
    assert work.card(spawned)["detail"] == "Waits for approval: Run it\nin the folder"
    asked = work.told("parallelAgentsUpdate")[-1]
    assert asked["sessionId"] == work.parent
    updated = [event for event in work.told("delegationUpdated") if event["revision"] == asked["revision"]]
    assert [event["status"] for event in updated] == ["running"]
    child = spawned["delegation"]["childSessionId"]
    message = work.state.read(child)["messages"][-1]["id"]
    with pytest.raises(Forbidden) as locked:
        work.state.answer(child, message, "accepted")
    assert locked.value.reason == "readOnlyLocked"
    work.state.answer(child, message, "rejected")
    assert work.card(spawned)["detail"] == running
    work.cancel(spawned)


def test_a_card_that_is_far_up_in_the_transcript_is_still_kept(work: Delegating) -> None:
    spawned = work.spawn()
    work.state.send(work.parent, "talk")
    turn = wait_until(lambda: work.turns_of(work.parent), "the parent's turn")[0]
    for number in range(80):
        work.runtime.report(turn, ToolStarted(str(number), "execute", f"step {number}"), wait=False)
    work.runtime.end(turn)
    work.state.wait_status(work.parent, "idle")
    work.finish(spawned, packet("Late."))
    work.wait_status(spawned, "completed")
    page = work.state.history(work.parent, from_start=True)
    [card] = [message for message in page["messages"] if message["type"] == "parallelAgents"]
    assert (card["agents"][0]["status"], card["agents"][0]["detail"]) == ("completed", "Late.")


# ------------------------------------------------------------------------------ audit


@pytest.mark.case("A108")
def test_who_did_what_is_recorded_and_outlives_the_parent(work: Delegating) -> None:
    spawned = work.spawn(prompt="a secret task")
    with pytest.raises(InvalidRequest):
        work.spawn(cwd="/")
    done = work.spawn(prompt="another secret")
    work.finish(done, packet())
    work.wait_status(done, "completed")
    before = work.state.state()["revision"]
    work.result(done)
    timeout = RecordTimeout(
        parent_session_id=work.parent, delegation_ids=[spawned["delegation"]["id"], "unknown"], timeout_ms=1000
    )
    work.state.ask(AUDIT_RECORD, timeout)
    assert work.state.state()["revision"] == before
    work.cancel(spawned)
    events = work.audit()
    kinds = [(event["kind"], event["outcome"]) for event in events if event["kind"] != "terminal"]
    assert kinds == [
        ("spawn", "ok"),
        ("spawn", "rejected"),
        ("spawn", "ok"),
        ("resultRead", "ok"),
        ("timeout", "ok"),
        ("cancel", "ok"),
    ]
    assert "secret" not in str(events)
    work.state.kill_session(work.parent)
    assert work.audit()[: len(events)] == events


def test_the_text_of_a_turn_that_follows_is_never_read_for_an_older_result(work: Delegating) -> None:
    spawned = work.spawn()
    work.finish(spawned, packet("Done."))
    record = work.wait_status(spawned, "completed")
    assert record["resultMessageCount"] == len(work.state.read(record["childSessionId"])["messages"]) == 2
    assert texts(work.state.read(record["childSessionId"]))[1] == packet("Done.")
