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
            self._hand_off(record, again=True)

    def _hand_off(self, record: SessionRecord, *, again: bool) -> None:
        """Start the head. What is refused goes back to the front; ``again``: a wake ahead of the workflow prompt is
        then tried once more."""
        if record.removed or record.busy or record.turn is not None:
            return
        sources = [queued.entry.source for queued in record.queue]
        if not drains_after_loss(sources, blocked=record.blocked) or self._turns.problem(record) is not None:
            return
        entry = record.queue[0].entry
        change = self._book.change()
        turn = self._turns.dispatch_head(change, record)
        turn.entry = entry
        change.commit()
        if again and entry.source == "mailbox":
            turn.on_taken.append(lambda error: self._hand_off(record, again=False) if error is not None else None)
