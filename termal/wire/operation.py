"""A request that crosses a process border: its types, its time, whether it is safe to repeat; and their table.

``repeatable`` operations are sent again to a restarted worker within their deadline (reads; writes that carry a key
or compare-and-swap). All others end as *outcome unknown* when the worker dies after the request was sent.
"""

from typing import Generic, Literal, TypeVar

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

READ_S = 2.0
WRITE_S = 5.0


class Operation(Generic[RequestT, ReplyT]):
    """One row of the table. ``timeout_s`` is the deadline from now that a caller sets, None for no deadline."""

    __slots__ = ("kind", "name", "repeatable", "reply", "request", "timeout_s")

    def __init__(
        self,
        name: str,
        request: type[RequestT],
        reply: type[ReplyT],
        *,
        kind: Literal["read", "write"],
        repeatable: bool,
        timeout_s: float | None,
    ) -> None:
        self.name = name
        self.request = request
        self.reply = reply
        self.kind = kind
        self.repeatable = repeatable
        self.timeout_s = timeout_s


OPERATIONS: dict[str, Operation[object, object]] = {}


def read(
    name: str, request: type[RequestT], reply: type[ReplyT], *, timeout_s: float = READ_S
) -> Operation[RequestT, ReplyT]:
    return _row(Operation(name, request, reply, kind="read", repeatable=True, timeout_s=timeout_s))


def write(
    name: str,
    request: type[RequestT],
    reply: type[ReplyT],
    *,
    repeatable: bool,
    timeout_s: float | None = WRITE_S,
) -> Operation[RequestT, ReplyT]:
    return _row(Operation(name, request, reply, kind="write", repeatable=repeatable, timeout_s=timeout_s))


def _row(operation: Operation[RequestT, ReplyT]) -> Operation[RequestT, ReplyT]:
    OPERATIONS[operation.name] = operation  # type: ignore[assignment]
    return operation
