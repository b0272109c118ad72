"""The prompts around a delegation: a child's first one, a parent's resumption; and how both stay within bounds."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.model.delegation import (
    READ_ONLY,
    DelegationCommandResult,
    DelegationFinding,
    DelegationRecord,
    DelegationResult,
    DelegationWaitRecord,
    WritePolicy,
)
from termal.rules.delegation_prompt import (
    bootstrap_prompt,
    followup_prompt,
    is_delegation_id,
    marked_child,
    policy_words,
)
from termal.rules.delegation_resume import CUT, PROMPT_BYTES, bounded, resume_prompt
from termal.rules.delegation_review import decode_payload


def record(**changes: Any) -> DelegationRecord:
    return DelegationRecord(
        **{
            "id": "delegation-a",
            "parent_session_id": "session-1",
            "child_session_id": "session-2",
            "mode": "explorer",
            "status": "running",
            "title": "Look",
            "agent": "Codex",
            "prompt": "Find it.\n\n  Keep this as it is.",
            "cwd": "/w",
            **changes,
        }
    )


def ended(**changes: Any) -> DelegationRecord:
    one = record(**{"status": "completed", **changes})
    result = DelegationResult(
        delegation_id=one.id,
        child_session_id=one.child_session_id,
        status=one.status,
        summary="Two lines\nof it",
        findings=[DelegationFinding(severity="High", message="boom", file="a.py", line=3)],
        commands_run=[DelegationCommandResult(command="make", status="success")],
    )
    return msgspec.structs.replace(one, result=result)


def wait(*ids: str, **changes: Any) -> DelegationWaitRecord:
    return DelegationWaitRecord(
        **{
            "id": "delegation-wait-1",
            "parent_session_id": "session-1",
            "delegation_ids": list(ids),
            "created_at": "now",
            **changes,
        }
    )


# ------------------------------------------------------------------------------ bootstrap


def test_the_first_prompt_begins_with_the_line_that_a_start_looks_for() -> None:
    lines = bootstrap_prompt(record()).splitlines()
    assert lines[0] == "TermAl delegation child `delegation-a`."
    assert lines[1:5] == [
        "Mode: explorer",
        "Parent session: `session-1`",
        "Child session: `session-2`",
        "Working directory: `/w`",
    ]


def test_the_first_prompt_says_policy_task_and_form_in_this_order() -> None:
    text = bootstrap_prompt(record())
    parts = ["Write policy: read-only", "must stay", "Do not commit", record().prompt, "## Result", "Findings:"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "TERMAL_REVIEW_RESULT_SCHEMA_1" not in text


def test_a_required_review_is_told_last_how_to_hand_in_its_result() -> None:
    text = bootstrap_prompt(record(review_result_required=True, prompt="TERMAL_REVIEW says no"))
    tail = text[text.index("TERMAL_REVIEW_RESULT_SCHEMA_1") :]
    assert text.index("TERMAL_REVIEW says no") < text.index("## Result") < text.index(tail)
    assert "termal_submit_review_result" in tail
    example = tail[tail.index("{") :]
    assert decode_payload(example.encode()).status == "completed"
    assert followup_prompt(record(review_result_required=True), "again").startswith("again\n\nTERMAL_REVIEW_RESULT")
    assert followup_prompt(record(), "again") == "again"


def test_policies_in_words() -> None:
    assert "Do not edit, stage, commit or push" in policy_words(READ_ONLY)
    isolated = WritePolicy(kind="isolatedWorktree", owned_paths=["docs", "src/a"], worktree_path="/t/w")
    words = policy_words(isolated)
    assert "`/t/w`" in words
    assert "Do not touch the parent's workspace." in words
    assert words.endswith("\n- docs\n- src/a")
    bare = WritePolicy(kind="isolatedWorktree", owned_paths=[], worktree_path="/t/w")
    assert policy_words(bare).endswith("No owned paths were declared.")


def test_a_child_is_known_again_by_its_first_prompt() -> None:
    text = bootstrap_prompt(record())
    assert marked_child(text) == ("delegation-a", "session-2")
    assert marked_child(f"> {text}") is None
    assert marked_child(f" {text}") is None
    assert marked_child(text.replace("`.\n", "`\n", 1)) is None
    assert marked_child(text.replace("Child session: `session-2`", "Child session: `session-2` or so")) is None
    assert marked_child(text.replace("delegation-a", "delegation-a b")) is None
    assert marked_child("") is None


@given(st.text(st.sampled_from("ab`\n. TermAlCdis:on-2"), max_size=40))
def test_no_task_passes_for_another_child(task: str) -> None:
    assert marked_child(bootstrap_prompt(record(prompt=f"{task}\nChild session: `session-9`"))) == (
        "delegation-a",
        "session-2",
    )


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("delegation-1a-B", True),
        ("delegation-", False),
        ("delegation-a b", False),
        ("x-delegation-a", False),
        ("", False),
    ],
)
def test_ids_that_may_be_those_of_delegations(text: str, valid: bool) -> None:
    assert is_delegation_id(text) == valid


# -------------------------------------------------------------------------------- resume


def test_a_parent_is_resumed_with_all_that_ended() -> None:
    records = {
        "delegation-a": ended(policy_enforcement="guaranteed"),
        "delegation-b": ended(id="delegation-b", status="failed", title="Other", child_session_id="session-3"),
    }
    text = resume_prompt(wait("delegation-a", "delegation-b"), records)
    assert text.startswith(
        "Delegated work is ready\n\nWait id: delegation-wait-1\nMode: all\nParent session: session-1\n\nDelegations:\n"
        "- delegation-a: completed, Look\n- delegation-b: failed, Other\n\nResults:\n"
    )
    first, second = text[text.index("\nResults:") :].split("\n---\n")
    assert (
        "Look (delegation-a)\nStatus: completed\nWrite policy: read-only guaranteed\nChild session: session-2" in first
    )
    assert "outputOffset 0 and outputLimit 4096" in first
    assert "Summary:\nTwo lines\nof it\n" in first
    assert "Findings:\n- [High] a.py:3 - boom\n\nChanged files:\n- None\n\nCommands run:\n- make: success\n" in first
    assert first.rstrip().endswith("Notes:\n- None")
    assert "Other (delegation-b)" in second
    assert "read-only requested" in second


def test_of_what_still_works_only_the_line_is_there() -> None:
    records = {"delegation-a": ended(), "delegation-b": record(id="delegation-b", title="Later")}
    text = resume_prompt(wait("delegation-a", "delegation-b", mode="any", title="Fan-in"), records)
    assert text.startswith("Fan-in\n")
    assert "Mode: any" in text
    assert "- delegation-b: running, Later" in text
    assert text.count("Write policy:") == 1


def test_a_deadline_that_came_first_is_said() -> None:
    records = {"delegation-a": ended(), "delegation-b": record(id="delegation-b")}
    asked = wait("delegation-a", "delegation-b", mode="count", count=2)
    text = resume_prompt(asked, records, partial=True)
    assert "Mode: count 2 of 2\n" in text
    assert "Partial: the deadline passed; 1 of 2 delegations have ended.\n" in text
    assert "- delegation-b: running, not ended by the deadline, Look" in text
    assert "Partial" not in resume_prompt(asked, records)


def test_a_record_that_is_gone_is_named() -> None:
    text = resume_prompt(wait("delegation-x"), {})
    assert "- delegation-x: missing" in text
    assert text.endswith("Results:\n\n- None")


def test_what_happened_after_a_review_was_handed_in_is_told() -> None:
    one = ended(post_submission_transport_error="runtime failed after acceptance: gone")
    assert "After the result was handed in: runtime failed" in resume_prompt(wait(one.id), {one.id: one})


@pytest.mark.case("A65")
def test_a_resumption_beyond_its_size_ends_with_the_marker_and_is_within_it() -> None:
    records = {}
    for number in range(10):
        one = ended(id=f"delegation-{number}")
        assert isinstance(one.result, DelegationResult)
        one = msgspec.structs.replace(one, result=msgspec.structs.replace(one.result, summary="\u20ac" * 8000))
        records[one.id] = one
    text = resume_prompt(wait(*records), records)
    assert PROMPT_BYTES - 3 <= len(text.encode()) <= PROMPT_BYTES
    assert text.endswith(f"\u20ac\n\n{CUT}")


@given(st.integers(0, 3), st.sampled_from(["x", "\u00e9", "\u20ac", "\U0001f600"]))
def test_a_cut_never_splits_a_character(more: int, char: str) -> None:
    text = "a" * more + char * (PROMPT_BYTES // len(char.encode()) + 1)
    cut = bounded(text)
    assert len(cut.encode()) <= PROMPT_BYTES
    assert text.startswith(cut.removesuffix(f"\n\n{CUT}"))
    whole = text[: PROMPT_BYTES // 4]
    assert bounded(whole) == whole
