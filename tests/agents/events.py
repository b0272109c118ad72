"""Listens to the daemon's event stream in a thread, for tests."""

import contextlib
import json
import threading
from types import TracebackType
from typing import Any

import httpx


class Events:
    """``with Events(url) as events``: what came so far is in ``seen``, as pairs of event name and data."""

    def __init__(self, url: str) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.begun = threading.Event()
        self._url = url
        self._client = httpx.Client(timeout=httpx.Timeout(5, read=None))
        self._thread = threading.Thread(target=self._listen, name="events")
        self._answer: httpx.Response | None = None

    def deltas(self, kind: str, session_id: str) -> list[dict[str, Any]]:
        return [
            data
            for name, data in tuple(self.seen)
            if name == "delta" and data["type"] == kind and data.get("sessionId") == session_id
        ]

    def __enter__(self) -> "Events":
        self._thread.start()
        assert self.begun.wait(10), "the event stream never began"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._answer is not None:
            # The only way to end a read that waits is to take its connection away.
            stream = self._answer.extensions["network_stream"]
            with contextlib.suppress(OSError):
                stream.get_extra_info("socket").shutdown(2)
        self._thread.join(10)
        self._client.close()

    def _listen(self) -> None:
        name = ""
        with contextlib.suppress(httpx.HTTPError), self._client.stream("GET", f"{self._url}/api/events") as answer:
            self._answer = answer
            for line in answer.iter_lines():
                if line.startswith("event:"):
                    name = line[6:].strip()
                elif line.startswith("data:"):
                    self.seen.append((name, json.loads(line[5:])))
                    self.begun.set()
