"""Requests of an agent that wait for a person: shown as messages, answered once, gone when the agent withdraws them."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from termal.model.message import Approval, CodexAppRequest, ElicitationRequest, Message, UserInputRequest
from termal.model.stored import StoredOption
from termal.rules import wording
from termal.rules.closing import closed, is_pending
from termal.rules.preview import preview_of
from termal.rules.verdicts import Refused
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.wire.errors import Conflict, Internal, NotFound, TermalError
from termal.wire.runtime_operations import INTERACTION_ANSWER, AnswerInteraction
from termal.wire.turns import Anything, JsonReply
from termal.wire.verdict_errors import error_of
from workers.state.change import Book, Change
from workers.state.clock import sooner
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord
from workers.state.turn import OpenRequest, Turn

_ANSWER_S = 0.3
"""Kept of a request's deadline for the reply that the agent did not take the answer."""

MessageT = TypeVar("MessageT", Approval, UserInputRequest, ElicitationRequest, CodexAppRequest)


class Answer(NamedTuple):
    """What the agent gets, the message as it stands once the agent took that, and the word for it in the preview."""

    option: str
    payload: bytes | None
    message: Message
    word: str


class Answering(Protocol):
    """Who answers: a person's request, or the session's mode."""

    deadline_s: float | None
    trace: str

    def reply(self, value: object) -> None: ...

    def refuse(self, error: TermalError) -> None: ...


class Asked(NamedTuple, Generic[MessageT]):
    """A request that is open."""

    record: SessionRecord
    message: MessageT
    request: OpenRequest


