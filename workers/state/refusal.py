"""What the rules refuse, as the errors of the wire."""

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


def error_of(refused: Refused) -> TermalError:
    return _KINDS.get(type(refused), InvalidRequest)(refused.text, reason=refused.reason)
