"""A limit on the time of statements that read: checked while SQLite works, so that no query holds a reader's thread."""

import contextlib
import time
from collections.abc import Iterator

import apsw

from termal.store.connection import Cursorlike
from termal.wire.errors import Busy

_STEPS = 2000
"""Of SQLite's machine between two looks at the clock: well below a millisecond."""


@contextlib.contextmanager
def time_limit(connection: Cursorlike, limit_s: float) -> Iterator[None]:
    """Raises `Busy` (``no_mutation_attempted``) once what runs inside has taken longer than ``limit_s``."""
    end_s = time.monotonic() + limit_s
    connection.set_progress_handler(lambda: time.monotonic() > end_s, _STEPS)
    try:
        yield
    except apsw.InterruptError as error:
        raise Busy("this takes too long: ask for less", code="no_mutation_attempted", reason="timeLimit") from error
    finally:
        connection.set_progress_handler(None)
