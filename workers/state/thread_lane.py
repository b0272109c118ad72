"""A thread for work that may take long, file systems and git above all: the loop goes on answering meanwhile."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class ThreadLane:
    """Jobs one after the other, on a thread that the first one starts. A job must not raise: that would end it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: Thread | None = None

    def put(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(job)

    def _serve(self) -> None:
        while True:
            self._queue.get()()
