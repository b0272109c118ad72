"""Queues that go on by themselves after a start: those whose first entry but wakes is a workflow prompt."""

from termal.rules.queue import drains_after_loss
from workers.state.change import Book
from workers.state.session_record import SessionRecord
from workers.state.turns import Turns


class WorkflowQueues:
    def __init__(self, book: Book, turns: Turns) -> None:
        self._book = book
        self._turns = turns

    def go_on(self) -> None:
        """The start is over: workflow prompts wait for nobody. All other queues wait for the next activity."""
        for record in list(self._book.registry.sessions.values()):
            self.activate(record)

    def activate(self, record: SessionRecord) -> None:
        """Go on with the queue of ``record`` if its first entry but wakes is a workflow prompt and nothing runs."""
        if self._may_start(record):
            self._turns.mail.before(record, lambda: self._hand_off(record, again=True))

    def _may_start(self, record: SessionRecord) -> bool:
        if record.removed or record.busy or record.turn is not None:
            return False
        sources = [queued.entry.source for queued in record.queue]
        return drains_after_loss(sources, blocked=record.blocked) and self._turns.problem(record) is None

    def _hand_off(self, record: SessionRecord, *, again: bool) -> None:
        """Start the head. What is refused goes back to the front; ``again``: a wake ahead of the workflow prompt is
        then tried once more."""
        if not self._may_start(record):
            return
        entry = record.queue[0].entry
        change = self._book.change()
        turn = self._turns.dispatch_head(change, record)
        change.commit()
        if again and entry.source == "mailbox":
            turn.on_taken.append(lambda error: self._once_more(record) if error is not None else None)

    def _once_more(self, record: SessionRecord) -> None:
        self._turns.mail.before(record, lambda: self._hand_off(record, again=False))
