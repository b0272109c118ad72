"""Every way to say a write policy, and what is no way to say one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.model.delegation import READ_ONLY, WritePolicy
from termal.rules.delegation_policy import decode_policy, described, policy_of
from termal.rules.verdicts import Malformed
from termal.wire.verdict_errors import error_of

ISOLATED = WritePolicy(kind="isolatedWorktree", owned_paths=["docs"], worktree_path="/w")


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"null",
        b"{}",
        b'"readOnly"',
        b'"read_only"',
        b'"read-only"',
        b'"readonly"',
        b'{"kind":"readOnly"}',
        b'{"kind":"read_only","ownedPaths":["a"]}',
        b'{"readOnly":true}',
        b'{"readonly":null}',
        b'{"read-only":{}}',
    ],
)
@pytest.mark.case("A15")
def test_a_read_only_policy_may_be_said_in_many_ways(raw: bytes | None) -> None:
    assert decode_policy(raw) == READ_ONLY
    assert msgspec.json.encode(decode_policy(raw)) == b'{"kind":"readOnly"}'


@pytest.mark.parametrize(
    "raw",
    [
        b'{"kind":"isolatedWorktree","ownedPaths":["docs"],"worktreePath":"/w"}',
        b'{"kind":"isolated_worktree","owned_paths":["docs"],"worktree_path":"/w"}',
        b'{"isolated-worktree":{"ownedPaths":["docs"],"worktree_path":"/w"}}',
    ],
)
def test_fields_have_two_spellings_and_come_out_in_one(raw: bytes) -> None:
    assert decode_policy(raw) == ISOLATED
    encoded = b'{"kind":"isolatedWorktree","ownedPaths":["docs"],"worktreePath":"/w"}'
    assert msgspec.json.encode(decode_policy(raw)) == encoded


@pytest.mark.parametrize("raw", [b'"sharedWorktree"', b'{"shared_worktree":true}', b'{"kind":"shared-worktree"}'])
def test_a_bare_kind_has_empty_fields(raw: bytes) -> None:
    policy = decode_policy(raw)
    assert (policy.kind, policy.owned, policy.worktree) == ("sharedWorktree", [], "")
    assert msgspec.json.encode(policy) == b'{"kind":"sharedWorktree","ownedPaths":[]}'


@pytest.mark.parametrize(
    "raw",
    [
        b"true",
        b"7",
        b"[]",
        b'"writeAll"',
        b'"READONLY"',
        b'""',
        b'{"kind":7}',
        b'{"kind":null}',
        b'{"kind":"other"}',
        b'{"readOnly":true,"isolatedWorktree":{}}',
        b'{"ownedPaths":["a"]}',
        b'{"readOnly":false}',
        b'{"readOnly":[]}',
        b'{"isolatedWorktree":{"ownedPaths":"docs"}}',
        b'{"kind":"isolatedWorktree","ownedPaths":[1]}',
        b'{"kind":"isolatedWorktree","worktreePath":7}',
        b'{"kind":"isolatedWorktree","ownedPaths":[],"owned_paths":[]}',
        b'{"kind":"readOnly","ownedPaths":7}',
        b"{",
        b"",
    ],
)
@pytest.mark.case("A15")
def test_everything_else_has_not_the_form_of_a_policy(raw: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        decode_policy(raw)
    assert (error_of(refused.value).status, refused.value.reason) == (422, "invalidJson")


def test_a_blank_path_of_a_worktree_counts_as_left_out() -> None:
    assert policy_of({"kind": "isolatedWorktree", "worktreePath": ""}).worktree == ""


@given(
    st.sampled_from(["isolatedWorktree", "sharedWorktree"]),
    st.lists(st.text(max_size=8), max_size=4),
    st.text(max_size=9),
)
def test_what_is_encoded_decodes_to_the_same(kind: str, owned: list[str], worktree: str) -> None:
    policy = policy_of({"kind": kind, "ownedPaths": owned, "worktreePath": worktree})
    assert decode_policy(msgspec.json.encode(policy)) == policy


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=12), st.lists, max_leaves=5))
def test_any_json_is_a_policy_or_refused(value: object) -> None:
    for shape in (value, {"kind": value}, {"readOnly": value}, {"kind": "isolatedWorktree", "ownedPaths": value}):
        try:
            assert policy_of(shape).kind in ("readOnly", "isolatedWorktree", "sharedWorktree")
        except Malformed:
            continue


@pytest.mark.parametrize(
    ("policy", "enforcement", "words"),
    [
        pytest.param(READ_ONLY, "guaranteed", "read-only guaranteed", id="kept-by-a-sandbox"),
        pytest.param(READ_ONLY, "requested", "read-only requested", id="asked-of-the-agent"),
        pytest.param(ISOLATED, "requested", "isolation requested", id="worktree"),
    ],
)
def test_people_read_what_was_asked_and_how_surely_it_is_kept(
    policy: WritePolicy, enforcement: str, words: str
) -> None:
    assert described(policy, enforcement) == words
