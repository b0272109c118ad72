"""The outermost layer of the application: request id, guards, body limit, CORS, figures, and whatever nobody caught.

It works on the plain ASGI messages, so that a request is refused before the framework reads a byte of its body.
"""

import asyncio
import os
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from termal.gateway.access import OWNER, Access
from termal.gateway.guards import (
    BODY_BYTES,
    HEADERS,
    IMPORT,
    METHODS,
    TOKEN_HEADERS,
    Guards,
    Head,
    read_head,
    readable_query,
    too_large,
)
from termal.gateway.meters import Meters
from termal.gateway.refusal import JSON, error_headers, error_json
from termal.wire.errors import Internal, InvalidRequest, TermalError
from termal.worker.stats import Stats

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

VISIT = "termal.visit"
"""Key of the scope under which everything inside finds the `Visit`."""
LINGER_BYTES = 64 << 20
LINGER_S = 5.0
"""The rest of a refused body is read and dropped within these bounds: a client that is still sending when its
connection closes would lose the reply to the reset."""
CLIENT_GONE = 499
"""What figures show for a request whose client left before the reply."""
_PREFLIGHT_AGE_S = b"600"


class Journal(Protocol):
    def error(self, event: str, **keys: Any) -> None: ...
    def repeating(self, event: str, **keys: Any) -> None: ...


class Door:
    """Serves ``inner`` behind the guards."""

    def __init__(
        self, inner: Application, guards: Guards, meters: Meters, stats: Stats, log: Journal, *, access: Access
    ) -> None:
        self.inner = inner
        self.guards = guards
        self.access = access
        self.meters = meters
        self.stats = stats
        self.log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await Visit(self, scope, receive, send).run()
        else:
            await self.inner(scope, receive, send)


