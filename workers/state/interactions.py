"""Every kind of request that an agent can have: which part takes its event, and which its answer."""

from collections.abc import Mapping

from termal.bus.server import Handler
from termal.store.reader import Reader
from termal.wire.turns import (
    AppRequestAsked,
    ApprovalAsked,
    ApprovalWithdrawn,
    ElicitationAsked,
    InteractionWithdrawn,
    QuestionAsked,
)
from workers.state.app_requests import AppRequests
from workers.state.approvals import Approvals
from workers.state.change import Book
from workers.state.elicitations import Elicitations
from workers.state.held_answers import HeldAnswers
from workers.state.open_requests import OpenRequests
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord
from workers.state.turn import Turn
from workers.state.user_input import UserInput

Interaction = (
    ApprovalAsked | ApprovalWithdrawn | QuestionAsked | ElicitationAsked | AppRequestAsked | InteractionWithdrawn
)


class Interactions:
    def __init__(self, book: Book, runtimes: Runtimes, reader: Reader) -> None:
        self._requests = OpenRequests(book, runtimes, reader)
        self.on_changed = self._requests.on_changed
        self.held = HeldAnswers(self._requests)
        self._book = book
        self._approvals = Approvals(self._requests)
        self._user_input = UserInput(self._requests)
        self._elicitations = Elicitations(self._requests)
        self._app_requests = AppRequests(self._requests)

    def table(self) -> Mapping[str, Handler]:
        """The handlers of answers, and of who wants to give one."""
        return {
            "approval.answer": self._approvals.answer,
            "questions.answer": self._user_input.answer,
            "elicitation.answer": self._elicitations.answer,
            "apprequest.answer": self._app_requests.answer,
            "lock.read": self.held.read,
        }

    def take(self, record: SessionRecord, turn: Turn, event: Interaction) -> None:
        """What an agent asks or withdraws."""
        if isinstance(event, ApprovalAsked):
            self._approvals.asked(record, turn, event)
        elif isinstance(event, QuestionAsked):
            self._user_input.asked(record, turn, event)
        elif isinstance(event, ElicitationAsked):
            self._elicitations.asked(record, turn, event)
        elif isinstance(event, AppRequestAsked):
            self._app_requests.asked(record, turn, event)
        else:
            self._requests.withdraw(record, turn, event.request)
        if isinstance(event, ApprovalAsked | ElicitationAsked) and event.by_mode:
            # The lock may be gone since the agent's worker was told of it.
            self._book.journal.after(lambda: self.held.look(record))
