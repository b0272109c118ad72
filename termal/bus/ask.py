"""One call as an awaitable, for code that runs on asyncio."""

import asyncio
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

    def done(reply: ReplyT | None, error: TermalError | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            assert reply is not None
            future.set_result(reply)

    call = client.call(op, request, done, trace=trace, deadline_s=deadline_s, absent_s=absent_s)
    try:
        return await future
    except asyncio.CancelledError:
        call.cancel()
        raise
