"""A callback that runs at the first of several occasions, and then never again."""

from collections.abc import Callable


class Once:
    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def run(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
