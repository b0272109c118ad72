"""Facts that another worker must record: committed here first, then sent until the receiver confirms each.

It knows neither what an entry says nor where it is stored; who uses it commits an entry before it is put in, and takes
it out of the store when it is confirmed.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from termal.bus.client import Client
from termal.bus.loop import Loop, Timer
from termal.log import Log
from termal.wire.errors import TermalError

FIRST_RETRY_S = 0.25
LAST_RETRY_S = 30.0

EntryT = TypeVar("EntryT")
Ended = Callable[[object, TermalError | None], None]
"""What `Client.call` runs at its end."""


class Outbox(Generic[EntryT]):
    """``lane`` gives the key within which entries are sent one after the other; lanes do not wait for each other.

    ``send`` makes a call without a deadline and hands its end on; ``confirmed`` takes an entry out of the store.
    """

    def __init__(
        self,
        loop: Loop,
        link: Callable[[], Client],
        *,
        name: str,
        lane: Callable[[EntryT], str],
        send: Callable[[Client, EntryT, Ended], object],
        confirmed: Callable[[EntryT], None],
        log: Log,
    ) -> None:
        self._loop = loop
        self._link = link
        self._name = name
        self._lane = lane
        self._send = send
        self._confirmed = confirmed
        self._log = log
        self._lanes: dict[str, _Lane[EntryT]] = {}
        self._client: Client | None = None

    def put(self, *entries: EntryT) -> None:
        """Send ``entries``, which are committed, after what waits before them."""
        for entry in entries:
            key = self._lane(entry)
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane()
            lane.entries.append(entry)
            if not lane.busy:
                self._next(key, lane)

    def _next(self, key: str, lane: "_Lane[EntryT]") -> None:
        entry = lane.entries[0]
        lane.timer = None
        lane.under_way = True
        client = self._client
        if client is None:
            client = self._client = self._link()
            client.on_up.append(self._came_back)

        def ended(_: object, error: TermalError | None) -> None:
            lane.under_way = False
            if error is not None:
                self._failed(key, lane, error)
                return
            lane.entries.popleft()
            lane.delay_s = FIRST_RETRY_S
            self._confirmed(entry)
            if lane.entries:
                self._next(key, lane)
            else:
                del self._lanes[key]

        try:
            self._send(client, entry, ended)
        except TermalError as error:
            # It never left; nothing that waits in another lane may suffer.
            ended(None, error)

    def _failed(self, key: str, lane: "_Lane[EntryT]", error: TermalError) -> None:
        self._log.repeating("outbox.failed", outbox=self._name, entry=key, error=error.message)
        lane.timer = self._loop.later(lane.delay_s, lambda: self._next(key, lane))
        lane.delay_s = min(lane.delay_s * 2, LAST_RETRY_S)

    def _came_back(self) -> None:
        """A restarted receiver ends the wait: what it failed at may work now."""
        for key, lane in list(self._lanes.items()):
            lane.delay_s = FIRST_RETRY_S
            if lane.timer is not None:
                lane.timer.cancel()
                self._next(key, lane)


class _Lane(Generic[EntryT]):
    """``timer`` runs while the first entry waits to be sent again."""

    __slots__ = ("delay_s", "entries", "timer", "under_way")

    def __init__(self) -> None:
        self.entries: deque[EntryT] = deque()
        self.delay_s = FIRST_RETRY_S
        self.timer: Timer | None = None
        self.under_way = False

    @property
    def busy(self) -> bool:
        return self.under_way or self.timer is not None
