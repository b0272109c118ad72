"""How a command on mail or delegations ends when the daemon refuses: what a script branches on has codes of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from termal.cli.console import EXIT_AGAIN, EXIT_CONFLICT, EXIT_FAILED, EXIT_NOT_THERE, fail, say_json
from termal.wire.errors import Busy, Conflict, NotFound, OutcomeUnknown, TermalError


@contextmanager
def told(as_json: bool, *, key: str | None = None) -> Iterator[None]:
    """Ends the command for every `TermalError`. ``key``: with what the request can be sent again."""
    try:
        yield
    except TermalError as error:
        again = key is not None and isinstance(error, Busy | OutcomeUnknown)
        body = {"error": error.message, "code": error.code, "reason": error.reason}
        if as_json:
            say_json({**body, "idempotencyKey": key} if again else body)
        fail(f"{error.message} (repeat it with --key {key})" if again else error.message, _code_of(error))


def _code_of(error: TermalError) -> int:
    if isinstance(error, NotFound):
        return EXIT_NOT_THERE
    if isinstance(error, Conflict):
        return EXIT_CONFLICT
    return EXIT_AGAIN if isinstance(error, Busy | OutcomeUnknown) else EXIT_FAILED
