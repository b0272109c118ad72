"""The operation table as a whole: names, types, and what may be repeated."""

import re
from types import ModuleType
from typing import Any

import msgspec
import pytest

from termal.wire import operations
from termal.wire.codec import decode, encode
from termal.wire.errors import InvalidRequest
from termal.wire.operation import READ_S, WRITE_S, Operation
from termal.wire.operations import OPERATIONS

MODULES = [value for value in vars(operations).values() if isinstance(value, ModuleType)]
NAMED = {name: value for module in MODULES for name, value in vars(module).items() if isinstance(value, Operation)}
ROWS = pytest.mark.parametrize("op", OPERATIONS.values(), ids=OPERATIONS.keys())


def test_every_operation_has_one_constant_and_one_row() -> None:
    assert sorted(op.name for op in NAMED.values()) == sorted(OPERATIONS), "a name that two operations share"
    assert all(OPERATIONS[op.name] is op for op in NAMED.values())


@ROWS
def test_names_are_a_noun_and_a_verb(op: Operation[Any, Any]) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z]+(_[a-z]+)*", op.name)


@ROWS
def test_reads_are_repeatable_and_have_a_deadline(op: Operation[Any, Any]) -> None:
    assert op.kind in ("read", "write")
    if op.kind == "read":
        assert op.repeatable
        assert op.timeout_s is not None


@ROWS
def test_what_has_no_deadline_may_be_repeated(op: Operation[Any, Any]) -> None:
    """Its sender repeats it until it is confirmed."""
    if op.timeout_s is None:
        assert op.repeatable
    else:
        assert 0 < op.timeout_s <= 65


@ROWS
def test_requests_and_replies_are_frozen_records(op: Operation[Any, Any]) -> None:
    for kind in (op.request, op.reply):
        assert issubclass(kind, msgspec.Struct)
        assert kind.__struct_config__.frozen


@ROWS
def test_a_body_of_another_shape_is_an_invalid_request(op: Operation[Any, Any]) -> None:
    for body in (b"", b"\xc1", b"\x07", encode("text"), encode([["x"]] * 99)):
        with pytest.raises(InvalidRequest):
            decode(body, op.request)


def test_the_usual_deadlines() -> None:
    assert (READ_S, WRITE_S) == (2.0, 5.0)
