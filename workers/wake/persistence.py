"""Requests that must be carried out: repeated after every failure, with growing pauses, until they succeed."""

import math
from collections.abc import Callable
from typing import TypeVar

from termal.bus.client import Client
from termal.bus.loop import Loop
from termal.log import Log
from termal.wire.errors import TermalError
from termal.wire.operation import Operation

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

FIRST_RETRY_S = 0.25
LAST_RETRY_S = 30.0


class Persistence:
    def __init__(self, loop: Loop, log: Log) -> None:
        self._loop = loop
        self._log = log

    def ask(
        self,
        client: Client,
        op: Operation[RequestT, ReplyT],
        request: RequestT,
        then: Callable[[ReplyT], None],
        *,
        delay_s: float = FIRST_RETRY_S,
    ) -> None:
        """Call ``then`` with the reply. A worker that is away is waited for; it gets the request when it is back."""

        def again() -> None:
            self.ask(client, op, request, then, delay_s=min(delay_s * 2, LAST_RETRY_S))

        def done(reply: ReplyT | None, error: TermalError | None) -> None:
            if error is not None:
                self._log.repeating("wake.retried", operation=op.name, error=error.message)
                self._loop.later(delay_s, again)
                return
            assert reply is not None
            then(reply)

        client.call(op, request, done, deadline_s=math.inf)
