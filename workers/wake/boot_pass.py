"""Once per start of the daemon: every unread mailbox of every root has one wake in its receiver's queue; none starts.

Begun again after a death of this worker it changes nothing of what is there already.
"""

from collections.abc import Callable
from itertools import groupby

from termal.bus.client import Client
from termal.bus.loop import Loop
from termal.faults import fault
from termal.log import Log
from termal.wire.mail_operations import MAILBOX_MARK, MAILBOX_UNREAD, ListUnread, Mark, Marks, Unread, UnreadPage
from termal.wire.queue_operations import QUEUE_MATERIALIZE, Materialized, MaterializeWakes
from workers.wake.persistence import Persistence
from workers.wake.wording import wake_of

PAGE = 1000
AHEAD = 3
"""PERF: so many pages are under way at once: one is read while another is queued and a third one marked."""


class BootPass:
    """``going_on`` is called now and then; ``done(started)`` once: whether a session was left out because it has
    started a turn since the daemon did."""

    def __init__(
        self,
        loop: Loop,
        state: Client,
        coordination: Client,
        log: Log,
        *,
        going_on: Callable[[], None],
        done: Callable[[bool], None],
    ) -> None:
        self._requests = Persistence(loop, log)
        self._state = state
        self._coordination = coordination
        self._log = log
        self._going_on = going_on
        self._done = done
        self._started = False
        self._wakes = 0
        self._open = 0
        self._after: tuple[str, str] | None = None

    def begin(self) -> None:
        self._ask(None)

    def _ask(self, after: tuple[str, str] | None) -> None:
        self._going_on()
        self._open += 1
        self._requests.ask(self._coordination, MAILBOX_UNREAD, ListUnread(after, PAGE), self._page)

    def _page(self, page: UnreadPage) -> None:
        self._after = page.next
        self._read_on()
        receivers = [(session, list(mail)) for session, mail in groupby(page.mail, lambda mail: mail.session_id)]
        marks: list[Mark] = []
        waiting = {session for session, _ in receivers}

        def one(session: str, mail: list[Unread]) -> Callable[[Materialized], None]:
            def done(reply: Materialized) -> None:
                fault("wake.in_boot_pass")
                self._started = self._started or reply.started
                if reply.known:
                    marks.extend(Mark(session, each.mailbox_id, each.sequence, "rewoken") for each in mail)
                waiting.discard(session)
                if not waiting:
                    self._mark(marks)

            return done

        for session, mail in receivers:
            # In this order each goes to the front: the oldest mail ends up at the head.
            wakes = MaterializeWakes(session, [wake_of(each) for each in mail])
            self._requests.ask(self._state, QUEUE_MATERIALIZE, wakes, one(session, mail))
        if not waiting:
            self._mark(marks)

    def _read_on(self) -> None:
        if self._after is not None and self._open < AHEAD:
            after, self._after = self._after, None
            self._ask(after)

    def _mark(self, marks: list[Mark]) -> None:
        fault("wake.before_boot_marks")
        self._wakes += len(marks)
        if marks:
            self._requests.ask(self._coordination, MAILBOX_MARK, Marks(marks), lambda _: self._marked())
        else:
            self._marked()

    def _marked(self) -> None:
        self._open -= 1
        self._read_on()
        if not self._open:
            self._log.info("wake.boot_pass", wakes=self._wakes)
            self._done(self._started)
