"""The operations of boards: who asks is found out first, then what is asked is checked, then it is read or written.

Belongs to the loop's thread. A write has its place in the writer's line; a read has a connection of its own.
"""

from collections.abc import Callable
from typing import Any

from termal.bus.server import Handler, Request
from termal.log import Log
from termal.rules.board_field import author_name, check_page, checked_key, checked_text
from termal.rules.board_scope import board_of
from termal.rules.board_value import MOST_BYTES, checked_value, read_value, too_large
from termal.rules.board_write import intent_hash
from termal.rules.verdicts import Bad, Refused
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.wire.board_operations import BOARD_GET, BOARD_LIST, BOARD_SET, ReadBoard, ReadBoardKey, SetBoardKey
from termal.wire.errors import Busy, TermalError
from termal.wire.session_operations import Eligibility
from termal.wire.turns import JsonReply
from termal.wire.verdict_errors import error_of
from workers.coordination.admission import Admission
from workers.coordination.board_rows import PageAsked, read_entry, read_page
from workers.coordination.board_store import BoardStore, Intent
from workers.coordination.mail_desk import limit_of
from workers.coordination.mail_parties import Parties
from workers.coordination.mail_refusal import storage_error

TEXT_BYTES = 16 * MOST_BYTES
"""Of a value as it comes. Whoever sends more has not taken its white space out, or is over the limit anyway."""
_ABSENT = object()

Found = Callable[[str, Eligibility], None]
"""Gets the scope of a session, and what state knows of it."""


class Boards:
    """``line`` is the number of the writer's connection that is kept for boards."""

    def __init__(
        self,
        parties: Parties,
        admission: Admission,
        reading: Callable[[], Reader],
        *,
        line: int,
        log: Log,
    ) -> None:
        self.store = BoardStore()
        self._parties = parties
        self._admission = admission
        self._reading = reading
        self._line = line
        self._log = log

    def handlers(self) -> dict[str, Handler]:
        return {BOARD_LIST.name: self.page, BOARD_GET.name: self.get, BOARD_SET.name: self.set}

    def page(self, request: Request, body: ReadBoard) -> None:
        def found(scope_id: str, _: Eligibility) -> None:
            check_page(body.after_key, body.limit, body.snapshot_generation, body.known_generation)
            asked = PageAsked(scope_id, body.after_key, body.limit, body.snapshot_generation, body.known_generation)
            self._read(request, lambda connection: read_page(connection, asked))

        self._find(request, body.session_id, found)

    def get(self, request: Request, body: ReadBoardKey) -> None:
        def found(scope_id: str, _: Eligibility) -> None:
            key = checked_key(body.key)
            self._read(request, lambda connection: read_entry(connection, scope_id, key))

        self._find(request, body.session_id, found)

    def set(self, request: Request, body: SetBoardKey) -> None:
        # Whether it is JSON at all is a matter of its form, and comes before the question who asks.
        value = _value(body.value)

        def found(scope_id: str, caller: Eligibility) -> None:
            intent = _intent(scope_id, caller, body, value)
            self._admission.submit(
                lambda connection: self.store.write(connection, intent),
                lambda written, error: self._end(request, written, error),
                deadline_s=limit_of(request),
                line=self._line,
            )

        self._find(request, body.session_id, found)

    # ----------------------------------------------------------------- on the way

    def _find(self, request: Request, session_id: str, found: Found) -> None:
        def known(answers: list[Eligibility] | None, error: TermalError | None) -> None:
            if not answers:
                self._end(request, None, _unasked(request, error))
                return
            [caller] = answers
            try:
                found(board_of(caller.verdict, caller.project_id, caller.project_kind), caller)
            except Refused as refused:
                request.refuse(error_of(refused))

        self._parties.ask([session_id], limit_of(request), known)

    def _read(self, request: Request, job: Callable[[Cursorlike], bytes]) -> None:
        def done(page: bytes | None, error: Exception | None) -> None:
            self._end(request, None if page is None else JsonReply(page), error)

        self._reading().submit(job, done, deadline_s=limit_of(request))

    def _end(self, request: Request, result: object, error: Exception | None) -> None:
        """Answer with what a job gave: its result, an error that it found, or why it did not run."""
        if isinstance(result, TermalError):
            error = result
        if error is None:
            request.reply(result)
            return
        if not isinstance(error, TermalError):
            self._log.error("board.failed", operation=request.op.name, requestId=request.trace, error=repr(error))
        request.refuse(storage_error(error, "the board could not be read or written"))


def _value(text: bytes | None) -> Any:
    """Raises `Unprocessable`. A value beyond every limit is not even read: it is in the way of all others."""
    if text is None:
        return _ABSENT
    if len(text) > TEXT_BYTES:
        return text
    try:
        return read_value(text)
    except Refused as refused:
        raise error_of(refused) from refused


def _intent(scope_id: str, caller: Eligibility, body: SetBoardKey, value: Any) -> Intent:
    """The write that is asked for. Raises `Bad`, for the first of its faults."""
    if body.delete == (value is not _ABSENT):
        raise Bad("either a value is set, or delete is true and there is no value", reason="valueOrDelete")
    checked_key(body.key)
    author_id = checked_text(caller.session_id, "the id of the session")
    checked_text(body.idempotency_key, "idempotencyKey")
    if body.state_stamp is not None:
        checked_text(body.state_stamp, "stateStamp")
    canonical = None if body.delete else _canonical(value)
    return Intent(
        scope_id=scope_id,
        key=body.key,
        expected_revision=body.expected_revision,
        idempotency_key=body.idempotency_key,
        value=canonical,
        state_stamp=body.state_stamp,
        author_id=author_id,
        author_name=author_name(caller.name),
        request_hash=intent_hash(scope_id, body.key, body.expected_revision, canonical, body.state_stamp),
    )


def _canonical(value: Any) -> bytes:
    if isinstance(value, bytes):
        raise too_large(len(value))
    return checked_value(value)


def _unasked(request: Request, error: TermalError | None) -> TermalError:
    """State could not be asked: said of the request that needed its answer."""
    if error is not None and not isinstance(error, Busy):
        return error
    text = "the session cannot be looked up at the moment"
    if request.op.kind == "read":
        return Busy(text, code="no_mutation_attempted", reason="stateAway")
    return Busy(f"{text}; nothing was written", reason="stateAway")
