"""The model list of a session's agent, asked for when a client wants it. Never touches status or transcript."""

import time

from msgspec.structs import replace

from termal.bus.server import Handler, Request
from termal.rules.settings import runtime_of
from termal.wire.errors import Conflict, Internal, InvalidRequest, NotFound, NotImplementedYet, TermalError
from termal.wire.runtime_operations import MODELS_LIST, MODELS_S, ListModels, ModelList
from termal.wire.session_operations import OneSession
from termal.wire.turns import JsonReply
from workers.state.change import Book
from workers.state.readiness import Agents
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord
from workers.state.shown_models import model_options
from workers.state.shown_modes import with_modes
from workers.state.turns import Turns

REPLY_S = 1.0
"""Kept of a request's deadline for the reply that the agent gave no answer."""


class ModelOptions:
    def __init__(self, book: Book, runtimes: Runtimes, agents: Agents) -> None:
        self._book = book
        self._runtimes = runtimes
        self._agents = agents

    def table(self) -> dict[str, Handler]:
        return {"models.refresh": self.refresh}

    def refresh(self, request: Request, body: OneSession) -> None:
        """The handler of ``models.refresh``: answered when the agent's list is stored."""
        record = self._book.registry.find(body.session_id)
        if record.remote:
            raise NotImplementedYet("sessions of other daemons cannot be driven from here")
        if record.agent == "OpenCode" and record.busy:
            raise Conflict("OpenCode says its models between turns; a turn is running", reason="turnRunning")
        problem = self._agents.problem(record.agent)
        if problem is not None:
            raise Internal(problem, reason="agentNotReady")

        def done(reply: ModelList | None, error: TermalError | None) -> None:
            if record.removed:
                request.refuse(NotFound("the session was removed"))
            elif reply is None:
                said = "no answer" if error is None else error.message
                request.refuse(Internal(f"the agent did not say its models: {said}", reason="agentFailed"))
            elif not reply.options:
                request.refuse(InvalidRequest(f"{record.agent} has no model list", reason="noModelList"))
            else:
                self._store(request, record, reply)

        limit = time.monotonic() + MODELS_S
        deadline_s = limit if request.deadline_s is None else min(limit, request.deadline_s - REPLY_S)
        # With no model chosen: a list is wanted most by who has chosen one that the agent does not have.
        ask = ListModels(replace(Turns.spec(record), model=""))
        client = self._runtimes.wanted(runtime_of(record.agent))
        client.call(MODELS_LIST, ask, done, trace=request.trace, deadline_s=deadline_s)

    def _store(self, request: Request, record: SessionRecord, reply: ModelList) -> None:
        book = self._book
        options = model_options(reply.options, reply.details)
        known = with_modes(replace(record.session, model_options=options), reply.modes)
        if known != record.session:
            record.session = known
            change = book.change()
            change.summary(record)
            change.commit()
        answer = JsonReply(book.projections.state(record))
        book.journal.after(lambda: request.reply(answer))
