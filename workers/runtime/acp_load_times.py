"""When conversations were last started: some agents lose one that is loaded too soon after that. Memory only."""

import time
from collections.abc import Callable


class LoadTimes:
    """For agents that lose a conversation which is loaded in the minute of its last start. Made when the worker starts.

    A conversation of which nothing is known was started before this process, at the latest in its first minute.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._began = self._minute()
        self._minutes: dict[str, int] = {}

    def started(self, conversation: str) -> None:
        self._minutes[conversation] = self._minute()

    def wait_s(self, conversation: str) -> float:
        """Seconds until it may be loaded."""
        if self._minutes.get(conversation, self._began) != self._minute():
            return 0.0
        return 60.0 - self._clock() % 60.0 + 1.0

    def _minute(self) -> int:
        return int(self._clock() // 60)
