"""A failed call as packets for agents tell it: how it failed, and what may be done about it. No I/O."""

from typing import Any, Literal

import msgspec

from termal.client.call import Answer, Call
from termal.client.errors import Failure, Unreachable

FailureKind = Literal["backend-unavailable", "request-failed"]
_GATEWAY_STATUSES = frozenset((502, 503, 504))


class ApiFailed(Exception):
    """One failed call. ``text`` is the daemon's own sentence, or what happened on the way to it.

    ``kind`` is a hint on what to do, no class of statuses. ``restart_required``: the daemon does not know the route, so
    it is of another version; None where nothing was answered. ``may_have_happened``: success or not cannot be told.
    """

    def __init__(
        self,
        text: str,
        *,
        kind: FailureKind,
        status: int | None = None,
        phrase: str = "",
        code: str | None = None,
        reason: str | None = None,
        restart_required: bool | None = None,
        may_have_happened: bool = False,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.kind: FailureKind = kind
        self.status = status
        self.phrase = phrase
        self.code = code
        self.reason = reason
        self.restart_required = restart_required
        self.may_have_happened = may_have_happened


def refused(answer: Answer) -> ApiFailed:
    """What an answer of no success says; the body as it is when it is no JSON of ours."""
    try:
        body = msgspec.json.decode(answer.content, type=Failure)
    except msgspec.MsgspecError:
        return ApiFailed(
            answer.content.decode("utf-8", "replace").strip(),
            kind="backend-unavailable" if answer.status in _GATEWAY_STATUSES else "request-failed",
            status=answer.status,
            phrase=answer.reason,
            restart_required=False,
        )
    return ApiFailed(
        body.error,
        kind="request-failed",
        status=answer.status,
        phrase=answer.reason,
        code=body.code,
        reason=body.reason,
        restart_required=body.reason == "unknownPath",
        may_have_happened=body.code == "outcome_unknown",
    )


def lost(call: Call[Any], error: Unreachable, limit_s: float) -> ApiFailed:
    """What became of a request that got no usable answer."""
    what = {
        "connect": "could not connect",
        "timeout": f"timed out after {limit_s:g} s",
        "transport": "transport failed",
        "unusable": "a successful answer could not be used",
    }[error.trouble]
    unusable = error.trouble == "unusable"
    where = "" if unusable else f" while {error.phase}"
    return ApiFailed(
        f"{call.method} {call.path}: {what}{where}",
        kind="request-failed" if unusable else "backend-unavailable",
        may_have_happened=error.trouble != "connect",
    )