class Visit:
    """One request on its way in and its reply on the way out."""

    __slots__ = (
        "_body_bytes",
        "_body_ended",
        "_door",
        "_head",
        "_receive",
        "_send",
        "_started_s",
        "code",
        "holder",
        "request_id",
        "route",
        "scope",
        "status",
        "streamed",
        "whole_body",
    )

    def __init__(self, door: Door, scope: Scope, receive: Receive, send: Send) -> None:
        self._door = door
        self._receive = receive
        self._send = send
        # All that a server owes us is something that can be iterated once, and the framework reads it again.
        headers = scope["headers"] = [tuple(pair) for pair in scope["headers"]]
        self._head: Head = read_head(scope["method"], headers, lines=scope["path"] == IMPORT)
        self._body_ended = not self._head.has_body
        self._body_bytes = 0
        self._started_s = time.monotonic()
        self.scope = scope
        self.request_id = os.urandom(16).hex()
        self.route = "none"
        self.code = "ok"
        self.holder = OWNER
        self.status = 0
        self.streamed = False
        self.whole_body: bytes | None = None
        """The body, where all of it came at once; otherwise it is read from the request."""

    async def run(self) -> None:
        meters = self._door.meters
        meters.open_requests += 1
        meters.begun += 1
        try:
            await self._serve()
        finally:
            meters.open_requests -= 1
            self._record()
            # PERF: the two hold each other, and the body with them, until somebody looks for garbage: a tenth of the
            # time of a request.
            self.scope.pop(VISIT, None)
        if not self._body_ended and not self._head.waits:
            await self._linger()

    async def disconnected(self) -> None:
        """Return when the client is gone. To be called once, after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def failed(self, error: Exception) -> TermalError:
        """The reply to ``error``, which no layer foresaw: logged here with its stack, named by the request id only."""
        self._door.log.error(
            "http.failed",
            requestId=self.request_id,
            route=self.route,
            error=repr(error),
            stack="".join(traceback.format_tb(error.__traceback__)),
        )
        return Internal("a fault inside the daemon; its log names it under the request id")

    def refused(self, error: TermalError) -> None:
        """Note how the request ended."""
        self.code = error.code
        if error.status >= 500 and not isinstance(error, Internal):
            self._door.log.repeating(
                "http.refused", requestId=self.request_id, route=self.route, code=error.code, error=error.message
            )

    # ---------------------------------------------------------------- on the way

    async def _serve(self) -> None:
        try:
            self._door.guards.admit(self._head)
            readable_query(self.scope["query_string"])
            if self._head.preflight:
                await self._preflight()
                return
            self.scope[VISIT] = self
            raw_path = self.scope["raw_path"].decode("latin-1")
            self.holder = await self._door.access.admit(
                self._head.authorization, self._head.method, raw_path, self.request_id
            )
            # The route is found by the path as it was sent, and each segment decoded once, so that an encoded slash
            # inside an id stays inside it.
            self.scope["path"] = raw_path
            await self._door.inner(self.scope, self._take, self._give)
        except TermalError as error:
            await self._answer(error)
        except Exception as error:  # noqa: BLE001 - the border to HTTP: our own fault, answered and logged
            await self._answer(self.failed(error))

    async def _take(self) -> Message:
        """The application's ``receive``: counts the body and ends the request where it is too long or breaks off."""
        message = await self._receive()
        if self._body_ended:
            return message
        if message["type"] == "http.disconnect":
            self._body_ended = True
            raise InvalidRequest("the body ended before its announced end", reason="incompleteBody")
        body = message.get("body", b"")
        self._body_ended = not message.get("more_body", False)
        if self._body_ended and not self._body_bytes:
            self.whole_body = body
        self._body_bytes += len(body)
        if self._body_bytes > BODY_BYTES and not self._head.lines:
            raise too_large()
        return message

    async def _give(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], *self._own_headers()]
        await self._send(message)

    def _own_headers(self) -> list[tuple[bytes, bytes]]:
        headers = [
            (b"x-request-id", self.request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
        ]
        if self._head.origin is not None:
            headers += [
                (b"access-control-allow-origin", self._head.origin),
                (b"access-control-expose-headers", b"x-request-id"),
                (b"vary", b"Origin"),
            ]
        return headers

    # ------------------------------------------------------------------- replies

    async def _preflight(self) -> None:
        self.route = "preflight"
        headers = TOKEN_HEADERS if self._door.access.needs_token else HEADERS
        await self._plain(
            200,
            b"",
            [
                (b"access-control-allow-methods", METHODS.encode()),
                (b"access-control-allow-headers", headers.encode()),
                (b"access-control-max-age", _PREFLIGHT_AGE_S),
            ],
        )

    async def _answer(self, error: TermalError) -> None:
        self.refused(error)
        if self.status:
            # The reply is on its way: the server closes the connection, which is all that can be said now.
            return
        if error.reason in ("foreignOrigin", "foreignHost"):
            # No foreign page may read even the refusal.
            self._head = self._head._replace(origin=None)
        headers = [(name.lower().encode(), value.encode()) for name, value in error_headers(error).items()]
        await self._plain(
            error.status, error_json(error, self.request_id), [(b"content-type", JSON.encode()), *headers]
        )

    async def _plain(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        length = (b"content-length", str(len(body)).encode())
        await self._give({"type": "http.response.start", "status": status, "headers": [length, *headers]})
        await self._give({"type": "http.response.body", "body": body})

    async def _linger(self) -> None:
        dropped = 0
        try:
            async with asyncio.timeout(LINGER_S):
                while dropped < LINGER_BYTES:
                    message = await self._receive()
                    dropped += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            pass

    def _record(self) -> None:
        elapsed_s = time.monotonic() - self._started_s
        method = self._head.method if self.route != "none" else "any"
        self._door.meters.request(method, self.route, self.status or CLIENT_GONE, None if self.streamed else elapsed_s)
        if not self.streamed:
            self._door.stats.record(f"{method} {self.route}", self.code, elapsed_s)
