"""The card of a delegation in its parent's transcript: appended at the start, kept up to date, found anywhere."""

from typing import NamedTuple

from msgspec.structs import replace

from termal.model.delegation import DelegationRecord
from termal.model.message import ParallelAgent, ParallelAgents, Request
from termal.rules.closing import is_pending
from termal.rules.delegation_summary import card_row
from termal.store.connection import Cursorlike
from workers.state.change import Book, Change
from workers.state.clock import now_text
from workers.state.rows import decode_message
from workers.state.session_record import SessionRecord

_CARDS = (
    "SELECT position, value_json FROM messages WHERE session_id = ? AND value_json LIKE '%\"parallelAgents\"%'"
    " AND value_json LIKE ? ORDER BY position DESC"
)


class Card(NamedTuple):
    """Where the row of a delegation stands: its parent's message at ``position``, as it was last written."""

    position: int
    message: ParallelAgents


class Cards:
    def __init__(self, book: Book) -> None:
        self._book = book
        self._known: dict[str, Card] = {}
        self.rewritten = 0
        """Grows with every transcript that another one was put in place of."""

    def append(self, change: Change, parent: SessionRecord, record: DelegationRecord) -> None:
        message = ParallelAgents(
            id=self._book.registry.new_message_id(),
            timestamp=now_text(),
            author="assistant",
            agents=[self._row(record)],
        )
        self._known[record.id] = Card(change.append(parent, message), message)

    def remember(self, record: DelegationRecord, position: int, message: ParallelAgents, *, seen: int) -> None:
        """Where the card of ``record`` was found in the store. ``seen``: `rewritten` from before it was looked for."""
        if seen == self.rewritten:
            self._known.setdefault(record.id, Card(position, message))

    def forget(self, parent: SessionRecord) -> None:
        """The transcript of ``parent`` is another one: the cards that stood in it are gone."""
        self.rewritten += 1
        for record in self._book.registry.delegations.of_parent(parent.id):
            self._known.pop(record.id, None)

    def found(self, record: DelegationRecord) -> bool:
        """Whether a `refresh` would know the place of the card."""
        parent = self._book.registry.sessions.get(record.parent_session_id)
        return parent is None or self._find(parent, record) is not None

    @staticmethod
    def stored(connection: Cursorlike, record: DelegationRecord) -> tuple[int, ParallelAgents] | None:
        """Where the store has the card of ``record``; reads the parent's whole transcript, from its end."""
        rows = connection.execute(_CARDS, (record.parent_session_id, f'%"{record.id}"%')).fetchall()
        for position, value in rows:
            message = decode_message(str(value))
            if isinstance(message, ParallelAgents) and any(is_row(agent, record.id) for agent in message.agents):
                return int(str(position)), message
        return None

    def refresh(self, change: Change, record: DelegationRecord) -> bool:
        """Write the row as it is now; whether that changed anything."""
        parent = self._book.registry.sessions.get(record.parent_session_id)
        card = self._find(parent, record) if parent is not None else None
        if parent is None or card is None:
            return False
        row = self._row(record)
        rows = [row if is_row(agent, record.id) else agent for agent in card.message.agents]
        if rows == card.message.agents:
            return False
        message = replace(card.message, agents=rows)
        self._known[record.id] = Card(card.position, message)
        change.agents(parent, card.position, message)
        return True

    def _find(self, parent: SessionRecord, record: DelegationRecord) -> Card | None:
        known = self._known.get(record.id)
        if known is not None and known.position < parent.start:
            return known
        if known is not None and parent.resident(known.position):
            message = parent.at(known.position)
            if isinstance(message, ParallelAgents) and message.id == known.message.id:
                return Card(known.position, message)
        for position in range(parent.count - 1, parent.start - 1, -1):
            message = parent.messages[position - parent.start]
            if isinstance(message, ParallelAgents) and any(is_row(agent, record.id) for agent in message.agents):
                return Card(position, message)
        return None

    def _row(self, record: DelegationRecord) -> ParallelAgent:
        child = self._book.registry.sessions.get(record.child_session_id)
        return card_row(record, pending_of(child) if child is not None and record.active else None)


def is_row(agent: ParallelAgent, delegation_id: str) -> bool:
    """Rows of an agent's own tools may have any id."""
    return agent.source == "delegation" and agent.id == delegation_id


def pending_of(child: SessionRecord) -> Request | None:
    """The newest request of ``child`` that waits for a person."""
    if child.status != "approval":
        return None
    for message in reversed(child.messages):
        if isinstance(message, Request) and is_pending(message):
            return message
    return None
