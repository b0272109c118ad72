"""From a stored message to its dispatch outcome: the notice to `wake`, the recording of what it said, the waiting.

What waits together goes together: one notice for a receiver's mailbox and pass, one write for all outcomes of a pass.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from termal.bus.client import GRACE_S, Client
from termal.bus.loop import Loop
from termal.faults import fault
from termal.log import Log
from termal.model.mail import UNWOKEN
from termal.store.writer import Writer
from termal.wire.errors import TermalError
from termal.wire.mail_operations import Unread
from termal.wire.wake_operations import WAKE_NOTIFY, Notified, Notify
from workers.coordination.mail_pending import Pending
from workers.coordination.mail_store import MailStore

WAKE_S = 2.0
ABSENT_S = 0.3
SPARE_S = 0.5
"""Kept of a send's time for recording the outcome and answering."""


class Notice(NamedTuple):
    """A stored message, and what its receiver is to be told of it."""

    row: int
    mail: Unread
    deadline_s: float


class _Told(NamedTuple):
    row: int
    message_id: str
    outcome: str


class Notices:
    """Belongs to the loop's thread. Every notice that is put in ends with the release of its pending entry."""

    def __init__(
        self,
        loop: Loop,
        *,
        wake: Callable[[], Client],
        writer: Callable[[], Writer],
        store: MailStore,
        pending: Pending,
        log: Log,
    ) -> None:
        self._loop = loop
        self._wake = wake
        self._writer = writer
        self._store = store
        self._pending = pending
        self._log = log
        self._notices: dict[tuple[str, str], list[Notice]] = {}
        self._told: list[_Told] = []
        loop.on_pass(self._flush)

    def put(self, notice: Notice) -> None:
        self._notices.setdefault((notice.mail.session_id, notice.mail.mailbox_id), []).append(notice)
        self._loop.request_pass()

    def _flush(self) -> None:
        if self._notices:
            notices, self._notices = self._notices, {}
            for group in notices.values():
                self._notify(group)
        if self._told:
            told, self._told = self._told, []
            self._record(told)

    def _notify(self, group: list[Notice]) -> None:
        """One notice: the newest message speaks for all of the group."""
        fault("coordination.before_notice")
        now = time.monotonic()
        newest = max(group, key=lambda notice: notice.mail.sequence)
        limit_s = min(now + WAKE_S, min(notice.deadline_s for notice in group) - SPARE_S) - GRACE_S
        if limit_s <= now:
            self._ended(group, UNWOKEN)
            return

        def done(reply: Notified | None, error: TermalError | None) -> None:
            if error is not None:
                # The mail waits: it is found by the next activation of its receiver, or when wake is back.
                self._log.repeating("mail.not_woken", mailbox=newest.mail.mailbox_id, error=error.message)
            self._ended(group, UNWOKEN if reply is None else reply.outcome)

        try:
            self._wake().call(WAKE_NOTIFY, Notify(newest.mail), done, deadline_s=limit_s, absent_s=ABSENT_S)
        except TermalError as error:
            done(None, error)

    def _ended(self, group: list[Notice], outcome: str) -> None:
        self._told += [_Told(notice.row, notice.mail.message_id, outcome) for notice in group]
        self._loop.request_pass()

    def _record(self, told: list[_Told]) -> None:
        def done(outcomes: list[str] | None, error: Exception | None) -> None:
            if outcomes is None:
                # The rows keep no outcome, which reads as never woken; recovery brings their states up to date.
                self._log.repeating("mail.outcome_unrecorded", messages=len(told), error=repr(error))
            for place, entry in enumerate(told):
                self._pending.release(entry.message_id, None if outcomes is None else outcomes[place])

        self._writer().submit(lambda connection: self._store.finalize(connection, told), done)
