"""Following one session over HTTP: the event stream, gaps repaired by reading again, lost connections made anew."""

import threading
import time
from collections.abc import Iterator

from termal.client.errors import Unreachable
from termal.client.http import Http
from termal.client.stream import Event
from termal.client.transcript import Gap, Transcript, Update
from termal.model.message import Message
from termal.wire.errors import Busy, NotFound, OutcomeUnknown

WINDOW = 64
"""Most messages that the daemon answers at once."""
LOST_S = 10.0
"""Without any connection, or with none that brings news, for this long the daemon is taken for gone."""
RECONNECT_S = 0.1
AWAY = (Unreachable, Busy, OutcomeUnknown)
"""A killed worker is back in a moment; what was missed meanwhile is read again."""


def follow(
    http: Http, session_id: str, *, tail: int = 1, lost_s: float = LOST_S, stop: threading.Event | None = None
) -> Iterator[Update]:
    """What happens in a session from its newest ``tail`` messages on, nothing left out and nothing twice.

    Ends when the session is killed, or when the stream ends after ``stop`` was set. Raises `NotFound` for an unknown
    session; `Unreachable`, or what the daemon answered instead, when it could not be read for ``lost_s`` seconds.
    """
    transcript = Transcript(session_id)
    stop, lost_at = stop or threading.Event(), 0.0
    while not stop.is_set():
        try:
            with http.events() as events:
                for event in events:
                    updates = _updates(http, transcript, event, tail)
                    lost_at = 0.0
                    yield from updates
        except AWAY:
            lost_at = still_away(lost_at, lost_s)
        except NotFound:
            if transcript.status is None:
                raise
            return
        stop.wait(RECONNECT_S)


def still_away(lost_at: float, lost_s: float) -> float:
    """When the connection was lost. To be called while an error is handled, which is raised again when it is over."""
    lost_at = lost_at or time.monotonic()
    if time.monotonic() - lost_at >= lost_s:
        raise  # noqa: PLE0704 - the error that the caller is handling
    return lost_at


def _updates(http: Http, transcript: Transcript, event: Event, tail: int) -> list[Update]:
    if event.name == "state":
        return _adopt(http, transcript, tail)
    if event.name != "delta":
        return []
    try:
        return transcript.apply(event.delta())
    except Gap:
        return _adopt(http, transcript, tail)


def _adopt(http: Http, transcript: Transcript, tail: int) -> list[Update]:
    first_time = transcript.status is None
    reply = http.read_session(transcript.session_id, tail if first_time else WINDOW)
    start = reply.session.message_count - len(reply.session.messages)
    missing = [] if first_time else _between(http, transcript, start)
    return transcript.adopt(reply, missing)


def _between(http: Http, transcript: Transcript, start: int) -> list[Message]:
    """Messages from the end of ``transcript`` to position ``start``: more than a window came while nobody listened."""
    missing: list[Message] = []
    last = next(reversed(transcript.messages), None)
    while last is not None and transcript.end + len(missing) < start:
        page = http.history(transcript.session_id, after=last)
        if not page.messages:
            break
        missing += page.messages
        last = page.messages[-1].id
    return missing[: max(0, start - transcript.end)]
