"""What `state` and `coordination` ask of `wake` besides telling it of new mail: passed on, worded, answered."""

import math
import time

from termal.bus.client import Client
from termal.bus.server import Handler, Request
from termal.wire.errors import TermalError
from termal.wire.mail_operations import (
    MAILBOX_MARK,
    MAILBOX_UNREAD_OF,
    MAILBOX_UNWOKEN,
    AskUnwoken,
    Marks,
    MaybeUnread,
    UnreadOf,
    Unwoken,
)
from termal.wire.queue_operations import QUEUE_RETRACT, RetractWakes
from termal.wire.turns import Anything
from termal.wire.wake_operations import (
    WAKE_PREPARE,
    WAKE_REBUILD,
    WAKE_REPORT,
    WAKE_RETRACT,
    Prepare,
    Prepared,
    Rebuilt,
)
from workers.wake.wording import wake_of

REPLY_S = 0.02
"""Kept of a deadline for the answer."""


class Requests:
    def __init__(self, state: Client, coordination: Client) -> None:
        self._state = state
        self._coordination = coordination

    def table(self) -> dict[str, Handler]:
        return {
            WAKE_RETRACT.name: self._retract,
            WAKE_PREPARE.name: self._prepare,
            WAKE_REBUILD.name: self._rebuild,
            WAKE_REPORT.name: self._report,
        }

    def _retract(self, request: Request, body: RetractWakes) -> None:
        def done(reply: Anything | None, error: TermalError | None) -> None:
            _answer(request, reply, error)

        self._state.call(QUEUE_RETRACT, body, done, deadline_s=request.deadline_s)

    def _prepare(self, request: Request, body: Prepare) -> None:
        """Nothing may be concluded from an answer that storage did not give."""

        def done(reply: Unwoken | None, error: TermalError | None) -> None:
            if reply is None:
                request.reply(Prepared([], asked=False))
                return
            head = None if reply.head is None else wake_of(reply.head)
            request.reply(Prepared([wake_of(mail) for mail in reply.mail], head, settled=reply.settled))

        self._coordination.call(
            MAILBOX_UNWOKEN,
            AskUnwoken(body.session_id, head=body.head),
            done,
            deadline_s=None if request.deadline_s is None else max(time.monotonic(), request.deadline_s - REPLY_S),
        )

    def _rebuild(self, request: Request, body: UnreadOf) -> None:
        def done(reply: MaybeUnread | None, error: TermalError | None) -> None:
            rebuilt = None if reply is None else Rebuilt(None if reply.mail is None else wake_of(reply.mail))
            _answer(request, rebuilt, error)

        self._coordination.call(MAILBOX_UNREAD_OF, body, done, deadline_s=request.deadline_s)

    def _report(self, request: Request, body: Marks) -> None:
        """Answered when it is stored, however long that takes: state repeats it to the next of us."""

        def done(reply: Anything | None, error: TermalError | None) -> None:
            _answer(request, reply, error)

        self._coordination.call(MAILBOX_MARK, body, done, deadline_s=math.inf)


def _answer(request: Request, reply: object | None, error: TermalError | None) -> None:
    if error is not None:
        request.refuse(error)
    else:
        request.reply(reply)
