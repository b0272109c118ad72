"""The settings of one session: changed whole or not at all, for its next turn. Never touches status or transcript."""

from msgspec.structs import replace

from termal.bus.server import Handler, Request
from termal.model.session import Session
from termal.rules.settings import changed
from termal.wire.errors import NotImplementedYet
from termal.wire.settings_operations import ChangeSettings
from termal.wire.turns import JsonReply
from workers.state.change import Book
from workers.state.session_record import SessionRecord
from workers.state.write_lock import check_may_write


class Settings:
    def __init__(self, book: Book) -> None:
        self._book = book

    def table(self) -> dict[str, Handler]:
        return {"settings.change": self.change}

    def change(self, request: Request, body: ChangeSettings) -> None:
        """The handler of ``settings.change``: a running turn goes on with what it was started with."""
        book = self._book
        record = book.registry.find(body.session_id)
        if record.remote:
            raise NotImplementedYet("sessions of other daemons cannot be changed from here")
        if body.model is not None or body.settings:
            check_may_write(book.registry, record)
        session = changed(record.session, name=body.name, model=body.model, requested=body.settings)
        if session != record.session:
            self._take(record, session)
        reply = JsonReply(book.projections.state(record))
        book.journal.after(lambda: request.reply(reply))

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
