"""When the full-text index follows the transcripts: in slices behind the commits, one at a time, never before the first
commit of a start. It never holds up a request and fails none.
"""

import time
from collections.abc import Callable

from termal.bus.loop import Loop
from termal.log import Log
from termal.store.connection import StoreError
from termal.store.writer import Writer
from workers.state import search_index
from workers.state.journal import Journal
from workers.state.once import Once

BEHIND_S = 0.2
"""After a commit: what is written in the meantime, a stream above all, is indexed once."""
PAUSE_S = 0.01
"""Between two slices while nothing else is written."""
SHARE = 19
"""While sessions are written to, a pause is so many times as long as the slice before it: they have the writer."""
LONGEST_PAUSE_S = 0.5
CATCH_UP_S = 0.3
"""So long a search waits for what was stored before it; after that it says that it is not complete."""
TROUBLE_S = 5.0
REBUILDS = 3
"""In one life of the worker; what fails after that is left as it is until the next."""

Callback = Callable[[], None]


class Indexer:
    def __init__(self, loop: Loop, writer: Writer, journal: Journal, log: Log) -> None:
        self._loop = loop
        self._writer = writer
        self._log = log
        self._behind = False
        self._working = False
        self._planned = False
        self._crowded = False
        self._began_s = 0.0
        self._rebuilds = 0
        self._waiting: list[Callback] = []
        self._served: list[Callback] = []
        journal.on_room.append(self.poke)

    def poke(self) -> None:
        """Something was committed."""
        self._behind = True
        self._crowded = True
        self._plan(BEHIND_S)

    def catch_up(self, callback: Callback) -> None:
        """Run ``callback`` once everything is indexed that is stored now, at the latest in `CATCH_UP_S`."""
        if not (self._behind or self._working):
            callback()
            return
        once = Once(callback)
        self._waiting.append(once.run)
        self._loop.later(CATCH_UP_S, once.run)
        self._work()

    def rebuild(self) -> None:
        """The index is damaged: make it anew from the transcripts."""
        if self._working or self._rebuilds >= REBUILDS:
            return
        self._log.error("search.index_damaged")
        self._rebuilds += 1
        self._behind = True
        self._working = True
        self._writer.submit(search_index.rebuild, self._rebuilt)

    def _plan(self, delay_s: float) -> None:
        if not (self._planned or self._working):
            self._planned = True
            self._loop.later(delay_s, self._due)

    def _due(self) -> None:
        self._planned = False
        self._work()

    def _work(self) -> None:
        if self._working or not self._behind:
            return
        self._working = True
        self._behind = False
        self._crowded = False
        self._began_s = time.monotonic()
        self._served += self._waiting
        self._waiting = []
        self._writer.submit(search_index.advance, self._advanced)

    def _advanced(self, left: search_index.Left | None, error: Exception | None) -> None:
        self._working = False
        if error is not None:
            # What the disk or a lock did is tried again by the writer: this is the index's own fault.
            if isinstance(error, StoreError) and self._rebuilds < REBUILDS:
                self.rebuild()
            else:
                self._trouble(error)
            return
        if left != "marked":
            self._release()
        self._behind = self._behind or left != "nothing"
        if self._served or self._waiting:
            self._work()
        elif self._behind:
            self._plan(BEHIND_S if left == "nothing" else self._pause_s())

    def _pause_s(self) -> float:
        if not self._crowded:
            return PAUSE_S
        return min(LONGEST_PAUSE_S, SHARE * (time.monotonic() - self._began_s))

    def _rebuilt(self, _: None, error: Exception | None) -> None:
        self._working = False
        if error is not None:
            self._trouble(error)
        else:
            self._plan(PAUSE_S)

    def _trouble(self, error: Exception) -> None:
        """The transcripts are what counts: they are served while their index is behind."""
        self._log.repeating("search.index_failed", error=repr(error))
        self._behind = True
        self._release()
        self._plan(TROUBLE_S)

    def _release(self) -> None:
        served, self._served = self._served, []
        for callback in served:
            callback()
