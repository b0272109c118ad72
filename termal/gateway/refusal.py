"""The errors that only HTTP knows, and the one place where any error becomes the bytes and headers of a reply."""

from typing import Any

from termal.wire.codec import encode_json
from termal.wire.errors import InvalidRequest, TermalError

JSON = "application/json"
RETRY_AFTER_S = "1"


class MethodNotAllowed(InvalidRequest):
    """``allow`` is the value of the reply's ``Allow`` header."""

    status = 405

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message, reason="methodNotAllowed")
        self.allow = allow


class BodyTooLarge(InvalidRequest):
    status = 413


class NotJson(InvalidRequest):
    status = 415


def error_json(error: TermalError, request_id: str) -> bytes:
    """The body of every error reply; ``reason`` and ``detail`` are left out when there is none."""
    body: dict[str, Any] = {"error": error.message, "code": error.code}
    if error.reason is not None:
        body["reason"] = error.reason
    if error.detail is not None:
        body["detail"] = error.detail
    body["requestId"] = request_id
    return encode_json(body)


def error_headers(error: TermalError) -> dict[str, str]:
    """Headers beside content type and length."""
    if isinstance(error, MethodNotAllowed):
        return {"Allow": error.allow}
    return {"Retry-After": RETRY_AFTER_S} if error.repeatable else {}
