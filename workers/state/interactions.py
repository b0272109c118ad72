"""Requests of an agent that wait for a person: shown as messages, answered once, gone when the agent withdraws them."""

from msgspec.structs import replace

from termal.bus.server import Request
from termal.model.message import Approval, Message
from termal.model.stored import StoredOption
from termal.rules import wording
from termal.rules.closing import is_pending
from termal.rules.preview import preview_of
from termal.rules.settings import is_acp
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.wire.errors import Conflict, Internal, InvalidRequest, NotFound, TermalError, Unprocessable
from termal.wire.operations import INTERACTION_ANSWER, AnswerApproval, AnswerInteraction
from termal.wire.turns import Anything, ApprovalAsked, ApprovalWithdrawn, JsonReply
from workers.state.change import Book
from workers.state.clock import now_text
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord
from workers.state.turn import OpenRequest, Turn

_ANSWERS = ("accepted", "acceptedForSession", "rejected")
_OURS = ("pending", "interrupted", "canceled")
_ANSWER_S = 0.3
"""Kept of a request's deadline for the reply that the agent did not take the answer."""


class Interactions:
    def __init__(self, book: Book, runtimes: Runtimes, reader: Reader) -> None:
        self._book = book
        self._runtimes = runtimes
        self._reader = reader

    # ------------------------------------------------------------------ from agents

    def asked(self, record: SessionRecord, turn: Turn, event: ApprovalAsked) -> None:
        identity = self._book.registry.new_message_id()
        options = [StoredOption(id=option.id, decision=option.decision) for option in event.options]
        message = Approval(
            id=identity,
            timestamp=now_text(),
            author="assistant",
            title=event.title,
            command=event.command,
            command_language="bash",
            detail=event.detail,
            decision="pending",
        )
        if is_acp(record.agent):
            message = replace(message, supported_decisions=list(dict.fromkeys(o.decision for o in options)))
        turn.requests[event.request] = OpenRequest(event.request, identity, options)
        record.status = "approval"
        change = self._book.change()
        change.append(record, message)
        change.commit()

    def withdrawn(self, record: SessionRecord, turn: Turn, event: ApprovalWithdrawn) -> None:
        request = turn.requests.get(event.request)
        if request is not None:
            self._settled(record, turn, request, "canceled")

    # ----------------------------------------------------------------- from clients

    def answer(self, request: Request, body: AnswerApproval) -> None:
        """The handler of ``approval.answer``: consumed only after the agent's worker took it."""
        if body.decision in _OURS:
            raise InvalidRequest(f"only TermAl itself sets the decision {body.decision!r}")
        if body.decision not in _ANSWERS:
            raise Unprocessable(f"decision must be one of {', '.join(_ANSWERS)}")
        record = self._book.registry.find(body.session_id)
        position = record.positions.get(body.message_id)
        if position is None:
            self._old(request, body)
            return
        message = record.at(position)
        if not isinstance(message, Approval):
            raise NotFound("there is no such approval")
        turn, open_request, option = self._live(record, message, body.decision)
        open_request.answering = True

        def done(_: Anything | None, error: TermalError | None) -> None:
            open_request.answering = False
            if error is not None:
                gone = isinstance(error, Conflict | NotFound)
                request.refuse(_not_live() if gone else Internal(f"the agent did not take it: {error.message}"))
            elif record.turn is not turn or turn.requests.get(open_request.request) is not open_request:
                request.refuse(_not_live())
            else:
                self._settled(record, turn, open_request, body.decision)
                reply = JsonReply(self._book.projections.state(record))
                self._book.journal.after(lambda: request.reply(reply))

        answer = AnswerInteraction(record.id, turn.id, open_request.request, option)
        deadline_s = None if request.deadline_s is None else request.deadline_s - _ANSWER_S
        client = self._runtimes.client(turn.worker)
        client.call(INTERACTION_ANSWER, answer, done, trace=request.trace, deadline_s=deadline_s)

    def _old(self, request: Request, body: AnswerApproval) -> None:
        """The message is not in memory, so it is not live; unknown and expired are different answers."""

        def exists(connection: Cursorlike) -> bool:
            row = connection.execute(
                "SELECT 1 FROM messages WHERE session_id = ? AND message_id = ?", (body.session_id, body.message_id)
            ).fetchone()
            return row is not None

        def done(found: bool | None, error: Exception | None) -> None:
            if error is not None:
                request.refuse(error if isinstance(error, TermalError) else Internal("the transcript cannot be read"))
            else:
                request.refuse(_not_live() if found else NotFound("there is no such approval"))

        self._reader.submit(exists, done, deadline_s=request.deadline_s)

    @staticmethod
    def _live(record: SessionRecord, message: Approval, decision: str) -> tuple[Turn, OpenRequest, str]:
        """Raises `Conflict` where no agent waits for this answer."""
        turn = record.turn
        if turn is None or record.status != "approval" or not is_pending(message):
            raise _not_live()
        waiting = [request for request in turn.requests.values() if request.message_id == message.id]
        if not waiting or waiting[0].answering or turn.phase != "running":
            raise _not_live()
        if record.agent == "OpenCode" and next(iter(turn.requests.values())) is not waiting[0]:
            raise Conflict("an earlier request is open; OpenCode wants its answers in order", reason="outOfOrder")
        option = waiting[0].option_for(decision)
        if option is None:
            raise Conflict(f"the agent did not offer {decision!r} for this request", reason="notOffered")
        return turn, waiting[0], option

    # ------------------------------------------------------------------------- both

    def _settled(self, record: SessionRecord, turn: Turn, request: OpenRequest, decision: str) -> None:
        """The request is no longer open: message, status and preview say so in one commit."""
        del turn.requests[request.request]
        position = record.positions.get(request.message_id)
        change = self._book.change()
        if position is not None:
            message = record.at(position)
            if isinstance(message, Approval):
                change.update(record, position, replace(message, decision=decision), preview=False)
        newest = self._newest_open(record, turn)
        if newest is not None:
            record.preview = preview_of(newest) or record.preview
        else:
            record.status = "active"
            record.preview = wording.decided(decision, record.agent, goes_on=True)
        change.commit()

    @staticmethod
    def _newest_open(record: SessionRecord, turn: Turn) -> Message | None:
        positions = [record.positions.get(request.message_id) for request in turn.requests.values()]
        known = [position for position in positions if position is not None]
        return record.at(max(known)) if known else None


def _not_live() -> Conflict:
    return Conflict("this request is no longer live", reason="notLive")
