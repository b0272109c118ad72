"""Repairs what a death of some worker left: mail that nobody was told of is offered once more, queued wakes whose mail
is acknowledged are taken back. Mail that was delivered once is left alone: its receiver may be at work on it.
"""

from collections.abc import Callable

from termal.bus.client import Client
from termal.bus.loop import Loop, Timer
from termal.faults import fault
from termal.log import Log
from termal.wire.errors import TermalError
from termal.wire.mail_operations import (
    MAILBOX_MARK,
    MAILBOX_STALE,
    MAILBOX_UNREAD,
    AskStale,
    ListUnread,
    Mark,
    Marks,
    Stale,
    Unread,
    UnreadPage,
)
from termal.wire.queue_operations import (
    QUEUE_OFFER,
    QUEUE_RETRACT,
    QUEUE_WAKES,
    OfferWake,
    QueuedWakes,
    RetractWakes,
    WakeOffered,
)
from termal.wire.turns import Anything
from workers.wake.persistence import Persistence
from workers.wake.wording import wake_of

PAGE = 1000
STALE_PAGE = 500
SOON_S = 1.0
LONGEST_S = 30.0
"""A pass is made at least this often: one look at an index that is empty while nothing is wrong."""


class LatePass:
    """At most one runs; nothing runs before `allow`. What fails, or is being sent meanwhile, makes the next one come
    soon."""

    def __init__(self, loop: Loop, state: Client, coordination: Client, log: Log) -> None:
        self._loop = loop
        self._requests = Persistence(loop, log)
        self._state = state
        self._coordination = coordination
        self._log = log
        self._allowed = False
        self._running = False
        self._wanted = False
        self._unfinished = False
        self._delay_s = SOON_S
        self._timer: Timer | None = None

    def allow(self) -> None:
        self._allowed = True
        self._loop.every(LONGEST_S, self.now)

    def now(self) -> None:
        """Make a pass, after the one that runs."""
        if self._running:
            self._wanted = True
        elif self._allowed and self._state.up and self._coordination.up:
            self._begin()

    def soon(self) -> None:
        """Make a pass in a moment; the pauses grow while passes do not settle everything."""
        if self._timer is None:
            self._timer = self._loop.later(self._delay_s, self._due)
            self._delay_s = min(self._delay_s * 2, LONGEST_S)

    def _due(self) -> None:
        self._timer = None
        self.now()

    def _begin(self) -> None:
        self._running, self._wanted, self._unfinished = True, False, False
        self._ask(None)

    def _ask(self, after: tuple[str, str] | None) -> None:
        def done(page: UnreadPage | None, error: TermalError | None) -> None:
            if page is None:
                self._failed("unread mail", error)
                return
            fault("wake.in_late_pass")
            self._unfinished = self._unfinished or bool(page.skipped)
            self._offer(page)

        self._coordination.call(MAILBOX_UNREAD, ListUnread(after, PAGE, only_unwoken=True), done)

    # ---------------------------------------------------------------------- offers

    def _offer(self, page: UnreadPage) -> None:
        marks: list[Mark] = []
        left = len(page.mail)

        def one(mail: Unread) -> Callable[[WakeOffered | None, TermalError | None], None]:
            def done(reply: WakeOffered | None, error: TermalError | None) -> None:
                nonlocal left
                left -= 1
                if reply is None:
                    self._unfinished = True
                elif reply.outcome == "queuedBehindActiveTurn":
                    marks.append(Mark(mail.session_id, mail.mailbox_id, mail.sequence, "recovered"))
                if not left:
                    self._mark(marks, page.next)

            return done

        for mail in page.mail:
            self._state.call(QUEUE_OFFER, OfferWake(mail.session_id, wake_of(mail)), one(mail))
        if not page.mail:
            self._mark(marks, page.next)

    def _mark(self, marks: list[Mark], after: tuple[str, str] | None) -> None:
        def then(_: Anything) -> None:
            if after is not None:
                self._ask(after)
            else:
                self._look_at_queues()

        if marks:
            self._requests.ask(self._coordination, MAILBOX_MARK, Marks(marks), then)
        else:
            then(Anything())

    # ----------------------------------------------------------------------- queues

    def _look_at_queues(self) -> None:
        def done(queued: QueuedWakes | None, error: TermalError | None) -> None:
            if queued is None:
                self._failed("queued wakes", error)
            else:
                self._find_stale(queued.wakes)

        self._state.call(QUEUE_WAKES, Anything(), done)

    def _find_stale(self, wakes: list[tuple[str, str, int]]) -> None:
        if not wakes:
            self._end()
            return

        def done(stale: Stale | None, error: TermalError | None) -> None:
            if stale is None:
                self._failed("acknowledged wakes", error)
                return
            for session_id, mailbox_id, sequence in stale.wakes:
                retract = RetractWakes(session_id, mailbox_id, sequence)
                self._state.call(QUEUE_RETRACT, retract, self._retracted)
            self._find_stale(wakes[STALE_PAGE:])

        self._coordination.call(MAILBOX_STALE, AskStale(wakes[:STALE_PAGE]), done)

    def _retracted(self, _: Anything | None, error: TermalError | None) -> None:
        if error is not None:
            self._log.repeating("wake.not_retracted", error=error.message)

    # -------------------------------------------------------------------------- end

    def _failed(self, what: str, error: TermalError | None) -> None:
        self._log.repeating("wake.late_pass_failed", what=what, error=error.message if error is not None else "")
        self._unfinished = True
        self._end()

    def _end(self) -> None:
        self._running = False
        if self._unfinished:
            self.soon()
        else:
            self._delay_s = SOON_S
        if self._wanted:
            self.now()
