"""Prompts of clients: into the queue or straight into a turn, found again by their key, taken back while they wait."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType

from termal.bus.server import Handler, Request
from termal.model.message import PromptSource
from termal.model.session import PendingPrompt
from termal.model.stored import PROMPT_KEYS, PromptKey, QueueEntry, StoredImage
from termal.rules.images import attachment, check_agent
from termal.rules.peer_prompt import may_merge, merged
from termal.rules.queue import place_prompt
from termal.rules.verdicts import Bad, Stale
from termal.wire.errors import NotFound, TermalError
from termal.wire.session_operations import CancelPrompt, SendPrompt
from termal.wire.turns import JsonReply
from workers.state.change import Book
from workers.state.clock import now_text
from workers.state.rows import queued, remembered
from workers.state.session_record import Queued, SessionRecord
from workers.state.turns import Turns

Again = Callable[[Handler, Request, Any], None]
"""Runs a handler later, with its errors answered as at once."""
DELIVERED = "deliveredToIdleSession"
QUEUED = "queuedBehindActiveTurn"


class Prompts:
    def __init__(self, book: Book, turns: Turns, again: Again) -> None:
        self._book = book
        self._turns = turns
        self._again = again

    def send(self, request: Request, body: SendPrompt) -> None:
        """The handler of ``prompt.send``: answered when the prompt is stored and, if it starts, its turn is taken."""
        record = self._book.registry.find(body.session_id)
        mail = self._turns.mail
        if (record.asking is not None or not record.busy) and mail.waits(record):
            mail.before(record, lambda: self._again(self._send, request, body))
        else:
            self._send(request, body)

    def _send(self, request: Request, body: SendPrompt) -> None:
        record = self._book.registry.find(body.session_id)
        known = remembered(record.prompt_keys, body.key)
        if known is not None:
            self._repeat(request, body, record, known)
            return
        problem = self._turns.problem(record)
        if problem is not None:
            raise problem
        self._check_sender(record, body)
        entry = self._entry(record, body)
        sources = [waiting.entry.source for waiting in record.queue]
        placement = place_prompt(sources, busy=record.busy, blocked=record.blocked)
        mine = queued(entry)
        ordered = [([*record.queue, mine])[index] for index in placement.order]
        starts = placement.start and ordered[0] is mine
        prompt_id = self._merge(record, ordered, mine)
        key = PromptKey(key=body.key, prompt_id=prompt_id, queued=not starts)
        record.prompt_keys = [*record.prompt_keys, key][-PROMPT_KEYS:]
        record.queue = ordered
        change = self._book.change()
        if placement.start:
            head = record.queue.pop(0).entry
            turn = self._turns.dispatch(change, record, head)
            deadline_s = request.deadline_s if starts else None
            change.commit(after=lambda: self._turns.start(record, turn, head, deadline_s))
            if starts:
                turn.on_taken.append(lambda error: self._answer(request, body, record, key, error))
                return
        else:
            change.summary(record)
            change.commit()
        reply = JsonReply(self._book.projections.state(record, _disposition(body, key)))
        self._book.journal.after(lambda: request.reply(reply))

    def cancel(self, request: Request, body: CancelPrompt) -> None:
        """The handler of ``prompt.cancel``: only what still waits can be taken back."""
        record = self._book.registry.find(body.session_id)
        kept = [waiting for waiting in record.queue if waiting.entry.pending_prompt.id != body.prompt_id]
        if len(kept) == len(record.queue):
            raise NotFound("there is no such queued prompt")
        record.queue = kept
        record.peer_messages.pop(body.prompt_id, None)
        change = self._book.change()
        change.summary(record)
        change.commit()
        reply = JsonReply(self._book.projections.state(record))
        self._book.journal.after(lambda: request.reply(reply))

    @staticmethod
    def _merge(record: SessionRecord, ordered: list[Queued], mine: Queued) -> str:
        """Join ``mine`` with the peer prompt that it would wait behind; the id under which it waits."""
        at = ordered.index(mine)
        prompt = mine.entry.pending_prompt
        if at == 0 or not may_merge(ordered[at - 1].entry, mine.entry):
            return prompt.id
        before = ordered[at - 1].entry.pending_prompt
        parts = [*record.peer_messages.get(before.id, [before]), prompt]
        record.peer_messages[before.id] = parts
        ordered[at - 1 : at + 1] = [queued(QueueEntry(mine.entry.source, merged(parts)))]
        return before.id

    def _repeat(self, request: Request, body: SendPrompt, record: SessionRecord, known: PromptKey) -> None:
        """The first attempt made the prompt: answer as it did, when it is known to be safe."""
        turn = record.turn
        if turn is not None and turn.prompt_id == known.prompt_id and turn.phase in ("starting", "held"):
            turn.on_taken.append(lambda error: self._answer(request, body, record, known, error))
        else:
            # The disk may have taken nothing since: a repeat is no proof that the first attempt is stored.
            self._book.journal.stored(lambda: self._answer(request, body, record, known, None))

    def _answer(
        self, request: Request, body: SendPrompt, record: SessionRecord, key: PromptKey, error: TermalError | None
    ) -> None:
        if error is not None:
            request.refuse(error)
        elif record.removed:
            request.refuse(NotFound("the session was removed"))
        else:
            reply = JsonReply(self._book.projections.state(record, _disposition(body, key)))
            self._book.journal.settle(lambda: request.reply(reply))

    def _check_sender(self, record: SessionRecord, body: SendPrompt) -> None:
        """Raises `Stale`: only a person goes on with a delegated child whose delegation is over."""
        delegation = self._book.registry.delegations.of_child(record.id)
        if body.source_session_id is not None and delegation is not None and not delegation.active:
            raise Stale("its delegation is over; use a follow-up or a new delegation", reason="delegationNotStartable")

    def _entry(self, record: SessionRecord, body: SendPrompt) -> QueueEntry:
        """Raises `Bad`; takes a message id only for a prompt that is accepted."""
        text = body.text.strip()
        if not text and not body.attachments:
            raise Bad("the prompt must not be empty")
        check_agent(record.agent, len(body.attachments))
        images = [
            StoredImage(image.data, attachment(number, image.media_type, len(image.data), image.file_name))
            for number, image in enumerate(body.attachments, 1)
        ]
        expanded = (body.expanded_text or "").strip()
        prompt = PendingPrompt(
            id=self._book.registry.new_message_id(),
            timestamp=now_text(),
            text=text,
            attachments=[image.metadata for image in images] or UNSET,
            expanded_text=expanded if expanded and expanded != text else UNSET,
            source=self._source(body.source_session_id),
        )
        return QueueEntry("user", prompt, images)

    def _source(self, session_id: str | None) -> PromptSource | UnsetType:
        sender = self._book.registry.sessions.get(session_id or "")
        return UNSET if sender is None else PromptSource(session_id=sender.id, name=sender.session.name)


def _disposition(body: SendPrompt, key: PromptKey) -> str | None:
    """Only the sender of a peer prompt asks how it went."""
    if body.source_session_id is None:
        return None
    return QUEUED if key.queued else DELIVERED
