"""Waits for delegations: kept until their condition is met, their time is up or their parent is lost, then turned into
a prompt of the parent in the commit that met them.
"""

import time

from msgspec import UNSET

from termal.bus.loop import Loop, Timer
from termal.bus.server import Handler, Request
from termal.faults import fault
from termal.model import delta
from termal.model.delegation import (
    ConsumedReason,
    DelegationRecord,
    DelegationWaitRecord,
    DelegationWaitResponse,
    DelegationWaitsResponse,
)
from termal.model.message import Text
from termal.model.session import PendingPrompt
from termal.model.stored import PROMPT_KEYS, PromptKey, QueueEntry
from termal.rules.delegation_request import AskedWait, check_watched, checked_wait, is_satisfied
from termal.rules.delegation_resume import resume_prompt
from termal.rules.verdicts import Stale
from termal.wire.codec import encode_json
from termal.wire.delegation_operations import CreateWait, DelegationsOf
from termal.wire.turns import JsonReply
from workers.state.change import Book, Change
from workers.state.clock import left_s, now_text, text_in
from workers.state.delegation_access import parent_of
from workers.state.registry import Registry
from workers.state.rows import queued, remembered
from workers.state.session_record import SessionRecord
from workers.state.turn import Turn
from workers.state.workflow_queues import WorkflowQueues

_WAIT = "wait\n"


class Waits:
    def __init__(self, book: Book, workflows: WorkflowQueues, loop: Loop) -> None:
        self._book = book
        self._workflows = workflows
        self._loop = loop
        self._timers: dict[str, Timer] = {}
        self._due_s: dict[str, float] = {}
        """By id of the wait, on the monotonic clock: setting the other one changes no wait of this process."""
        self._open = False

    def table(self) -> dict[str, Handler]:
        return {"delegation.wait": self.create, "delegation.waits": self.pending}

    def begin(self) -> None:
        """The start is over: parents may be resumed. Looks at every wait and sets the clocks."""
        self._open = True
        change = self._book.change()
        self.evaluate(change)
        if not change.empty:
            change.commit()
        for wait in list(self._book.registry.waits.values()):
            self._set_clock(wait)

    # --------------------------------------------------------------------- requests

    def create(self, request: Request, body: CreateWait) -> None:
        """The handler of ``delegation.wait``: answered once the wait, and what it led to at once, is stored."""
        parent = parent_of(self._book, body.parent_session_id)
        asked = checked_wait(
            body.delegation_ids, mode=body.mode, title=body.title, count=body.count, deadline_ms=body.deadline_ms
        )
        registry = self._book.registry
        known = remembered(parent.prompt_keys, _key(body.wait_id))
        if known is not None or body.wait_id in registry.waits:
            wait = registry.waits.get(body.wait_id) or _record(body, parent.id, asked)
            self._answer(request, wait, queued=known is not None, requested=known is not None and not known.queued)
            return
        if parent.session.codex_thread_state == "archived":
            raise Stale("the session's Codex thread is archived; it cannot be resumed", reason="waitParentArchived")
        watched = [registry.delegations.get(name) for name in asked.delegation_ids]
        parents = {record.id: record.parent_session_id for record in watched if record is not None}
        check_watched(asked.delegation_ids, parent.id, parents)
        wait = _record(body, parent.id, asked)
        registry.waits[wait.id] = wait
        change = self._book.change()
        change.tell(lambda revision: delta.DelegationWaitCreated(revision=revision, wait=wait))
        change.commit()
        self._set_clock(wait)
        outcome = self._settle_new(wait)
        self._answer(request, wait, queued=outcome is not None, requested=outcome is True)

    def pending(self, request: Request, body: DelegationsOf) -> None:
        """The handler of ``delegation.waits``."""
        parent = parent_of(self._book, body.parent_session_id)
        registry = self._book.registry
        reply = DelegationWaitsResponse(
            revision=registry.revision,
            delegation_waits=[wait for wait in registry.waits.values() if wait.parent_session_id == parent.id],
            server_instance_id=registry.instance_id,
        )
        self._book.journal.settle(lambda: request.reply(JsonReply(encode_json(reply))))

    def _settle_new(self, wait: DelegationWaitRecord) -> bool | None:
        """What `_one` says of a new wait, in a commit of its own."""
        change = self._book.change()
        outcome = self._one(change, wait)
        if not change.empty:
            change.commit()
        return outcome

    def _answer(self, request: Request, wait: DelegationWaitRecord, *, queued: bool, requested: bool) -> None:
        registry = self._book.registry
        reply = DelegationWaitResponse(
            revision=registry.revision,
            wait=wait,
            resume_prompt_queued=queued,
            resume_dispatch_requested=requested,
            server_instance_id=registry.instance_id,
        )
        self._book.journal.stored(lambda: request.reply(JsonReply(encode_json(reply))))

    # ------------------------------------------------------------------- evaluation

    def evaluate(self, change: Change, *, removed: frozenset[str] = frozenset()) -> None:
        """End, within ``change``, every wait that is over. ``removed``: sessions that ``change`` deletes. Before
        `begin` nobody is resumed."""
        if not self._open:
            return
        for wait in list(self._book.registry.waits.values()):
            self._one(change, wait, removed=removed)

    def _one(self, change: Change, wait: DelegationWaitRecord, *, removed: frozenset[str] = frozenset()) -> bool | None:
        """None: no prompt was queued; else whether its dispatch was asked for."""
        registry = self._book.registry
        parent = registry.sessions.get(wait.parent_session_id)
        if parent is None or parent.id in removed:
            if wait.parent_session_id not in registry.quarantined:
                self._consume(change, wait, "parentSessionRemoved")
            return None
        if parent.session.codex_thread_state == "archived":
            self._consume(change, wait, "parentSessionUnavailable")
            return None
        watched = [registry.delegations.get(name) for name in wait.delegation_ids]
        known = [record for record in watched if record is not None]
        done = sum(not record.active for record in known)
        count = wait.count if isinstance(wait.count, int) else None
        met = len(known) < len(watched) or is_satisfied(wait.mode, len(watched), done, count)
        if not met and self._left_s(wait) > 0:
            return None
        requested = self._queue(change, parent, wait, known, partial=not met)
        self._consume(change, wait, "completed", partial=not met)
        if not requested:
            change.summary(parent)
        return requested

    def _queue(
        self,
        change: Change,
        parent: SessionRecord,
        wait: DelegationWaitRecord,
        known: list[DelegationRecord],
        *,
        partial: bool,
    ) -> bool:
        """The prompt at the end of the queue; whether it is to start now."""
        requested = not (parent.busy or parent.queue or parent.blocked or parent.remote)
        prompt = PendingPrompt(
            id=self._book.registry.new_message_id(),
            timestamp=now_text(),
            text=resume_prompt(wait, {record.id: record for record in known}, partial=partial),
        )
        parent.queue = [*parent.queue, queued(QueueEntry("orchestrator", prompt))]
        key = PromptKey(key=_key(wait.id), prompt_id=prompt.id, queued=not requested)
        parent.prompt_keys = [*parent.prompt_keys, key][-PROMPT_KEYS:]
        change.touch(parent)
        if requested:
            self._book.journal.after(lambda: self._dispatch(parent))
        return requested

    def _consume(
        self, change: Change, wait: DelegationWaitRecord, reason: ConsumedReason, *, partial: bool = False
    ) -> None:
        del self._book.registry.waits[wait.id]
        self._due_s.pop(wait.id, None)
        timer = self._timers.pop(wait.id, None)
        if timer is not None:
            timer.cancel()
        change.tell(
            lambda revision: delta.DelegationWaitConsumed(
                revision=revision,
                wait_id=wait.id,
                parent_session_id=wait.parent_session_id,
                reason=reason,
                partial=partial or UNSET,
            )
        )

    def _dispatch(self, parent: SessionRecord) -> None:
        fault("state.wait_met_before_dispatch")
        self._workflows.activate(parent)

    @staticmethod
    def refused(change: Change, parent: SessionRecord) -> None:
        """The turn of ``parent`` was refused by its worker: if it was to resume it, everybody hears of it."""
        turn = parent.turn
        if turn is None or turn.entry is None or turn.entry.source != "orchestrator":
            return
        error = parent.preview
        change.tell(
            lambda revision: delta.DelegationWaitResumeDispatchFailed(
                revision=revision, parent_session_id=parent.id, error=error
            )
        )

    # ------------------------------------------------------------------------ clock

    def _set_clock(self, wait: DelegationWaitRecord) -> None:
        if isinstance(wait.deadline_at, str) and wait.id in self._book.registry.waits:
            self._timers[wait.id] = self._loop.later(self._left_s(wait), lambda: self._is_due(wait))

    def _left_s(self, wait: DelegationWaitRecord) -> float:
        """Seconds to the deadline of ``wait``, endless without one."""
        if not isinstance(wait.deadline_at, str):
            return float("inf")
        if wait.id not in self._due_s:
            self._due_s[wait.id] = time.monotonic() + left_s(wait.created_at, wait.deadline_at)
        return max(0.0, self._due_s[wait.id] - time.monotonic())

    def _is_due(self, wait: DelegationWaitRecord) -> None:
        if wait.id not in self._book.registry.waits:
            return
        change = self._book.change()
        self._one(change, wait)
        if not change.empty:
            change.commit()
        # A timer may be a moment early.
        self._set_clock(wait)


