"""One directory under watch on the worker's loop: read on a thread of its own, then looked at when something happens.

Where nothing tells of changes it is looked at from time to time, on such a thread too.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from termal.bus.loop import Loop, Timer
from termal.procs.folder_watch import Look, Tree, Unwatchable

if TYPE_CHECKING:
    from workers.runtime.workspaces import TurnWatch

COALESCE_S = 0.25
"""What happens within this time of a first change is told with it."""
SCAN_S = 1.0
SCAN_SHARE = 20.0
"""Looking from time to time takes at most this part of the time, and comes at most once in `SCAN_S`."""

OnLook = Callable[["WatchedFolder", Look], None]
OnRefused = Callable[[str, Unwatchable | str], None]


class WatchedFolder:
    """``turns``: who is told. ``over``: there will be no more looks; whoever wants more makes another one."""

    def __init__(self, root: str, tree: Tree, loop: Loop, *, on_look: OnLook, on_refused: OnRefused) -> None:
        self.root = root
        self.turns: set[TurnWatch] = set()
        self.over = False
        self._tree = tree
        self._loop = loop
        self._on_look = on_look
        self._on_refused = on_refused
        self._reading: int | None = None
        self._at_work = False
        self._in_thread = False
        self._closed = False
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._timer: Timer | None = None
        self._on_thread(self._begun, self._tree.begin)

    def catch_up(self) -> None:
        """Look now, where that is a matter of a moment."""
        if self._reading is not None:
            self._loop.remove(self._reading)
            self._reading = None
            self._take(self._tree.look())

    def look(self, then: Callable[[], None]) -> None:
        """Look, and call ``then`` after it: at once, or when a thread has done it."""
        self.catch_up()
        if self.over or self._reading is not None:
            then()
            return
        self._waiting.append(then)
        if not self._at_work:
            self._scan()

    def close(self) -> None:
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._reading is not None:
            self._loop.remove(self._reading)
            self._reading = None
        with self._lock:
            self._closed = True
            if not self._in_thread:
                self._tree.close()

    # ----------------------------------------------------------------- on the loop

    def _begun(self, error: Exception | None) -> None:
        if error is not None:
            self.over = True
            self._on_refused(self.root, error if isinstance(error, Unwatchable) else repr(error))
        elif not self.over:
            if self._tree.fd is not None:
                self._take(self._tree.look())
            elif self._waiting:
                self._scan()
            else:
                self._later(SCAN_S, self._scan)
        self._done_waiting()

    def _take(self, look: Look) -> None:
        """Pass on what was seen, and wait for more."""
        self.over = self.over or look.flooded
        self._on_look(self, look)
        fd = self._tree.fd
        if fd is not None and not self.over:
            self._reading = fd
            self._loop.add(fd, self._readable)

    def _readable(self) -> None:
        """More is to come in a moment, and one look will do for all of it."""
        assert self._reading is not None
        self._loop.remove(self._reading)
        self._later(COALESCE_S, self.catch_up)

    def _scan(self) -> None:
        if self.over or self._at_work:
            return
        begun_s = time.monotonic()
        found: list[Look] = []

        def done(error: Exception | None) -> None:
            if error is not None:
                self.over = True
                self._on_refused(self.root, repr(error))
            elif not self.over:
                self._take(found[0])
                self._later(max(SCAN_S, (time.monotonic() - begun_s) * SCAN_SHARE), self._scan)
            self._done_waiting()

        self._on_thread(done, lambda: found.append(self._tree.look()))

    def _done_waiting(self) -> None:
        if self._at_work:
            return
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def _later(self, delay_s: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.later(delay_s, callback)

    # ---------------------------------------------------------------- on its thread

    def _on_thread(self, done: Callable[[Exception | None], None], work: Callable[[], None]) -> None:
        """A folder on a network may not answer for long: nobody waits for this thread, not even the worker's end."""
        self._at_work = self._in_thread = True

        def finished(error: Exception | None) -> None:
            self._at_work = False
            done(error)

        def run() -> None:
            failure: Exception | None = None
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the border of the thread: its owner hears of it
                failure = error
            with self._lock:
                self._in_thread = False
                if self._closed:
                    # Nobody will ask for it any more, and there may be no loop to tell.
                    self._tree.close()
            self._loop.threadsafe(lambda: finished(failure))

        threading.Thread(target=run, name="workspace", daemon=True).start()