class OpenRequests:
    def __init__(self, book: Book, runtimes: Runtimes, reader: Reader) -> None:
        self.book = book
        self._runtimes = runtimes
        self._reader = reader
        self.on_changed: list[Callable[[Change, SessionRecord], None]] = []
        """Run within the commit in which a session begins or ceases to wait for a person."""

    def show(
        self,
        record: SessionRecord,
        turn: Turn,
        request: str,
        message: Message,
        options: Sequence[StoredOption] = (),
        *,
        own_tool: bool = False,
        by_mode: str = "",
    ) -> None:
        """The agent waits: ``message`` shows it."""
        turn.requests[request] = OpenRequest(request, message.id, list(options), own_tool=own_tool, by_mode=by_mode)
        record.status = "approval"
        change = self.book.change()
        change.append(record, message)
        self._changed(change, record)
        change.commit()

    def withdraw(self, record: SessionRecord, turn: Turn, request: str) -> None:
        known = turn.requests.get(request)
        if known is None:
            return
        position = record.positions.get(known.message_id)
        message = closed(record.at(position), "ended") if position is not None else None
        self._settle(record, turn, known, message, "canceled")

    def answer(
        self,
        request: Answering,
        session_id: str,
        message_id: str,
        kind: type[MessageT],
        decide: Callable[[Asked[MessageT]], Answer],
    ) -> None:
        """Answer one request; consumed only after the agent's worker took it. ``decide`` raises what it refuses."""
        record = self.book.registry.find(session_id)
        turn = record.turn
        if turn is None or turn.phase != "held":
            self._answer(request, record, message_id, kind, decide)
            return

        def known(_: TermalError | None) -> None:
            try:
                self._answer(request, record, message_id, kind, decide)
            except (Refused, TermalError) as refused:
                request.refuse(error_of(refused))

        # After a restart of this worker alone: whether the agent still waits is known in a moment.
        turn.on_taken.append(known)

    def _answer(
        self,
        request: Answering,
        record: SessionRecord,
        message_id: str,
        kind: type[MessageT],
        decide: Callable[[Asked[MessageT]], Answer],
    ) -> None:
        position = record.positions.get(message_id)
        if position is None:
            self._old(request, record.id, message_id)
            return
        message = record.at(position)
        if not isinstance(message, kind):
            raise _unknown()
        turn, waiting = self._live(record, message)
        answer = decide(Asked(record, message, waiting))
        waiting.answering = True
        before = (record.count, record.preview)

        def done(_: Anything | None, error: TermalError | None) -> None:
            waiting.answering = False
            if record.turn is not turn or turn.phase == "ended" or turn.requests.get(waiting.request) is not waiting:
                self._late(request, record, waiting, answer.message if error is None else None)
            elif isinstance(error, Conflict | NotFound):
                # Its worker knows better: without this the session would wait for a person until its turn ends.
                self.withdraw(record, turn, waiting.request)
                request.refuse(_not_live())
            elif error is not None:
                request.refuse(Internal(f"the agent did not take it: {error.message}"))
            else:
                # The agent may have gone on before its worker's word is here: what it said since then is newer.
                gone_on = (record.count, record.preview) != before
                self._settle(record, turn, waiting, answer.message, None if gone_on else answer.word)
                reply = JsonReply(self.book.projections.state(record))
                self.book.journal.after(lambda: request.reply(reply))

        told = AnswerInteraction(record.id, turn.id, waiting.request, answer.option, answer.payload)
        deadline_s = sooner(request.deadline_s, _ANSWER_S)
        client = self._runtimes.client(turn.worker)
        client.call(INTERACTION_ANSWER, told, done, trace=request.trace, deadline_s=deadline_s)

    def _late(self, request: Answering, record: SessionRecord, waiting: OpenRequest, message: Message | None) -> None:
        """The turn was over before its worker said that the agent took the answer: ``message`` stands, nothing else."""
        position = record.positions.get(waiting.message_id)
        if message is None or position is None or record.removed:
            request.refuse(_not_live())
            return
        change = self.book.change()
        change.update(record, position, message, preview=False)
        change.commit()
        reply = JsonReply(self.book.projections.state(record))
        self.book.journal.after(lambda: request.reply(reply))

    def _old(self, request: Answering, session_id: str, message_id: str) -> None:
        """The message is not in memory, so it is not live; unknown and expired are different answers."""

        def exists(connection: Cursorlike) -> bool:
            row = connection.execute(
                "SELECT 1 FROM messages WHERE session_id = ? AND message_id = ?", (session_id, message_id)
            ).fetchone()
            return row is not None

        def done(found: bool | None, error: Exception | None) -> None:
            if error is not None:
                request.refuse(error if isinstance(error, TermalError) else Internal("the transcript cannot be read"))
            else:
                request.refuse(_not_live() if found else _unknown())

        self._reader.submit(exists, done, deadline_s=request.deadline_s)

    @staticmethod
    def _live(record: SessionRecord, message: Message) -> tuple[Turn, OpenRequest]:
        """Raises `Conflict` where no agent waits for this answer, or waits for another one first."""
        turn = record.turn
        if turn is None or record.status != "approval" or not is_pending(message):
            raise _not_live()
        waiting = [request for request in turn.requests.values() if request.message_id == message.id]
        if not waiting or waiting[0].answering or turn.phase != "running":
            raise _not_live()
        if record.agent == "OpenCode" and next(iter(turn.requests.values())) is not waiting[0]:
            raise Conflict("an earlier request is open; OpenCode wants its answers in order", reason="outOfOrder")
        return turn, waiting[0]

    def _settle(
        self, record: SessionRecord, turn: Turn, request: OpenRequest, message: Message | None, word: str | None
    ) -> None:
        """The request is no longer open: message, status and preview say so in one commit; without ``word`` the
        preview stays as it is."""
        del turn.requests[request.request]
        newest = self._newest_open(record, turn)
        if newest is not None:
            record.preview = preview_of(newest) or record.preview
        else:
            record.status = "active"
            if word is not None:
                record.preview = wording.decided(word, record.agent, goes_on=True)
        change = self.book.change()
        position = record.positions.get(request.message_id)
        if position is not None and message is not None:
            change.update(record, position, message, preview=False)
        self._changed(change, record)
        change.commit()

    def _changed(self, change: Change, record: SessionRecord) -> None:
        for hook in self.on_changed:
            hook(change, record)

    @staticmethod
    def _newest_open(record: SessionRecord, turn: Turn) -> Message | None:
        positions = [record.positions.get(request.message_id) for request in turn.requests.values()]
        known = [position for position in positions if position is not None]
        return record.at(max(known)) if known else None


def _not_live() -> Conflict:
    return Conflict("this request is no longer live", reason="notLive")


def _unknown() -> NotFound:
    return NotFound("there is no such request in this session")
