"""gunicorn's logger as this project's log: JSON lines in the data directory, nothing on a terminal, no access log."""

import traceback
from typing import Any

from termal.log import Log


class GunicornJournal:
    """The part of gunicorn's logger that the arbiter and its worker call. ``log`` may be replaced after the fork."""

    access_log_enabled = False
    cfg = None

    def __init__(self, log: Log) -> None:
        self.log = log

    def setup(self, cfg: Any) -> None:
        """The configuration has no say here."""

    def critical(self, message: str, *parts: Any, **_: Any) -> None:
        self.log.error("gunicorn.critical", text=_text(message, parts))

    def error(self, message: str, *parts: Any, exc_info: Any = None, **_: Any) -> None:
        self.log.error("gunicorn.error", text=_text(message, parts), stack=traceback.format_exc() if exc_info else None)

    def exception(self, message: Any, *parts: Any, **_: Any) -> None:
        self.log.error("gunicorn.exception", text=_text(message, parts), stack=traceback.format_exc())

    def warning(self, message: str, *parts: Any, **_: Any) -> None:
        self.log.warning("gunicorn.warning", text=_text(message, parts))

    def info(self, message: str, *parts: Any, **_: Any) -> None:
        self.log.debug("gunicorn.info", text=_text(message, parts))

    def debug(self, message: str, *parts: Any, **_: Any) -> None:
        """Far too much of it, one line per request."""

    def access(self, *_: Any) -> None:
        """There is no access log: ``/metrics`` counts, and failures have their own lines."""

    def reopen_files(self) -> None:
        """The log rotates by itself."""

    def close_on_exec(self) -> None:
        """Its descriptor is."""


def _text(message: Any, parts: tuple[Any, ...]) -> str:
    return str(message) % parts if parts else str(message)
