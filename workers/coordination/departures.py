"""Sessions that were deleted on purpose leave their mailboxes: said by state until it is confirmed, done once."""

from collections.abc import Callable

from termal.bus.server import Request
from termal.store.connection import Cursorlike
from termal.store.writer import Writer
from termal.wire.mail_operations import Depart
from termal.wire.turns import Anything
from workers.coordination.left_at import depart
from workers.coordination.mail_refusal import storage_error


class Departures:
    """``forget`` runs inside the writer's job where it changed participants; ``gone`` gets those that left."""

    def __init__(
        self, writing: Callable[[], Writer], *, forget: Callable[[], None], gone: Callable[[set[str]], None]
    ) -> None:
        self._writing = writing
        self._forget = forget
        self._gone = gone

    def depart(self, request: Request, body: Depart) -> None:
        """The handler of ``session.depart``. Safe to repeat: an earlier departure is never overwritten."""

        def write(connection: Cursorlike) -> set[str]:
            gone = depart(connection, body.session_ids, body.at)
            if gone:
                self._forget()
            return gone

        def written(gone: set[str] | None, error: Exception | None) -> None:
            if error is not None:
                request.refuse(storage_error(error))
                return
            if gone:
                self._gone(gone)
            request.reply(Anything())

        self._writing().submit(write, written)
