"""Requests of Codex that the session's mode allows unless something is locked: each waits until that is known."""

import asyncio
from collections.abc import Callable

from workers.runtime.write_locks import IsLocked


class Doubts:
    """``wire_id``: Codex's own number of a request, as in `workers.runtime.codex_requests`."""

    def __init__(self, is_locked: IsLocked) -> None:
        self._is_locked = is_locked
        self._open: dict[str, asyncio.Task[None]] = {}

    def ask(self, session_id: str, wire_id: object, known: Callable[[bool], None]) -> None:
        """Call ``known`` with whether the session may not write, unless the request is forgotten before."""

        async def find_out() -> None:
            locked = await self._is_locked(session_id)
            del self._open[repr(wire_id)]
            known(locked)

        self._open[repr(wire_id)] = asyncio.create_task(find_out())

    def forget(self, wire_id: object) -> None:
        """Codex does not wait for an answer any more."""
        task = self._open.pop(repr(wire_id), None)
        if task is not None:
            task.cancel()
