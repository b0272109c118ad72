"""The settings of one session: changed whole or not at all. Never touches status or transcript.

What runs of the agent is told at once. OpenCode is asked before anything is stored: it alone knows what it offers.
"""

import time

from msgspec.structs import replace

from termal.bus.server import Handler, Request
from termal.model.session import Session
from termal.rules.settings import changed, modes_of, runtime_of
from termal.rules.verdicts import Refused
from termal.wire.errors import Conflict, Internal, NotFound, NotImplementedYet, TermalError
from termal.wire.runtime_operations import CONFIRM_S, SETTINGS_APPLY, ApplySettings, SettingsApplied
from termal.wire.settings_operations import ChangeSettings
from termal.wire.turns import JsonReply
from termal.wire.verdict_errors import error_of
from workers.state.change import Book
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord
from workers.state.shown_modes import with_modes
from workers.state.turns import Turns
from workers.state.write_lock import check_may_change, restricted

REPLY_S = 1.0
"""Kept of a request's deadline for the reply that the agent gave no answer."""


class Settings:
    def __init__(self, book: Book, runtimes: Runtimes) -> None:
        self._book = book
        self._runtimes = runtimes
        self._asking: set[str] = set()

    def table(self) -> dict[str, Handler]:
        return {"settings.change": self.change}

    def change(self, request: Request, body: ChangeSettings) -> None:
        """The handler of ``settings.change``."""
        book = self._book
        record = book.registry.find(body.session_id)
        if record.remote:
            raise NotImplementedYet("sessions of other daemons cannot be changed from here")
        if body.model is not None or body.settings:
            check_may_change(book.registry, record)
        session = changed(record.session, name=body.name, model=body.model, requested=body.settings)
        is_told = _settings_of(session) != _settings_of(record.session)
        if is_told and record.agent == "OpenCode":
            self._ask(request, record, body, session)
            return
        self._store(request, record, session)
        if is_told and record.agent != "Codex":
            self._tell(record)

    def _store(self, request: Request, record: SessionRecord, session: Session) -> None:
        book = self._book
        if session != record.session:
            self._take(record, session)
        reply = JsonReply(book.projections.state(record))
        book.journal.after(lambda: request.reply(reply))

    def _tell(self, record: SessionRecord) -> None:
        """Whatever comes of it: the next turn begins with these settings, and says when the agent refuses them."""
        client = self._runtimes.client(runtime_of(record.agent))
        if client.up:
            client.call(SETTINGS_APPLY, self._order(record, record.session), _ignore)

    def _ask(self, request: Request, record: SessionRecord, body: ChangeSettings, session: Session) -> None:
        """Store the settings when the agent has taken them over, or does not run."""
        if record.id in self._asking:
            raise Conflict("another change of this session waits for the agent", reason="changeInFlight")
        client = self._runtimes.client(runtime_of(record.agent))
        if not client.up:
            self._store(request, record, session)
            return
        self._asking.add(record.id)

        def done(reply: SettingsApplied | None, error: TermalError | None) -> None:
            self._asking.discard(record.id)
            if record.removed:
                request.refuse(NotFound("the session was removed"))
            elif reply is None:
                request.refuse(_refusal(error))
            else:
                # As it is now: what the agent said meanwhile stays.
                try:
                    now = changed(record.session, name=body.name, model=body.model, requested=body.settings)
                except Refused as refused:
                    request.refuse(error_of(refused))
                    return
                self._store(request, record, with_modes(now, reply.modes))

        limit = time.monotonic() + CONFIRM_S
        deadline_s = limit if request.deadline_s is None else min(limit, request.deadline_s - REPLY_S)
        client.call(SETTINGS_APPLY, self._order(record, session), done, trace=request.trace, deadline_s=deadline_s)

    def _order(self, record: SessionRecord, session: Session) -> ApplySettings:
        return ApplySettings(restricted(self._book.registry, record, Turns.spec(record, session)))

    def _take(self, record: SessionRecord, session: Session) -> None:
        record.session = session
        if record.agent == "Codex":
            record.stored = replace(
                record.stored,
                codex_approval_policy=session.approval_policy,
                codex_sandbox_mode=session.sandbox_mode,
                codex_reasoning_effort=session.reasoning_effort,
            )
        change = self._book.change()
        change.summary(record)
        change.commit()


def _settings_of(session: Session) -> tuple[str, dict[str, str]]:
    return session.model, modes_of(session)


def _refusal(error: TermalError | None) -> TermalError:
    if isinstance(error, Conflict):
        return Conflict(error.message, reason="notOffered")
    said = "no answer" if error is None else error.message
    return Internal(f"the agent did not confirm the change: {said}", reason="agentFailed")


def _ignore(_: SettingsApplied | None, error: TermalError | None) -> None:
    """The next turn applies them again and is told what is wrong with them."""
