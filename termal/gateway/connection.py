"""One HTTP connection: gunicorn's protocol with a cap on their number, a limit for a silent start, and our errors."""

import asyncio
import uuid
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from gunicorn.asgi.protocol import ASGIProtocol

from termal.gateway.refusal import JSON, RETRY_AFTER_S, error_json
from termal.wire.errors import Busy, Internal, InvalidRequest, TermalError

EVENTS = "/api/events"
FIRST_REQUEST_S = 10.0
"""For the head of the first request. Later ones have the keep-alive time."""
_SERVER_FAULT = 500


class Connection(ASGIProtocol):  # type: ignore[misc]  # gunicorn has no types
    """``worker.connections`` holds those that were let in."""

    def __init__(self, worker: Any) -> None:
        super().__init__(worker)
        self._let_in = False
        self._first_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        if len(self.worker.connections) >= self.worker.worker_connections:
            busy = Busy("too many connections are open; nothing was read", reason="connections")
            transport.write(_raw_reply(busy, "Service Unavailable", f"Retry-After: {RETRY_AFTER_S}\r\n"))
            transport.close()
            return
        self._let_in = True
        self.worker.connections.add(self)
        super().connection_made(transport)
        self._first_due = self.worker.loop.call_later(FIRST_REQUEST_S, self._end_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._let_in:
            return
        self.worker.connections.discard(self)
        if self._first_due is not None:
            self._first_due.cancel()
        super().connection_lost(exc)

    @property
    def idle(self) -> bool:
        """Waits for a request, and no earlier one is still at work."""
        return bool(self._awaiting_request) and not self._finishing_calls

    @property
    def stalled_stream(self) -> bool:
        """An event stream whose client does not read what was sent to it."""
        request, flow = self._current_request, self._flow_control
        return request is not None and request.path == EVENTS and flow is not None and bool(flow.write_paused)

    def end(self) -> None:
        """Close it in order; for one that is `idle`."""
        self._keepalive_timeout()

    def cut(self) -> None:
        """Close it at once, whatever waits to be sent."""
        if self.transport is not None:
            self.transport.abort()

    def _send_error_response(self, status: int, message: str, extra_headers: Iterable[tuple[str, str]] = ()) -> None:
        """gunicorn's answer to what it could not read as a request, in the form of every other error."""
        error = InvalidRequest(message, reason="http") if status < _SERVER_FAULT else Internal("the request failed")
        more = "".join(f"{name}: {value}\r\n" for name, value in extra_headers)
        self._safe_write(_raw_reply(error, HTTPStatus(status).phrase, more, status))

    def _end_if_silent(self) -> None:
        if self.req_count <= 1 and self.idle:
            self.end()


def _raw_reply(error: TermalError, phrase: str, more: str, status: int | None = None) -> bytes:
    request_id = uuid.uuid4().hex
    body = error_json(error, request_id)
    head = (
        f"HTTP/1.1 {status or error.status} {phrase}\r\n"
        f"Content-Type: {JSON}\r\nContent-Length: {len(body)}\r\nX-Request-Id: {request_id}\r\n"
        f"{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body
