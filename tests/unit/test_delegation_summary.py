"""Delegations cut short: the public summary, the card's row, the words for a policy, the packets of failures."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from termal.model.delegation import (
    DelegationFinding,
    DelegationRecord,
    DelegationResult,
    DelegationSummary,
    WritePolicy,
)
from termal.model.message import Approval, CodexAppRequest, Command, ElicitationRequest, Request, UserInputRequest
from termal.rules.delegation_agents import Work, check_agent, check_model, child_settings, enforcement
from termal.rules.delegation_packet import (
    Ids,
    canceled_summary,
    ended_result,
    missing_review,
    prose_result,
    with_changed,
    with_note,
)
from termal.rules.delegation_result import Prose
from termal.rules.delegation_summary import (
    NOTHING_SAID,
    SUMMARY_CHARS,
    card_row,
    public_summary,
    result_summary,
    summary_of,
)
from termal.rules.verdicts import Bad

IDS = Ids("delegation-a", "session-2")
SAID: dict[str, Any] = {"id": "m", "timestamp": "now", "author": "assistant"}


def record(**changes: Any) -> DelegationRecord:
    return DelegationRecord(
        **{
            "id": IDS.delegation_id,
            "parent_session_id": "session-1",
            "child_session_id": IDS.child_session_id,
            "status": "running",
            "title": "Look",
            "agent": "Codex",
            "model": "gpt-5.4",
            "cwd": "/w",
            "prompt": "secret task",
            **changes,
        }
    )


# --------------------------------------------------------------------------- public summary


def test_a_public_summary_has_no_blank_lines_and_no_margins() -> None:
    assert public_summary("  a \n\n\t b\r\n \nc  ") == "a\nb\nc"
    assert public_summary(" \n\t") == NOTHING_SAID


@given(st.text(max_size=1200))
def test_a_public_summary_is_bounded(text: str) -> None:
    short = public_summary(text)
    assert 0 < len(short) <= SUMMARY_CHARS + 3
    assert len(public_summary(text + "x" * 1128)) == 1003


def test_an_unavailable_finding_counts_for_none() -> None:
    findings = [DelegationFinding(severity=word, message="x") for word in ("High", "Unavailable", "Note")]
    result = msgspec.structs.replace(ended_result(IDS, "failed", "why"), findings=findings)
    assert result_summary(result).finding_count == 2
    assert result_summary(missing_review(IDS)).finding_count == 0


def test_a_summary_shows_no_prompt_and_no_directory() -> None:
    one = record(status="failed", result=ended_result(IDS, "failed", "x" * 1128), base_tree="t", source_root="/r")
    summary = summary_of(one)
    shown = msgspec.to_builtins(summary)
    hidden = {"prompt", "cwd", "sourceRoot", "baseTree", "submittedReviewResult", "reviewResultSubmissionAttempt"}
    assert not hidden & set(shown)
    assert len(shown["result"]["summary"]) == 1003
    assert isinstance(summary, DelegationSummary)
    assert summary_of(record()).result is UNSET


# -------------------------------------------------------------------------------------- card


@pytest.mark.parametrize(
    ("status", "row"),
    [
        ("queued", "running"),
        ("running", "running"),
        ("completed", "completed"),
        ("failed", "error"),
        ("canceled", "error"),
    ],
)
def test_the_row_of_each_status(status: Any, row: str) -> None:
    shown = card_row(record(status=status))
    assert (shown.id, shown.source, shown.status, shown.title) == (IDS.delegation_id, "delegation", row, "Look")


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({}, "Read-only \u00b7 /w \u00b7 Codex \u00b7 gpt-5.4"),
        ({"model": UNSET}, "Read-only \u00b7 /w \u00b7 Codex"),
        (
            {"write_policy": WritePolicy(kind="isolatedWorktree", owned_paths=[], worktree_path="/t")},
            "Isolated-worktree \u00b7 /w \u00b7 Codex \u00b7 gpt-5.4",
        ),
    ],
)
def test_a_running_row_says_how_the_child_works(changes: dict[str, Any], detail: str) -> None:
    assert card_row(record(**changes)).detail == detail


def test_a_row_that_ended_says_its_summary() -> None:
    one = record(status="canceled", result=ended_result(IDS, "canceled", canceled_summary()))
    assert card_row(one).detail == "Canceled on request."


@pytest.mark.parametrize(
    ("pending", "detail"),
    [
        pytest.param(
            Approval(**SAID, title="Run", command="rm x", detail="", decision="pending"),
            "Waits for approval: Run\nrm x",
            id="approval",
        ),
        pytest.param(
            UserInputRequest(**SAID, title="Which", detail="one?", questions=[], state="pending"),
            "Waits for input: Which\none?",
            id="input",
        ),
        pytest.param(
            ElicitationRequest(**SAID, title="Form", detail="f", request={}, state="pending"),
            "Waits for MCP input: Form\nf",
            id="mcp",
        ),
        pytest.param(
            CodexAppRequest(**SAID, title="More", detail="rights", method="m", params={}, state="pending"),
            "Waits for a Codex response: More\nrights",
            id="codex",
        ),
    ],
)
def test_a_row_says_what_its_child_waits_for(pending: Request, detail: str) -> None:
    assert card_row(record(), pending).detail == detail


# ------------------------------------------------------------------------------------ agents


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (Work("Cursor", "reviewer", "readOnly"), "reviewerAgentUnsupported"),
        (Work("Gemini", "reviewer", "readOnly"), "reviewerAgentUnsupported"),
        (Work("OpenCode", "reviewer", "readOnly"), "reviewerAgentUnsupported"),
        (Work("Demo", "reviewer", "readOnly"), "reviewerAgentUnsupported"),
        (Work("mine", "reviewer", "readOnly"), "reviewerAgentUnsupported"),
        (Work("Codex", "reviewer", "readOnly", parent_is_child=True), "nestedReviewerUnsupported"),
        (Work("OpenCode", "explorer", "readOnly"), "readOnlyAgentUnsupported"),
    ],
)
def test_work_that_an_agent_cannot_do(work: Work, reason: str) -> None:
    with pytest.raises(Bad) as refused:
        check_agent(work)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "work",
    [
        Work("Codex", "reviewer", "readOnly"),
        Work("Claude", "reviewer", "isolatedWorktree"),
        Work("Demo", "reviewer", "readOnly", demo_reviews=True),
        Work("Codex", "explorer", "readOnly", parent_is_child=True),
        Work("Cursor", "explorer", "readOnly"),
        Work("OpenCode", "explorer", "isolatedWorktree"),
        Work("mine", "explorer", "readOnly"),
    ],
)
def test_work_that_an_agent_can_do(work: Work) -> None:
    check_agent(work)


@pytest.mark.parametrize("model", ["", "x" * 201, "a\nb", "a\x7f", "a\x85"])
def test_models_that_opencode_cannot_be_started_with(model: str) -> None:
    with pytest.raises(Bad) as refused:
        check_model("OpenCode", model)
    assert refused.value.reason == "modelInvalid"
    check_model("OpenCode", "x" * 200)


def test_settings_of_a_child() -> None:
    assert child_settings("Codex", "readOnly") == {"sandboxMode": "read-only", "approvalPolicy": "on-request"}
    assert child_settings("Codex", "isolatedWorktree")["sandboxMode"] == "workspace-write"
    assert child_settings("Claude", "readOnly") == {"claudeApprovalMode": "read-only-auto-approve"}
    assert child_settings("Claude", "isolatedWorktree") == {}
    assert child_settings("Cursor", "isolatedWorktree") == {"cursorMode": "plan"}
    assert child_settings("Gemini", "readOnly") == {"geminiApprovalMode": "plan"}
    assert child_settings("Demo", "readOnly") == child_settings("OpenCode", "isolatedWorktree") == {}


def test_only_a_sandbox_of_the_kernel_guarantees_anything() -> None:
    assert enforcement("Codex", "readOnly", kernel_sandbox=True) == "guaranteed"
    assert enforcement("Codex", "isolatedWorktree", kernel_sandbox=True) == "guaranteed"
    for agent, kind, works in (
        ("Codex", "readOnly", False),
        ("Codex", "sharedWorktree", True),
        ("Claude", "readOnly", True),
        ("Demo", "readOnly", True),
    ):
        assert enforcement(agent, kind, kernel_sandbox=works) == "requested"  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------- packets


def command(number: int, status: Any = "success") -> Command:
    return Command(**SAID, command=f"c{number}" + "x" * 20000 * (number == 204), output="", status=status)


def test_a_packet_of_prose_is_within_its_bounds() -> None:
    prose = Prose(
        "completed", "s" * 9000, [DelegationFinding(severity="Low", message="m" * 20000)], ["n" * 20000] * 300
    )
    result = prose_result(
        IDS,
        prose,
        changed=["b", "a", "b", *(f"f{number:03d}" for number in range(300))],
        transcript=[command(number) for number in range(205)],
        strays=["b"],
    )
    assert len(result.summary) == 8003
    assert isinstance(result.changed_files, list)
    assert (len(result.changed_files), result.changed_files[:3]) == (200, ["a", "b", "f000"])
    assert isinstance(result.commands_run, list)
    assert [one.command[:4] for one in (result.commands_run[0], result.commands_run[-1])] == ["c5", "c204"]
    assert max(len(one.command) for one in result.commands_run) == 16384
    assert isinstance(result.notes, list)
    assert (len(result.notes), len(result.notes[0])) == (200, 16384)
    assert isinstance(result.findings, list)
    assert len(result.findings[0].message) == 16384


def test_files_outside_the_owned_paths_become_notes() -> None:
    result = prose_result(IDS, Prose("completed", "s", [], ["own"]), changed=["x"], strays=["src/x", "docs2/y"])
    assert result.notes == ["own", "Changed outside owned paths: src/x", "Changed outside owned paths: docs2/y"]


def test_an_empty_packet_has_no_lists() -> None:
    assert msgspec.to_builtins(prose_result(IDS, Prose("failed", "s", [], []))) == {
        "delegationId": "delegation-a",
        "childSessionId": "session-2",
        "status": "failed",
        "summary": "s",
    }


@pytest.mark.parametrize(
    ("result", "summary", "finding", "notes"),
    [
        pytest.param(ended_result(IDS, "failed", " "), "Failed without a stated reason.", None, UNSET, id="no-reason"),
        pytest.param(ended_result(IDS, "failed", "why"), "why", None, UNSET, id="a-reason"),
        pytest.param(
            ended_result(IDS, "failed", "why", review=True, quarantined="torn"),
            "why",
            "Nothing can be said about findings: no structured result was submitted.",
            ["A stored review envelope was set aside: torn"],
            id="a-review",
        ),
        pytest.param(
            ended_result(IDS, "canceled", canceled_summary("input"), review=True),
            "Canceled while waiting: input",
            "Nothing can be said about findings: the review was canceled.",
            UNSET,
            id="a-canceled-review",
        ),
        pytest.param(
            missing_review(IDS),
            "The review ended without its structured result and was not counted as clean.",
            "Nothing can be said about findings: no structured result was submitted.",
            ["The reviewer's own text is readable through result/output."],
            id="a-review-that-never-came",
        ),
    ],
)
def test_ends_without_a_result(result: DelegationResult, summary: str, finding: str | None, notes: Any) -> None:
    assert result.summary == summary
    shown = [] if result.findings is UNSET or result.findings is None else result.findings
    assert [(one.severity, one.message) for one in shown] == ([("Unavailable", finding)] if finding else [])
    assert result.notes == notes


def test_a_note_is_added_once_and_changed_files_replace_nothing_else() -> None:
    result = ended_result(IDS, "failed", "why", review=True)
    noted = with_note(with_note(result, "n"), "n")
    assert noted.notes == ["n"]
    assert with_changed(noted, ["b", "a"]) == msgspec.structs.replace(noted, changed_files=["a", "b"])
    assert with_changed(noted, []) == noted
