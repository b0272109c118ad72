"""What a request for a delegation or a wait may say, and which of several faults is named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.model.delegation import DelegationRecord
from termal.rules.delegation_request import (
    ACTIVE_LIMIT,
    DEPTH_LIMIT,
    PROMPT_BYTES,
    check_capacity,
    check_watched,
    checked_followup,
    checked_spawn,
    checked_wait,
    is_satisfied,
)
from termal.rules.verdicts import Bad, Malformed, Missing, Refused, Stale, Unbuilt
from termal.wire.verdict_errors import error_of
from workers.state.delegation_table import DelegationTable

P = "session-1"


def refusal(call: Any, *arguments: Any, **keys: Any) -> tuple[int, str | None]:
    with pytest.raises(Refused) as refused:
        call(*arguments, **keys)
    return error_of(refused.value).status, refused.value.reason


def test_what_is_left_out_has_its_defaults() -> None:
    asked = checked_spawn(P, "  do it \n")
    assert (asked.prompt, asked.title, asked.model) == ("do it", "Delegated review", None)
    assert (asked.mode, asked.policy.kind) == ("reviewer", "readOnly")
    blank = checked_spawn(P, "x", title=" \t", model="  ")
    assert (blank.title, blank.model) == ("Delegated review", None)


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        pytest.param(" \n\t", "promptEmpty", id="blanks"),
        pytest.param("x" * 65537, "promptTooLarge", id="one-byte-too-many"),
        pytest.param("\u20ac" * 21846, "promptTooLarge", id="three-byte-characters"),
    ],
)
def test_a_prompt_is_bounded_in_bytes(prompt: str, reason: str) -> None:
    assert refusal(checked_spawn, P, prompt) == (400, reason)


def test_a_prompt_at_the_limit_is_taken_and_blanks_around_it_do_not_count() -> None:
    assert len(checked_spawn(P, f"  {'x' * PROMPT_BYTES}\n").prompt) == PROMPT_BYTES
    assert checked_spawn(P, "\u20ac" * 21845).prompt


def test_a_title_is_bounded_in_characters_not_bytes() -> None:
    wide = "\U0001f600" * 200
    assert checked_spawn(P, "x", title=f"  {wide} ").title == wide
    assert refusal(checked_spawn, P, "x", title=wide + "x") == (400, "titleTooLong")


def test_a_model_is_bounded() -> None:
    assert checked_spawn(P, "x", model=" " + "m" * 200).model == "m" * 200
    assert refusal(checked_spawn, P, "x", model="m" * 201) == (400, "modelTooLong")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"policy": b"true", "prompt": ""}, (422, "invalidJson"), id="form-before-all"),
        pytest.param({"parent_id": " ", "prompt": ""}, (400, "parentIdRequired"), id="parent-before-prompt"),
        pytest.param({"prompt": "", "title": "x" * 201}, (400, "promptEmpty"), id="prompt-before-title"),
        pytest.param({"title": "x" * 201, "model": "x" * 201}, (400, "titleTooLong"), id="title-before-model"),
        pytest.param({"model": "x" * 201, "mode": "worker"}, (400, "modelTooLong"), id="sizes-before-gates"),
        pytest.param(
            {"mode": "worker", "policy": b'"sharedWorktree"'}, (501, "workerNotImplemented"), id="mode-before-policy"
        ),
        pytest.param({"policy": b'"sharedWorktree"'}, (501, "sharedWorktreeNotImplemented"), id="policy-last"),
    ],
)
def test_the_first_fault_in_order_is_the_one_that_is_named(
    arguments: dict[str, Any], expected: tuple[int, str]
) -> None:
    given_arguments = {"parent_id": P, "prompt": "x", **arguments}
    assert refusal(checked_spawn, given_arguments.pop("parent_id"), **given_arguments) == expected


def test_kinds_of_refusals_are_statuses() -> None:
    kinds = (Bad, Malformed, Unbuilt, Stale, Missing)
    assert [error_of(kind("x")).status for kind in kinds] == [400, 422, 501, 409, 404]


def test_a_followup_needs_words() -> None:
    assert checked_followup(" go on ") == "go on"
    assert refusal(checked_followup, " \n") == (400, "followupEmpty")
    assert refusal(checked_followup, "x" * 65537) == (400, "promptTooLarge")


# ------------------------------------------------------------------------------- limits


def depth_of(session_id: str, parents: dict[str, str]) -> int:
    """``parents`` maps a child to the parent that delegated it."""
    table = DelegationTable()
    for child, parent in parents.items():
        table.put(
            DelegationRecord(
                id=f"delegation-{child}",
                parent_session_id=parent,
                child_session_id=child,
                status="running",
                title="Look",
                agent="Demo",
                cwd="/",
            )
        )
    return table.depth(session_id)


def test_depth_counts_the_ancestors_that_delegated() -> None:
    parents = {"b": "a", "c": "b", "d": "c"}
    assert [depth_of(one, parents) for one in "abcdx"] == [0, 1, 2, 3, 0]


def test_a_circle_of_parents_ends_the_walk() -> None:
    assert depth_of("a", {"a": "b", "b": "a"}) == 1
    assert depth_of("a", {"a": "a"}) == 0


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), st.sampled_from("abcdefgh"))
def test_depth_is_found_in_any_graph_and_never_beyond_its_size(parents: dict[str, str], start: str) -> None:
    assert 0 <= depth_of(start, parents) <= len(parents)


def test_capacity_is_refused_by_count_before_depth() -> None:
    check_capacity(ACTIVE_LIMIT - 1, DEPTH_LIMIT - 1)
    assert refusal(check_capacity, ACTIVE_LIMIT, DEPTH_LIMIT) == (409, "activeLimit")
    assert refusal(check_capacity, 0, DEPTH_LIMIT) == (409, "depthLimit")


# -------------------------------------------------------------------------------- waits


def test_ids_of_a_wait_are_trimmed_and_counted_once() -> None:
    ids = [f" d{number}" for number in range(10)]
    wait = checked_wait([*ids, "d3 "], title="  T ")
    assert wait.delegation_ids == [f"d{number}" for number in range(10)]
    assert (wait.mode, wait.title, wait.needed, wait.deadline_ms) == ("all", "T", None, None)


@pytest.mark.parametrize(
    ("ids", "keys", "reason"),
    [
        pytest.param(["a", " "], {}, "waitIdEmpty", id="blank-id"),
        pytest.param([], {"title": "x" * 201}, "waitNoIds", id="none"),
        pytest.param([f"d{number}" for number in range(11)], {}, "waitTooManyIds", id="eleven"),
        pytest.param(["a"], {"title": "x" * 201}, "waitTitleTooLong", id="long-title"),
        pytest.param(["a"], {"mode": "count"}, "waitCountInvalid", id="count-left-out"),
        pytest.param(["a"], {"count": 1}, "waitCountInvalid", id="count-of-another-mode"),
        pytest.param(["a", "b"], {"mode": "count", "count": 3}, "waitCountInvalid", id="more-than-there-are"),
        pytest.param(["a"], {"mode": "count", "count": 0}, "waitCountInvalid", id="none-of-them"),
        pytest.param(["a"], {"deadline_ms": 999}, "waitDeadlineInvalid", id="deadline-too-near"),
        pytest.param(["a"], {"deadline_ms": 86_400_001}, "waitDeadlineInvalid", id="deadline-too-far"),
    ],
)
def test_a_wait_that_cannot_be_is_refused(ids: list[str], keys: dict[str, Any], reason: str) -> None:
    assert refusal(checked_wait, ids, **keys) == (400, reason)


def test_the_words_of_two_refusals_are_fixed() -> None:
    with pytest.raises(Bad, match=r"^delegation wait accepts at most 10 delegation ids$"):
        checked_wait([f"d{number}" for number in range(11)])
    with pytest.raises(Bad, match=r"^delegation wait title must be at most 200 characters$"):
        checked_wait(["a"], title="x" * 201)


def test_the_first_id_that_is_unknown_or_foreign_is_named() -> None:
    parents = {"d1": P, "d2": "session-9"}
    check_watched(["d1"], P, parents)
    assert refusal(check_watched, ["d1", "d7", "d2"], P, parents) == (404, "delegationNotFound")
    with pytest.raises(Bad, match=r"^delegation d2 does not belong to parent session session-1$") as refused:
        check_watched(["d2", "d7"], P, parents)
    assert refused.value.reason == "waitForeignDelegation"


@pytest.mark.parametrize(
    ("mode", "count", "needed"), [("any", None, 1), ("all", None, 3), ("count", 2, 2)], ids=["any", "all", "count"]
)
def test_a_wait_is_met_by_as_many_as_its_mode_says(mode: Any, count: int | None, needed: int) -> None:
    assert [is_satisfied(mode, 3, ended, count) for ended in range(4)] == [ended >= needed for ended in range(4)]
