"""What the bus itself says of a request that had no answer: exactly what is proven, never more."""

from typing import Any

from termal.wire.errors import Busy, OutcomeUnknown, TermalError
from termal.wire.operation import Operation


def not_started(op: Operation[Any, Any], why: str = "the deadline passed before it started") -> Busy:
    """The answer to a request that surely never started."""
    if op.kind == "read":
        return Busy(f"{op.name}: {why}", code="no_mutation_attempted")
    return Busy(f"{op.name}: {why}; nothing was written", code="no_write_committed")


def unanswered(op: Operation[Any, Any], why: str, *, may_have_started: bool) -> TermalError:
    """The end of a call without an answer. A read is harmless to repeat, whatever became of it."""
    if may_have_started and op.kind == "write":
        return OutcomeUnknown(f"{op.name}: {why}; it may have been carried out")
    return not_started(op, why)


def drained(op: Operation[Any, Any], error: TermalError) -> TermalError:
    """``error`` as the refusal of ``op`` by a worker that drains: a read is told of reads."""
    if op.kind == "read" and isinstance(error, Busy) and error.code == "no_write_committed":
        return Busy(error.message, code="no_mutation_attempted", reason=error.reason, detail=error.detail)
    return error
