"""Both sides of the `wake` worker inside a test: a state with queues and a coordination with mail, as plain lists."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from termal.bus.server import Request
from termal.wire.coordination_operations import COORDINATION_PING
from termal.wire.errors import TermalError
from termal.wire.mail_operations import (
    MAILBOX_MARK,
    MAILBOX_STALE,
    MAILBOX_UNREAD,
    MAILBOX_UNREAD_OF,
    MAILBOX_UNWOKEN,
    AskStale,
    AskUnwoken,
    ListUnread,
    Mark,
    Marks,
    MaybeUnread,
    Stale,
    Unread,
    UnreadOf,
    UnreadPage,
    Unwoken,
)
from termal.wire.queue_operations import (
    QUEUE_MATERIALIZE,
    QUEUE_OFFER,
    QUEUE_RETRACT,
    QUEUE_WAKES,
    Materialized,
    MaterializeWakes,
    OfferWake,
    QueuedWakes,
    RetractWakes,
    WakeOffered,
)
from termal.wire.turns import Anything
from tests.support.bus_peer import serving


def unread(session: str, mailbox: str = "mailbox-1", sequence: int = 1, *, count: int = 1, name: str = "Ada") -> Unread:
    return Unread(
        mailbox_id=mailbox,
        session_id=session,
        message_id=f"{mailbox}-{sequence}",
        sequence=sequence,
        unread_count=count,
        sender_id="session-9",
        sender_name=name,
    )


class WakePeers:
    """What the worker is told (``mail``: all unread, ``never``: what nobody was told of) and what it did.

    ``outcome`` answers each offer. ``error`` is raised by the next request of an operation, by its name, once.
    """

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.mail: list[Unread] = []
        self.never: list[Unread] = []
        self.skipped = 0
        self.queued: list[tuple[str, str, int]] = []
        self.acknowledged: list[tuple[str, str, int]] = []
        self.outcome: WakeOffered = WakeOffered("queuedBehindActiveTurn")
        self.started: set[str] = set()
        self.unknown: set[str] = set()
        self.errors: dict[str, TermalError] = {}
        self.offers: list[OfferWake] = []
        self.retracts: list[RetractWakes] = []
        self.materialized: list[MaterializeWakes] = []
        self.marks: list[Mark] = []
        self.pages = 0
        self._state = contextlib.ExitStack()
        self._coordination = contextlib.ExitStack()

    def state(self) -> "WakePeers":
        """Start to serve as state."""
        self._state.enter_context(
            serving(
                self.run_dir,
                "state",
                {
                    QUEUE_OFFER.name: self._guard(self._offer),
                    QUEUE_RETRACT.name: self._guard(self._retract),
                    QUEUE_MATERIALIZE.name: self._guard(self._materialize),
                    QUEUE_WAKES.name: self._guard(lambda request, _: request.reply(QueuedWakes(self.queued))),
                },
            )
        )
        return self

    def coordination(self) -> "WakePeers":
        """Start to serve as coordination."""
        self._coordination.enter_context(
            serving(
                self.run_dir,
                "coordination",
                {
                    COORDINATION_PING.name: self._guard(lambda request, _: request.reply(Anything())),
                    MAILBOX_UNREAD.name: self._guard(self._page),
                    MAILBOX_UNWOKEN.name: self._guard(self._unwoken),
                    MAILBOX_UNREAD_OF.name: self._guard(self._unread_of),
                    MAILBOX_STALE.name: self._guard(self._stale),
                    MAILBOX_MARK.name: self._guard(self._mark),
                },
            )
        )
        return self

    def state_ends(self) -> None:
        self._state.close()

    def coordination_ends(self) -> None:
        self._coordination.close()

    def close(self) -> None:
        self._state.close()
        self._coordination.close()

    # ------------------------------------------------------------------ the threads of the servers

    def _guard(self, handler: Callable[[Request, Any], None]) -> Callable[[Request, Any], None]:
        def guarded(request: Request, body: Any) -> None:
            error = self.errors.pop(request.op.name, None)
            if error is not None:
                raise error
            handler(request, body)

        return guarded

    def _offer(self, request: Request, body: OfferWake) -> None:
        self.offers.append(body)
        request.reply(self.outcome)

    def _retract(self, request: Request, body: RetractWakes) -> None:
        self.retracts.append(body)
        request.reply(Anything())

    def _materialize(self, request: Request, body: MaterializeWakes) -> None:
        if body.session_id in self.started:
            request.reply(Materialized(known=False, started=True))
        elif body.session_id in self.unknown:
            request.reply(Materialized(known=False))
        else:
            self.materialized.append(body)
            request.reply(Materialized(known=True))

    def _page(self, request: Request, body: ListUnread) -> None:
        self.pages += 1
        after = "" if body.after is None else body.after[0]
        source = self.never if body.only_unwoken else self.mail
        rows = [mail for mail in source if mail.session_id > after]
        last = rows[min(len(rows), body.limit) - 1].session_id if rows else ""
        page = [mail for mail in rows if mail.session_id <= last]
        more = (last, page[-1].mailbox_id) if len(page) < len(rows) else None
        request.reply(UnreadPage(page, more, self.skipped))

    def _unwoken(self, request: Request, body: AskUnwoken) -> None:
        mine = [mail for mail in self.never if mail.session_id == body.session_id]
        head = None if body.head is None else self._find(body.session_id, body.head[0])
        request.reply(Unwoken(mine[: body.limit], head, settled=len(mine) <= body.limit))

    def _unread_of(self, request: Request, body: UnreadOf) -> None:
        request.reply(MaybeUnread(self._find(body.session_id, body.mailbox_id)))

    def _find(self, session: str, mailbox: str) -> Unread | None:
        return next((mail for mail in self.mail if (mail.session_id, mail.mailbox_id) == (session, mailbox)), None)

    def _stale(self, request: Request, body: AskStale) -> None:
        request.reply(Stale([wake for wake in body.wakes if wake in self.acknowledged]))

    def _mark(self, request: Request, body: Marks) -> None:
        self.marks += body.marks
        request.reply(Anything())


@contextmanager
def wake_peers(run_dir: Path) -> Iterator[WakePeers]:
    """Both peers, serving."""
    peers = WakePeers(run_dir)
    try:
        yield peers.coordination().state()
    finally:
        peers.close()
