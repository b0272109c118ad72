"""What storage refuses, as the errors of the wire."""

from termal.wire.errors import Busy, Internal, TermalError


def storage_error(error: Exception | None, text: str = "the database could not do this") -> TermalError:
    """The end of a database job: the store's own word where it has one (locked, late), else a fault of ours."""
    return error if isinstance(error, TermalError) else Internal(text, reason="storage")


def nothing_written(error: TermalError) -> TermalError:
    """A question that went unanswered, said of the write that needed the answer."""
    if isinstance(error, Busy) and error.code == "no_mutation_attempted":
        return Busy(f"{error.message}; nothing was written", reason=error.reason, detail=error.detail)
    return error
