"""`AsyncHttp`: the same API on an event loop, any number of calls at once. Raises and repeats as `Http` does."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from termal.client.call import Answer, Call
from termal.client.errors import Unreachable, error_of
from termal.client.stream import Event, parse_async_events
from termal.client.transport import (
    REPEAT_S,
    REPEAT_STEP_S,
    REPLY_S,
    STREAM_TIMEOUT,
    httpx,
    read_answer,
    request_of,
    settings,
    token_of_environment,
    unreachable,
)

T = TypeVar("T")


class AsyncHttp:
    """The API at ``base_url``. Use it as an async context manager, or call `close`; on one loop.

    ``repeat_s`` 0 sends every request once. ``token``: None takes the one of the environment, if any.
    """

    def __init__(
        self,
        base_url: str,
        *,
        reply_s: float | None = REPLY_S,
        repeat_s: float = REPEAT_S,
        token: str | None = None,
        client_name: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._repeat_s = repeat_s
        token = token or token_of_environment()
        self._http = httpx.AsyncClient(transport=transport, **settings(self.base_url, reply_s, token, client_name))

    async def __aenter__(self) -> "AsyncHttp":
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def run(self, call: Call[T]) -> T:
        """Send it and read the answer; again within ``repeat_s`` after a lost connection, if that is safe."""
        end = time.monotonic() + (self._repeat_s if call.repeatable else 0.0)
        while True:
            try:
                return read_answer(call, await self.exchange(call), self.base_url)
            except Unreachable as error:
                if error.trouble not in ("connect", "transport") or time.monotonic() >= end:
                    raise
                await asyncio.sleep(REPEAT_STEP_S)

    async def exchange(self, call: Call[T], *, limit_s: float | None = None) -> Answer:
        """Send it once, whatever the answer says. ``limit_s`` is for all of it, to the last byte. Raises `Unreachable`,
        which says whether the request was sent and the answer was being read."""
        phase: list[bool] = []
        try:
            async with asyncio.timeout(limit_s):
                return await self._exchange(call, phase)
        except TimeoutError as error:
            text = f"no daemon answers at {self.base_url} (no answer in time)"
            raise Unreachable(text, trouble="timeout", phase="reading body" if phase else "sending") from error
        except httpx.TransportError as error:
            raise unreachable(error, self.base_url, "reading body" if phase else "sending") from error

    async def _exchange(self, call: Call[T], phase: list[bool]) -> Answer:
        request = request_of(call)
        timeout = request.pop("timeout", httpx.USE_CLIENT_DEFAULT)
        built = self._http.build_request(call.method, call.path, timeout=timeout, **request)
        reply = await self._http.send(built, stream=True)
        try:
            phase.append(True)
            return Answer(reply.status_code, reply.reason_phrase, await reply.aread())
        finally:
            await reply.aclose()

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[Event]]:
        """A stream of events, a ``state`` first; it ends when the daemon stops. Raises `Unreachable` when it breaks."""
        try:
            async with self._http.stream("GET", "/api/events", timeout=STREAM_TIMEOUT) as reply:
                if reply.status_code != 200:
                    await reply.aread()
                    raise error_of(reply.status_code, reply.content)
                yield parse_async_events(reply.aiter_raw())
        except httpx.TransportError as error:
            raise unreachable(error, self.base_url, "reading body") from error
