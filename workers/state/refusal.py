"""What the rules refuse, as the errors of the wire."""

from termal.rules.verdicts import Missing, Refused, Stale
from termal.wire.errors import Conflict, InvalidRequest, NotFound, TermalError


def error_of(refused: Refused) -> TermalError:
    kind = NotFound if isinstance(refused, Missing) else Conflict if isinstance(refused, Stale) else InvalidRequest
    return kind(refused.text, reason=refused.reason)
