"""Deleted sessions leave their mailboxes: committed here with the deletion, told to coordination until it confirms."""

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from termal.bus.client import Client
from termal.bus.loop import Loop
from termal.clock import microsecond_text
from termal.faults import fault
from termal.log import Log
from termal.model.stored import Departure
from termal.wire.mail_operations import SESSION_DEPART, Depart
from workers.state.change import Book
from workers.state.links import Links
from workers.state.outbox import Ended, Outbox
from workers.state.session_record import SessionRecord

_PENDING: Final = "pending_mailbox_departures"


class Leaving(NamedTuple):
    """Sessions that were deleted in one commit."""

    session_ids: tuple[str, ...]
    at: str


class Departures:
    def __init__(self, book: Book, loop: Loop, links: Links, log: Log) -> None:
        self._book = book
        self._outbox: Outbox[Leaving] = Outbox(
            loop,
            lambda: links.to("coordination"),
            name="departures",
            # One after the other: there is one line of writes behind them anyway.
            lane=lambda _: "departures",
            send=_send,
            confirmed=self._confirmed,
            log=log,
        )
        self._waiting: dict[Leaving, Callable[[], None]] = {}

    def begin(self) -> None:
        """The start is stored: go on with what an earlier life has committed."""
        pending: list[Departure] = self._book.registry.pending(_PENDING)
        for at, together in groupby(pending, key=lambda departure: departure.left_at):
            self._outbox.put(Leaving(tuple(departure.session_id for departure in together), at))

    def add(self, doomed: Sequence[SessionRecord]) -> Leaving:
        """Within the commit that deletes ``doomed``."""
        leaving = Leaving(tuple(record.id for record in doomed), _now())
        more = [Departure(session_id, leaving.at) for session_id in leaving.session_ids]
        registry = self._book.registry
        registry.set_pending(_PENDING, [*registry.pending(_PENDING), *more])
        return leaving

    def send(self, leaving: Leaving, confirmed: Callable[[], None]) -> None:
        """After that commit; ``confirmed`` runs once the mailboxes know."""
        self._waiting[leaving] = confirmed
        self._outbox.put(leaving)

    def _confirmed(self, leaving: Leaving) -> None:
        fault("state.departed_before_commit")
        registry = self._book.registry
        pending: list[Departure] = registry.pending(_PENDING)
        registry.set_pending(_PENDING, [left for left in pending if left.session_id not in leaving.session_ids])
        self._book.journal.touch_metadata()
        waiting = self._waiting.pop(leaving, None)
        if waiting is not None:
            waiting()


def _send(client: Client, leaving: Leaving, ended: Ended) -> object:
    return client.call(SESSION_DEPART, Depart(list(leaving.session_ids), leaving.at), ended)


def _now() -> str:
    """RFC 3339 UTC as all times of mail: their texts sort as they do."""
    return microsecond_text(time.time_ns())
