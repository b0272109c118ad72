"""Ends what is kept for a deleted project, in steps small enough for other writes to go between; its fence stays."""

import time

from termal.bus.server import Request
from termal.store.connection import Cursorlike
from termal.wire.coordination_operations import DeleteScope
from termal.wire.errors import Busy, InvalidRequest
from termal.wire.turns import Anything
from workers.coordination.admission import Admission
from workers.coordination.mail_refusal import storage_error

STEP_ROWS = 500
ADMISSION_S = 0.1
"""A step that was not taken up by then is left for the sender's next try."""
ID_BYTES = 256
_HISTORY = (
    "DELETE FROM coordination_board_history WHERE scope_id = ?1 AND (key, revision) IN"
    " (SELECT key, revision FROM coordination_board_history WHERE scope_id = ?1 LIMIT ?2)"
)
_RECEIPTS = (
    "DELETE FROM coordination_board_idempotency WHERE scope_id = ?1 AND (author_session_id, idempotency_key) IN"
    " (SELECT author_session_id, idempotency_key FROM coordination_board_idempotency WHERE scope_id = ?1 LIMIT ?2)"
)
_ENTRIES = (
    "DELETE FROM coordination_board_entries WHERE scope_id = ?1 AND key IN"
    " (SELECT key FROM coordination_board_entries WHERE scope_id = ?1 LIMIT ?2)"
)
_SLICES = (_HISTORY, _RECEIPTS, _ENTRIES)


class Scopes:
    """``line`` is the number of the writer's connection that is kept for boards."""

    def __init__(self, admission: Admission, *, line: int) -> None:
        self._admission = admission
        self._line = line
        self._stopping = False

    def stop(self) -> None:
        """The process ends: no new step starts."""
        self._stopping = True

    def delete(self, request: Request, body: DeleteScope) -> None:
        """The handler of ``scope.delete``: answered when nothing of the scope is left. Safe to repeat."""
        if not 0 < len(body.scope_id.encode()) <= ID_BYTES:
            raise InvalidRequest(f"a scope id has 1 to {ID_BYTES} bytes")
        self._step(request, body.scope_id)

    def _step(self, request: Request, scope_id: str) -> None:
        if self._stopping:
            request.refuse(Busy("the daemon is stopping; the rest of the scope goes later", reason="stopping"))
            return

        def done(more: bool | None, error: Exception | None) -> None:
            if error is not None:
                request.refuse(storage_error(error, "a step of the deletion failed"))
            elif more:
                self._step(request, scope_id)
            else:
                request.reply(Anything())

        self._admission.submit(
            lambda connection: delete_step(connection, scope_id),
            done,
            deadline_s=time.monotonic() + ADMISSION_S,
            line=self._line,
        )


def delete_step(connection: Cursorlike, scope_id: str) -> bool:
    """The fence, and one slice of what is left; whether there may be more."""
    connection.execute(
        "INSERT OR IGNORE INTO coordination_board_deleted_scopes (scope_id, deleted_at)"
        " VALUES (?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))",
        (scope_id,),
    )
    for slice_of_rows in _SLICES:
        connection.execute(slice_of_rows, (scope_id, STEP_ROWS))
        if connection.execute("SELECT changes()").get:
            return True
    connection.execute("DELETE FROM coordination_board_scopes WHERE scope_id = ?", (scope_id,))
    return False
