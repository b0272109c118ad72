"""Results on their way from a database thread to the loop's thread: FIFO, whole groups at once, no lock."""

from collections import deque
from collections.abc import Callable
from typing import Any

from termal.log import Log

Notify = Callable[[], None]
Done = Callable[[Any, Exception | None], None]
Entry = tuple[Callable[..., None], tuple[Any, ...]]


class Handover:
    """``notify`` is called from the database's thread; its owner then has `finish` run on the loop's thread.

    ``on_fault`` gets what a callback raised, after it was logged.
    """

    def __init__(self, notify: Notify, log: Log, on_fault: Callable[[Exception], None] | None = None) -> None:
        self._notify = notify
        self._log = log
        self._on_fault = on_fault
        self._ready: deque[list[Entry]] = deque()

    def put(self, entries: list[Entry]) -> None:
        if entries:
            self._ready.append(entries)
            self._notify()

    def finish(self) -> None:
        """Run the callbacks that are ready, in order. One that raises is logged and stops none of the others."""
        while self._ready:
            for callback, arguments in self._ready.popleft():
                try:
                    callback(*arguments)
                except Exception as error:  # noqa: BLE001 - the border between a committed group and its many owners
                    self._log.error("store.callback_failed", error=repr(error))
                    if self._on_fault is not None:
                        self._on_fault(error)