def unsent_again(registry: Registry, record: SessionRecord, turn: Turn) -> None:
    """The worker that should hold ``turn`` is there and has never heard of it: a prompt that resumes ``record`` waits
    again, in front; everything else that was cut off is for people to repeat."""
    key = next((key for key in record.prompt_keys if key.prompt_id == turn.prompt_id), None)
    position = record.positions.get(turn.prompt_id)
    if turn.last_event or key is None or not key.key.startswith(_WAIT) or position is None:
        return
    message = record.at(position)
    if not isinstance(message, Text):
        return
    prompt = PendingPrompt(id=registry.new_message_id(), timestamp=message.timestamp, text=message.text)
    record.queue = [queued(QueueEntry("orchestrator", prompt)), *record.queue]
    again = PromptKey(key=key.key, prompt_id=prompt.id, queued=key.queued)
    record.prompt_keys = [again if known is key else known for known in record.prompt_keys]


def _record(body: CreateWait, parent_id: str, asked: AskedWait) -> DelegationWaitRecord:
    return DelegationWaitRecord(
        id=body.wait_id,
        parent_session_id=parent_id,
        delegation_ids=asked.delegation_ids,
        mode=asked.mode,
        created_at=now_text(),
        title=asked.title or UNSET,
        count=UNSET if asked.needed is None else asked.needed,
        deadline_at=UNSET if asked.deadline_ms is None else text_in(asked.deadline_ms / 1000),
    )


def _key(wait_id: str) -> str:
    """Among the keys of prompts; those of clients hold no line break."""
    return f"{_WAIT}{wait_id}"
