"""One call as an awaitable, for code that runs on asyncio."""

import asyncio
from functools import partial
from typing import TypeVar

from termal.bus.client import Client
from termal.wire.errors import TermalError
from termal.wire.operation import Operation

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


async def ask(
    client: Client,
    op: Operation[RequestT, ReplyT],
    request: RequestT,
    *,
    trace: str = "",
    deadline_s: float | None = None,
    absent_s: float | None = None,
) -> ReplyT:
    """The reply. Raises the `TermalError` that ended the call; a cancelled task forgets the call."""
    future: asyncio.Future[ReplyT] = asyncio.get_running_loop().create_future()
    call = client.call(op, request, partial(_settle, future), trace=trace, deadline_s=deadline_s, absent_s=absent_s)
    try:
        return await future
    except asyncio.CancelledError:
        call.cancel()
        raise
    finally:
        # An error holds this frame; if that held the error by these two, the request's body stayed until somebody looks
        # for garbage.
        del future, call


def _settle(future: "asyncio.Future[ReplyT]", reply: ReplyT | None, error: TermalError | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        assert reply is not None
        future.set_result(reply)
