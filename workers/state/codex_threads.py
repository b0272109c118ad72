"""What a person does with the Codex thread of a session besides talking: fork, put away, shorten, take back, look.

Between turns only, one at a time. State decides and writes; the worker that runs Codex carries out.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from msgspec import UNSET, Raw
from msgspec.structs import replace

from termal.bus.server import Handler, Request
from termal.model.message import Text
from termal.model.session import Session
from termal.rules import wording
from termal.rules.exported import stored_as
from termal.rules.settings import runtime_of
from termal.rules.thread import check_thread
from termal.wire.codec import encode_json
from termal.wire.errors import Conflict, Internal, InvalidRequest, NotFound, NotImplementedYet, TermalError
from termal.wire.session_operations import OneSession
from termal.wire.thread_operations import CODEX_THREAD, ForkThread, RollBack, ThreadCommand, ThreadDone
from termal.wire.turns import JsonReply
from workers.state.change import Book, Change
from workers.state.clock import now_text, sooner
from workers.state.past_items import messages_of
from workers.state.readiness import Agents
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord
from workers.state.turns import Turns

REPLY_S = 1.0
"""Kept of a request's deadline for the reply that Codex gave no answer."""

Action = Literal["fork", "archive", "unarchive", "compact", "rollback", "servers"]
Done = Callable[[SessionRecord, ThreadDone], JsonReply]

THREADS = (
    "thread.fork",
    "thread.archive",
    "thread.unarchive",
    "thread.compact",
    "thread.rollback",
    "thread.servers",
)
"""The operations that are served here."""


class _Order(NamedTuple):
    action: Action
    session_id: str
    done: Done
    turns: int = 1


