"""The error taxonomy: every class with its status and code, and its way over the bus."""

import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.wire import errors
from termal.wire.codec import decode, encode
from termal.wire.errors import (
    Busy,
    BusyCode,
    Conflict,
    ErrorBody,
    Forbidden,
    Internal,
    InvalidRequest,
    NotFound,
    NotImplementedYet,
    OutcomeUnknown,
    TermalError,
    TooMany,
    Unprocessable,
    error_from,
)

TABLE: list[tuple[type[TermalError], int, str, bool]] = [
    (InvalidRequest, 400, "invalid_request", False),
    (Forbidden, 403, "forbidden", False),
    (NotFound, 404, "not_found", False),
    (Conflict, 409, "conflict", False),
    (Unprocessable, 422, "unprocessable", False),
    (TooMany, 429, "too_many", True),
    (NotImplementedYet, 501, "not_implemented", False),
    (Busy, 503, "no_write_committed", True),
    (OutcomeUnknown, 504, "outcome_unknown", False),
    (Internal, 500, "internal", False),
]
IDS = [kind.__name__ for kind, *_ in TABLE]
details: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(("kind", "status", "code", "repeatable"), TABLE, ids=IDS)
def test_each_error_has_its_status_and_code(kind: type[TermalError], status: int, code: str, repeatable: bool) -> None:
    error = kind("a sentence")
    assert (error.status, error.code, error.repeatable) == (status, code, repeatable)
    assert (str(error), error.message, error.reason, error.detail) == ("a sentence", "a sentence", None, None)


@pytest.mark.parametrize("kind", [kind for kind, *_ in TABLE], ids=IDS)
@given(message=st.text(max_size=30), reason=st.none() | st.text(max_size=10), detail=details)
def test_each_error_comes_back_from_the_bus_as_it_was(
    kind: type[TermalError], message: str, reason: str | None, detail: Any
) -> None:
    sent = kind(message, reason=reason, detail=detail)
    got = error_from(decode(encode(sent.body()), ErrorBody))
    assert type(got) is kind
    assert (got.status, got.code, got.message, got.reason, got.detail) == (
        sent.status,
        sent.code,
        message,
        reason,
        detail,
    )


@pytest.mark.parametrize("code", typing.get_args(BusyCode))
def test_busy_keeps_what_it_proves(code: BusyCode) -> None:
    got = error_from(decode(encode(Busy("later", code=code, reason="queue").body()), ErrorBody))
    assert (type(got), got.code, got.reason) == (Busy, code, "queue")


def test_the_table_names_every_class_of_the_taxonomy() -> None:
    defined = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TermalError)}
    assert defined == {kind for kind, *_ in TABLE} | {TermalError}


def test_statuses_and_codes_are_unique() -> None:
    assert len({status for _, status, _, _ in TABLE}) == len(TABLE)
    assert len({code for _, _, code, _ in TABLE}) == len(TABLE)


@pytest.mark.parametrize("status", [0, 200, 404_000, 418, 502])
def test_an_unknown_status_is_a_fault_of_ours(status: int) -> None:
    assert type(error_from(ErrorBody(status, "odd", "what"))) is Internal


def test_an_unknown_code_of_busy_proves_the_least() -> None:
    assert error_from(ErrorBody(503, "odd", "later")).code == "no_write_committed"
