"""What the end of a turn does, how open parts close, and the sentences of a restart."""

from typing import Any

import pytest

from termal.model.message import Approval, Command, Message, Text, UserInputRequest
from termal.rules.closing import Cause, closed, is_pending
from termal.rules.turn_end import Ending, Verdict, end_of_turn, is_busy
from termal.rules.wording import decided, restart_notice

BASE: dict[str, Any] = {"id": "m", "timestamp": "now", "author": "assistant"}
ASKED = Approval(**BASE, title="t", command="c", detail="", decision="pending")
INPUT = UserInputRequest(**BASE, title="t", detail="", questions=[], state="pending")
RUNNING = Command(**BASE, command="c", output="o", status="running")


@pytest.mark.parametrize(
    ("ending", "detail", "expected"),
    [
        ("completed", "", Verdict("idle", "ended", None, "head")),
        ("interrupted", "", Verdict("idle", "ended", None, "head")),
        ("interrupted", "cut short", Verdict("idle", "ended", "cut short", "head")),
        ("failed", "no credit", Verdict("error", "cut", "Turn failed: no credit", "head")),
        ("lost", "", Verdict("error", "cut", "Turn failed: the Demo process ended before the turn did", "workflow")),
        ("refused", "not there", Verdict("error", "cut", "Turn failed: not there", "no")),
        ("stopped", "", Verdict("idle", "cut", "Stopped by the user.", "head")),
    ],
)
def test_each_ending_has_its_verdict(ending: Ending, detail: str, expected: Verdict) -> None:
    assert end_of_turn(ending, "Demo", detail) == expected


@pytest.mark.parametrize(
    ("message", "cause", "field", "value"),
    [
        (ASKED, "ended", "decision", "canceled"),
        (ASKED, "cut", "decision", "rejected"),
        (ASKED, "restart", "decision", "interrupted"),
        (INPUT, "cut", "state", "canceled"),
        (INPUT, "restart", "state", "interrupted"),
        (RUNNING, "cut", "status", "error"),
        (RUNNING, "restart", "status", "error"),
    ],
)
def test_what_is_open_closes_by_the_cause(message: Message, cause: Cause, field: str, value: str) -> None:
    after = closed(message, cause)
    assert after is not None
    assert getattr(after, field) == value
    assert closed(after, cause) is None
    assert not is_pending(after)


def test_what_is_not_open_stays() -> None:
    assert closed(Text(**BASE, text="x"), "cut") is None


@pytest.mark.parametrize(
    ("request_open", "queued", "words"),
    [
        (False, 0, ["during this turn", "Send a prompt to go on."]),
        (True, 0, ["request was open", "expired"]),
        (False, 1, ["One queued prompt is kept."]),
        (False, 2, ["2 queued prompts are kept."]),
    ],
)
def test_a_restart_says_what_it_cut_and_what_it_kept(request_open: bool, queued: int, words: list[str]) -> None:
    text = restart_notice(request_open=request_open, queued=queued)
    assert all(word in text for word in words)
    assert ("kept" in text) is (queued > 0)


def test_an_answer_is_worded_with_the_agent_while_its_turn_goes_on() -> None:
    assert decided("accepted", "Claude", goes_on=True) == "Approved, Claude continues"
    assert decided("rejected", "Claude", goes_on=False) == "Rejected"


def test_an_error_is_not_busy() -> None:
    assert [is_busy(status) for status in ("active", "approval", "idle", "error")] == [True, True, False, False]
