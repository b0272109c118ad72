"""How a call fails: the daemon's own errors from their bodies, and `Unreachable`. Imports no HTTP library."""

from typing import Any, Literal

import msgspec

from termal.model.message import Record
from termal.wire.errors import ErrorBody, InvalidRequest, TermalError, error_from

Trouble = Literal["connect", "timeout", "transport", "unusable"]
"""``connect``: nothing was sent. ``unusable``: an answer of success that cannot be read as what it should be."""
Phase = Literal["sending", "reading body"]


class Unreachable(Exception):
    """No daemon answers: refused, dropped or silent. The text names the address and what happened.

    With any ``trouble`` but ``connect`` the request may have been carried out.
    """

    def __init__(self, message: str, *, trouble: Trouble = "connect", phase: Phase = "sending") -> None:
        super().__init__(message)
        self.trouble = trouble
        self.phase = phase


class Failure(Record, frozen=True):
    """The body of every error."""

    error: str
    code: str
    request_id: str = ""
    reason: str | None = None
    detail: Any = None


def error_of(status: int, content: bytes) -> TermalError:
    """The error that a reply stands for; its note names the request, under which the daemon's logs have the rest."""
    try:
        body = msgspec.json.decode(content, type=Failure)
    except msgspec.MsgspecError:
        body = Failure(error=f"status {status} without an error body", code="internal")
    if body.code == InvalidRequest.code:
        # 405, 413 and 415 carry this code too: one kind for all that can never succeed as it is.
        error: TermalError = InvalidRequest(body.error, reason=body.reason, detail=body.detail)
    else:
        error = error_from(ErrorBody(status, body.code, body.error, body.reason, body.detail))
    if body.request_id:
        error.add_note(f"request {body.request_id}")
    return error
