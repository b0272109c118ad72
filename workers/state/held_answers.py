"""What a session's mode allows by itself, held while a read-only delegation looks at the session's directory.

Such a request is shown like any other, and a person may refuse it meanwhile. The mode's answer is given as soon as
nothing is locked any more, unless the session has got another mode by then.
"""

from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from termal.bus.server import Request
from termal.model.message import Approval, ElicitationRequest
from termal.rules import wording
from termal.rules.settings import answers_by_itself
from termal.wire.errors import Conflict, TermalError
from termal.wire.session_operations import OneSession, WriteLock
from termal.wire.turns import ApprovalAsked, ElicitationAsked
from workers.state.open_requests import Answer, Asked, OpenRequests
from workers.state.session_record import SessionRecord
from workers.state.turn import OpenRequest
from workers.state.write_lock import check_may_write, may_write


def detail_of(event: ApprovalAsked | ElicitationAsked) -> str:
    """What the card of ``event`` says; also why it is shown at all where the mode would have answered."""
    return "\n".join(text for text in (event.detail, wording.HELD if event.by_mode else "") if text)


class HeldAnswers:
    def __init__(self, requests: OpenRequests) -> None:
        self._requests = requests
        self._book = requests.book

    def read(self, request: Request, body: OneSession) -> None:
        """The handler of ``lock.read``."""
        record = self._book.registry.find(body.session_id)
        request.reply(WriteLock(locked=not may_write(self._book.registry, record)))

    def lifted(self) -> None:
        """A lock is gone, or nobody knows what was locked when the requests came."""
        for record in list(self._book.registry.sessions.values()):
            if record.status == "approval":
                self.look(record)

    def look(self, record: SessionRecord) -> None:
        """Give the answers of ``record``'s mode that nothing holds up any more."""
        held = [] if record.turn is None else [one for one in record.turn.requests.values() if one.by_mode]
        if not held or record.removed or not answers_by_itself(record.session):
            return
        if may_write(self._book.registry, record):
            for request in held:
                self._answer(record, request)

    def _answer(self, record: SessionRecord, request: OpenRequest) -> None:
        position = record.positions.get(request.message_id)
        message = None if position is None else record.at(position)
        try:
            if isinstance(message, Approval):
                self._requests.answer(_ByMode(), record.id, message.id, Approval, self._allowed)
            elif isinstance(message, ElicitationRequest):
                self._requests.answer(_ByMode(), record.id, message.id, ElicitationRequest, self._taken)
        except TermalError:
            # Somebody's answer is on its way, or the turn is being stopped: nothing waits for this one any more.
            return

    def _allowed(self, asked: Asked[Approval]) -> Answer:
        self._check(asked.record)
        return Answer(asked.request.by_mode, None, replace(asked.message, decision="accepted"), "accepted")

    def _taken(self, asked: Asked[ElicitationRequest]) -> Answer:
        self._check(asked.record)
        content: dict[str, Any] | UnsetType = {} if asked.message.request.get("mode") == "form" else UNSET
        message = replace(asked.message, state="submitted", submitted_action="accept", submitted_content=content)
        return Answer(asked.request.by_mode, None, message, "submitted")

    def _check(self, record: SessionRecord) -> None:
        """Raises what holds the answer up: after a restart it is decided on long after it was begun."""
        if not answers_by_itself(record.session):
            raise Conflict("the session's mode does not allow it by itself any more", reason="notByMode")
        check_may_write(self._book.registry, record)


class _ByMode:
    """Stands in for the request of a person."""

    deadline_s: float | None = None
    trace = ""

    def reply(self, value: object) -> None:
        """The transcript says it."""

    def refuse(self, error: TermalError) -> None:
        """The request stays open, for a person or the next look, or it is withdrawn."""
