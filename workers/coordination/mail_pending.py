"""Stored messages whose dispatch outcome is being found out, and the requests that wait for it. Memory of this life.

Entries are made and ended on the loop's thread; other threads may look up ids and copy them.
"""

from collections.abc import Callable, Iterable
from functools import partial

from termal.bus.loop import Loop
from termal.wire.errors import Busy, TermalError
from workers.coordination.alarm import Alarm

Ended = Callable[[str | None, TermalError | None], None]
"""Gets the recorded outcome, None when none could be recorded; or why the wait ended before that."""


class Pending:
    def __init__(self, loop: Loop) -> None:
        self._waiting: dict[str, list[tuple[float, Ended]]] = {}
        self._alarm = Alarm(loop, take_late=self._take_late, deadlines=self._deadlines)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def copy(self) -> frozenset[str]:
        return frozenset(self._waiting)

    def begin(self, message_id: str) -> None:
        """Before the message is committed. Whoever begins an entry ends it on every path by `release`."""
        self._waiting[message_id] = []

    def wait(self, message_id: str, deadline_s: float, ended: Ended) -> bool:
        """Have ``ended`` called at the release or the deadline; False for a message that is not pending."""
        waiters = self._waiting.get(message_id)
        if waiters is None:
            return False
        waiters.append((deadline_s, ended))
        self._alarm.by(deadline_s)
        return True

    def release(self, message_id: str, outcome: str | None) -> None:
        for _, ended in self._waiting.pop(message_id, ()):
            ended(outcome, None)

    def _take_late(self, now: float) -> list[Callable[[], None]]:
        late: list[Ended] = []
        for message_id, waiters in self._waiting.items():
            due = [ended for deadline_s, ended in waiters if deadline_s <= now]
            if due:
                late += due
                self._waiting[message_id] = [waiter for waiter in waiters if waiter[0] > now]
        return [partial(ended, None, still_finalizing()) for ended in late]

    def _deadlines(self, _: float) -> Iterable[float]:
        return (deadline_s for waiters in self._waiting.values() for deadline_s, _ in waiters)


def still_finalizing() -> Busy:
    return Busy(
        "the message is stored; who is told of it is still being found out. Repeat the same idempotency key",
        code="original_append_durable",
        reason="finalizing",
    )
