"""The errors that only HTTP knows, and the one place where any error becomes the bytes and headers of a reply."""

from typing import Any

from msgspec import UNSET, UnsetType

from termal.model.message import Record
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


class ErrorReply(Record, frozen=True, kw_only=True):
    """The body of every error reply: ``error`` is a sentence for people, ``code`` and ``reason`` are for programs."""

    error: str
    code: str
    reason: str | UnsetType = UNSET
    detail: Any = UNSET
    request_id: str


def error_json(error: TermalError, request_id: str) -> bytes:
    """The body of the reply to ``error``; ``reason`` and ``detail`` are left out when there is none."""
    return encode_json(
        ErrorReply(
            error=error.message,
            code=error.code,
            reason=UNSET if error.reason is None else error.reason,
            detail=UNSET if error.detail is None else error.detail,
            request_id=request_id,
        )
    )


def error_headers(error: TermalError) -> dict[str, str]:
    """Headers beside content type and length."""
    if isinstance(error, MethodNotAllowed):
        return {"Allow": error.allow}
    return {"Retry-After": RETRY_AFTER_S} if error.repeatable else {}
