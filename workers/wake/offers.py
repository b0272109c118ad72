"""Committed mail on its way to its receiver: worded, offered to `state`, the outcome carried back to who sent it.

What waits for the same receiver and mailbox goes out as one offer, the newest: it covers all of them.
"""

from collections.abc import Callable

from termal.bus.client import Client
from termal.bus.loop import Loop
from termal.bus.server import Request
from termal.faults import fault
from termal.log import Log
from termal.wire.errors import TermalError
from termal.wire.mail_operations import Outcome, Unread
from termal.wire.queue_operations import QUEUE_OFFER, OfferWake, WakeOffered
from termal.wire.wake_operations import Notified, Notify
from workers.wake.wording import wake_of

REPLY_S = 0.05
"""Kept of a notice's deadline for the answer that nobody could be woken."""


class _Waiting:
    __slots__ = ("mail", "requests")

    def __init__(self, mail: Unread) -> None:
        self.mail = mail
        self.requests: list[Request] = []


class Offers:
    """``failed`` learns of each offer that woke nobody."""

    def __init__(self, loop: Loop, state: Client, log: Log, failed: Callable[[], None]) -> None:
        self._state = state
        self._log = log
        self._failed = failed
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self.open = 0
        loop.on_pass(self._send)
        state.on_up.append(self._send)

    def notify(self, request: Request, body: Notify) -> None:
        """The handler of ``wake.notify``: answered with what is stored of the wake."""
        fault("wake.notified")
        mail = body.mail
        key = (mail.session_id, mail.mailbox_id)
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(mail)
        elif mail.sequence > waiting.mail.sequence:
            waiting.mail = mail
        waiting.requests.append(request)

    def _send(self) -> None:
        # While state is away notices wait here, one offer for each mailbox; who asked ends the wait at its deadline.
        if not self._waiting or not self._state.up:
            return
        groups, self._waiting = self._waiting, {}
        for group in groups.values():
            requests = [request for request in group.requests if not request.expired()]
            if requests:
                self._offer(group.mail, requests)

    def _offer(self, mail: Unread, requests: list[Request]) -> None:
        limits = [request.deadline_s for request in requests if request.deadline_s is not None]
        deadline_s = max(limits) - REPLY_S if limits else None
        self.open += 1

        def done(reply: WakeOffered | None, error: TermalError | None) -> None:
            self.open -= 1
            fault("wake.offered")
            outcome: Outcome = "durableButNotWoken"
            if reply is not None:
                outcome = reply.outcome
            elif error is not None:
                self._log.repeating("wake.not_offered", sessionId=mail.session_id, error=error.message)
            if outcome == "durableButNotWoken":
                self._failed()
            for request in requests:
                request.reply(Notified(outcome))

        fault("wake.before_offer")
        self._state.call(QUEUE_OFFER, OfferWake(mail.session_id, wake_of(mail)), done, deadline_s=deadline_s)
