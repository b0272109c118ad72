"""Which error of the wire each kind of refusal by the rules stands for: one table for every worker."""

from termal.rules.verdicts import Barred, Malformed, Missing, Refused, Stale, Unbuilt
from termal.wire.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    NotImplementedYet,
    TermalError,
    Unprocessable,
)

_KINDS: dict[type[Refused], type[TermalError]] = {
    Barred: Forbidden,
    Malformed: Unprocessable,
    Missing: NotFound,
    Stale: Conflict,
    Unbuilt: NotImplementedYet,
}


def error_of(refused: Refused | TermalError) -> TermalError:
    """The error of a refusal; what is an error of the wire already goes through as it is."""
    if isinstance(refused, TermalError):
        return refused
    return _KINDS.get(type(refused), InvalidRequest)(refused.text, reason=refused.reason)
