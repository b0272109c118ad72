"""The bridge's way to the daemon: each request once, or safely repeated where a tool opts in, within a time limit."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from termal.bridge.failures import NOTHING, ToolFailed, Unknown, sentence
from termal.bridge.replay import delay_ms, is_busy, may_repeat
from termal.client.call import Answer, Call
from termal.client.errors import Unreachable
from termal.client.failure import ApiFailed, lost, refused
from termal.client.packets import Json

LIMIT_S = 30.0
"""For one request with everything, and for all attempts of a repeated one together."""

T = TypeVar("T")
Exchange = Callable[[Call[Any], float], Awaitable[Answer]]
"""Sends a call once within so many seconds. Raises `Unreachable`."""


class Backend:
    """``session_id`` is the caller. ``sleep`` and ``clock`` are there for tests of the waits."""

    def __init__(
        self,
        session_id: str,
        exchange: Exchange,
        *,
        limit_s: float = LIMIT_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session_id = session_id
        self.sleep = sleep
        self.clock = clock
        self._exchange = exchange
        self._limit_s = limit_s

    async def ask(self, call: Call[T], *, limit_s: float | None = None) -> Any:
        """The JSON of the answer to one attempt, checked to be ``call.reply`` but as it came. Raises `ApiFailed`."""
        limit_s = self._limit_s if limit_s is None else limit_s
        try:
            answer = await self._exchange(call, limit_s)
        except Unreachable as error:
            raise lost(call, error, limit_s) from error
        if not 200 <= answer.status < 300:
            raise refused(answer)
        try:
            value = msgspec.json.decode(answer.content)
            msgspec.convert(value, call.reply)
        except msgspec.MsgspecError as error:
            unusable = Unreachable(str(error), trouble="unusable", phase="reading body")
            raise lost(call, unusable, limit_s) from error
        return value

    async def once(self, call: Call[T], unknown: Unknown = NOTHING) -> Any:
        """As `ask`, failing as a tool does."""
        try:
            return await self.ask(call)
        except ApiFailed as error:
            raise ToolFailed(sentence(error, unknown)) from error

    async def safely(self, call: Call[T], unknown: Unknown = NOTHING) -> Any:
        """As `once`, and repeated, byte for byte, while the daemon says that it was busy and did nothing."""
        end_s = self.clock() + self._limit_s
        attempt = 1
        while True:
            try:
                return await self.ask(call, limit_s=max(0.0, end_s - self.clock()))
            except ApiFailed as error:
                delay_s = delay_ms(self.session_id, attempt) / 1e3
                busy = is_busy(error.status, error.code)
                if not busy or not may_repeat(attempt, end_s - self.clock(), delay_s):
                    raise ToolFailed(sentence(error, unknown)) from error
            await self.sleep(delay_s)
            attempt += 1


def unusable(call: Call[Any], unknown: Unknown) -> ToolFailed:
    """A successful answer that is not the answer to this request."""
    error = lost(call, Unreachable("", trouble="unusable", phase="reading body"), LIMIT_S)
    return ToolFailed(sentence(error, unknown))


def record(value: Any) -> Json:
    """``value``, which an answer's type says is an object."""
    assert isinstance(value, dict)
    return value
