"""What rules and storage refuse, as the errors of the wire."""

from termal.rules.verdicts import Missing, Refused, Stale
from termal.wire.errors import Busy, Conflict, Internal, InvalidRequest, NotFound, TermalError

_KINDS: dict[type[Refused], type[TermalError]] = {Missing: NotFound, Stale: Conflict}


def error_of(refused: Refused) -> TermalError:
    return _KINDS.get(type(refused), InvalidRequest)(refused.text, reason=refused.reason)


def storage_error(error: Exception | None) -> TermalError:
    """The end of a database job: the store's own word where it has one (locked, late), else a fault of ours."""
    return error if isinstance(error, TermalError) else Internal("the database could not do this", reason="storage")


def nothing_written(error: TermalError) -> TermalError:
    """A question that went unanswered, said of the write that needed the answer."""
    if isinstance(error, Busy) and error.code == "no_mutation_attempted":
        return Busy(f"{error.message}; nothing was written", reason=error.reason, detail=error.detail)
    return error
