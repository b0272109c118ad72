"""Whether a session may write now. State knows it, and is asked each time that a session's mode alone would say yes."""

import asyncio
from collections.abc import Awaitable, Callable

from termal.bus.client import Client
from termal.wire.errors import TermalError
from termal.wire.session_operations import LOCK_READ, OneSession, WriteLock

IsLocked = Callable[[str], Awaitable[bool]]
"""Takes a session's id. True also where nobody could say: a person can still decide."""


def locks_of(state: Client) -> IsLocked:
    async def is_locked(session_id: str) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def done(reply: WriteLock | None, _: TermalError | None) -> None:
            if not answer.done():
                answer.set_result(reply is None or reply.locked)

        state.call(LOCK_READ, OneSession(session_id), done)
        return await answer

    return is_locked