class CodexThreads:
    """``rewritten`` is told of every session whose transcript is another one now."""

    def __init__(
        self,
        book: Book,
        runtimes: Runtimes,
        turns: Turns,
        agents: Agents,
        rewritten: Callable[[SessionRecord], None],
    ) -> None:
        self._book = book
        self._runtimes = runtimes
        self._turns = turns
        self._agents = agents
        self._rewritten = rewritten

    def table(self) -> dict[str, Handler]:
        return {
            "thread.fork": self.fork,
            "thread.archive": self.archive,
            "thread.unarchive": self.unarchive,
            "thread.compact": self.compact,
            "thread.rollback": self.rollback,
            "thread.servers": self.servers,
        }

    def archive(self, request: Request, body: OneSession) -> None:
        def done(record: SessionRecord, _: ThreadDone) -> JsonReply:
            return self._put_away(record, "archived", wording.THREAD_ARCHIVED)

        self._order(request, _Order("archive", body.session_id, done))

    def unarchive(self, request: Request, body: OneSession) -> None:
        def done(record: SessionRecord, _: ThreadDone) -> JsonReply:
            return self._put_away(record, "active", wording.THREAD_UNARCHIVED)

        self._order(request, _Order("unarchive", body.session_id, done))

    def compact(self, request: Request, body: OneSession) -> None:
        def done(record: SessionRecord, _: ThreadDone) -> JsonReply:
            change = self._book.change()
            self._turns.say(change, record, wording.THREAD_COMPACTED)
            return self._committed(change, record)

        self._order(request, _Order("compact", body.session_id, done))

    def rollback(self, request: Request, body: RollBack) -> None:
        if body.turns < 1:
            raise InvalidRequest("at least one turn is taken back", reason="numTurns")

        def done(record: SessionRecord, answer: ThreadDone) -> JsonReply:
            change = self._book.change()
            record.status = "idle"
            if answer.items is None:
                self._turns.say(change, record, wording.rolled_back(body.turns))
                change.summary(record)
                return self._committed(change, record)
            record.start_over(messages_of(self._book.registry, answer.items))
            self._rewritten(record)
            if not record.count:
                record.preview = wording.READY
            # Their anchors are gone with the messages.
            record.session = replace(record.session, markers=UNSET)
            change.compacted(record)
            change.summary(record)
            return self._committed(change, record)

        self._order(request, _Order("rollback", body.session_id, done, body.turns))

    def servers(self, request: Request, body: OneSession) -> None:
        def done(_: SessionRecord, answer: ThreadDone) -> JsonReply:
            return JsonReply(encode_json({"servers": Raw(answer.servers)}))

        self._order(request, _Order("servers", body.session_id, done))

    def fork(self, request: Request, body: ForkThread) -> None:
        """A repeat with the same key is answered with the session that the first attempt made."""
        registry = self._book.registry
        known = registry.created_by_key.get(body.key)
        if known is not None:
            reply = JsonReply(self._book.projections.created(registry.sessions[known]))
            self._book.journal.settle(lambda: request.reply(reply))
            return

        def done(record: SessionRecord, answer: ThreadDone) -> JsonReply:
            if answer.thread_id is None:
                raise Internal("Codex forked the thread without telling the new one's id", reason="agentFailed")
            return self._forked(record, answer.thread_id, answer, body.key)

        self._order(request, _Order("fork", body.session_id, done))

    # ---------------------------------------------------------------------- carried out

    def _order(self, request: Request, order: _Order) -> None:
        """Check, have the worker do it, then write what came of it; answered once that is stored."""
        record = self._book.registry.find(order.session_id)
        self._check(record, order.action)
        record.thread_busy = True

        def answered(answer: ThreadDone | None, error: TermalError | None) -> None:
            record.thread_busy = False
            if record.removed:
                request.refuse(NotFound("the session was removed"))
            elif answer is None:
                request.refuse(_refusal(error))
            else:
                self._finish(request, order, record, answer)
            if not record.removed and not record.busy:
                self._turns.go_on(record)

        command = ThreadCommand(Turns.spec(record), order.action, order.turns)
        deadline_s = sooner(request.deadline_s, REPLY_S)
        client = self._runtimes.wanted(runtime_of(record.agent))
        client.call(CODEX_THREAD, command, answered, trace=request.trace, deadline_s=deadline_s)

    def _finish(self, request: Request, order: _Order, record: SessionRecord, answer: ThreadDone) -> None:
        try:
            reply = order.done(record, answer)
        except TermalError as error:
            request.refuse(error)
            return
        self._book.journal.settle(lambda: request.reply(reply)) if order.action == "servers" else (
            self._book.journal.after(lambda: request.reply(reply))
        )

    def _check(self, record: SessionRecord, action: Action) -> None:
        if record.remote:
            raise NotImplementedYet("sessions of other daemons cannot be driven from here")
        check_thread(record.session, action)
        if record.busy or record.thread_busy:
            raise Conflict("the session is at work; wait for the end of it", reason="busy")
        if record.queue:
            raise Conflict("prompts are queued; send or cancel them first", reason="promptsQueued")
        problem = self._agents.problem(record.agent)
        if problem is not None:
            raise Internal(problem, reason="agentNotReady")

    def _put_away(self, record: SessionRecord, state: Literal["active", "archived"], text: str) -> JsonReply:
        record.session = replace(record.session, codex_thread_state=state)
        change = self._book.change()
        self._turns.say(change, record, text)
        change.summary(record)
        return self._committed(change, record)

    def _committed(self, change: Change, record: SessionRecord) -> JsonReply:
        change.commit()
        return JsonReply(self._book.projections.state(record))

    def _forked(self, source: SessionRecord, thread_id: str, answer: ThreadDone, key: str) -> JsonReply:
        registry = self._book.registry
        session: Session = replace(
            source.session,
            id=registry.new_session_id(),
            name=wording.fork_of(source.session.name),
            status="idle",
            preview=wording.READY,
            message_count=0,
            messages_loaded=True,
            markers=UNSET,
            parent_delegation_id=UNSET,
            agent_commands_revision=0,
            external_session_id=thread_id,
            codex_thread_state="active",
        )
        record = SessionRecord(session, stored_as(session, key))
        change = self._book.change()
        for message in messages_of(registry, answer.items or []):
            record.put(message)
        if not answer.items:
            record.put(_said(registry.new_message_id(), wording.FORKED))
        change.create(record)
        change.commit()
        return JsonReply(self._book.projections.created(record))


def _said(number: str, text: str) -> Text:
    return Text(id=number, timestamp=now_text(), author="assistant", text=text)


def _refusal(error: TermalError | None) -> TermalError:
    if isinstance(error, InvalidRequest | Conflict):
        return error
    said = "no answer" if error is None else error.message
    return Internal(f"Codex did not do it: {said}", reason="agentFailed")
