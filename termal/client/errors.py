"""How a call fails: the daemon's own errors from their bodies, and `Unreachable`. Imports no HTTP library."""

import msgspec

from termal.client.replies import Failure
from termal.wire.errors import ErrorBody, InvalidRequest, TermalError, error_from


class Unreachable(Exception):
    """No daemon answers: refused, dropped or silent. The text names the address and what happened."""


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
