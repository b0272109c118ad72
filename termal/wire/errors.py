"""The error taxonomy of the whole daemon. The gateway maps it to HTTP; nobody else invents statuses.

::

    TermalError
    ├── InvalidRequest      400  invalid_request          never succeeds as it is
    ├── Forbidden           403  forbidden                a guard, a write policy or a token scope says no
    ├── NotFound            404  not_found                no such thing for this caller
    ├── Conflict            409  conflict                 the world moved; ``detail`` says what to reconcile with
    ├── Unprocessable       422  unprocessable            the body does not match the schema
    ├── TooMany             429  too_many                 a cap is in use; later
    ├── NotImplementedYet   501  not_implemented          well-formed, feature-gated
    ├── Busy                503  no_write_committed       proven: nothing was written; repeat the identical request
    │                            no_mutation_attempted    the same, of a read
    │                            original_append_durable  the first attempt is stored; repeat to get its receipt
    ├── OutcomeUnknown      504  outcome_unknown          may have happened; repeat with the same key, or read first
    └── Internal            500  internal                 a fault of ours, logged under the request id

A worker raises (or answers with) one of these; it travels as an `ErrorBody` and is raised again by the caller's side.
"""

from typing import Any, ClassVar, Literal

import msgspec

BusyCode = Literal["no_write_committed", "no_mutation_attempted", "original_append_durable"]


class ErrorBody(msgspec.Struct, frozen=True, array_like=True):
    """An error on the bus. ``status`` is the HTTP status that the gateway will answer."""

    status: int
    code: str
    message: str
    reason: str | None = None
    detail: Any = None


class TermalError(Exception):
    """One failure with a stable code, a sentence for people, and data for programs.

    ``headers`` are extra HTTP headers for the gateway's reply (``Allow``, ``Retry-After``).
    """

    status: ClassVar[int] = 500
    code: str = "internal"
    repeatable: ClassVar[bool] = False

    def __init__(self, message: str, *, reason: str | None = None, detail: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.detail = detail

    def body(self) -> ErrorBody:
        return ErrorBody(self.status, self.code, self.message, self.reason, self.detail)


class InvalidRequest(TermalError):
    status = 400
    code = "invalid_request"


class Forbidden(TermalError):
    status = 403
    code = "forbidden"


class NotFound(TermalError):
    status = 404
    code = "not_found"


class Conflict(TermalError):
    status = 409
    code = "conflict"


class Unprocessable(TermalError):
    status = 422
    code = "unprocessable"


class TooMany(TermalError):
    status = 429
    code = "too_many"
    repeatable = True


class NotImplementedYet(TermalError):
    status = 501
    code = "not_implemented"


class Busy(TermalError):
    """Proven: what the code says. Repeating the identical request is safe."""

    status = 503
    code = "no_write_committed"
    repeatable = True

    def __init__(
        self,
        message: str,
        *,
        code: BusyCode = "no_write_committed",
        reason: str | None = None,
        detail: Any = None,
    ) -> None:
        super().__init__(message, reason=reason, detail=detail)
        self.code = code


class OutcomeUnknown(TermalError):
    """The request may have been carried out. Repeat it with the same idempotency key, or read first."""

    status = 504
    code = "outcome_unknown"


class Internal(TermalError):
    status = 500
    code = "internal"


_BY_STATUS: dict[int, type[TermalError]] = {
    kind.status: kind
    for kind in (
        InvalidRequest,
        Forbidden,
        NotFound,
        Conflict,
        Unprocessable,
        TooMany,
        NotImplementedYet,
        OutcomeUnknown,
        Internal,
    )
}


def error_from(body: ErrorBody) -> TermalError:
    """The exception that an `ErrorBody` stands for; an unknown status becomes `Internal`."""
    if body.status == Busy.status:
        code: BusyCode = "no_write_committed"
        if body.code in ("no_mutation_attempted", "original_append_durable"):
            code = body.code  # type: ignore[assignment]
        return Busy(body.message, code=code, reason=body.reason, detail=body.detail)
    kind = _BY_STATUS.get(body.status, Internal)
    return kind(body.message, reason=body.reason, detail=body.detail)
