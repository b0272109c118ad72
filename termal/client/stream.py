"""Server-sent events: bytes in, named events out. Knows the text format, not what the events mean."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

import msgspec

from termal.client.replies import Delta, State

_state = msgspec.json.Decoder(State).decode
_delta = msgspec.json.Decoder(Delta).decode


class Event(msgspec.Struct, frozen=True):
    """``name`` is ``state``, ``delta``, ``lagged`` or another that this client skips; ``data`` is mostly JSON."""

    name: str
    data: str

    def state(self) -> State:
        return _state(self.data)

    def delta(self) -> Delta:
        return _delta(self.data)


class Parser:
    """Takes a stream piece by piece. Comments are dropped, an event cut off at the end as well."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that ``chunk`` completes."""
        # Not str.splitlines or httpx's iter_lines: they also break at U+2028 and its like, which JSON text may hold.
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        events = []
        for line in lines:
            event = self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))
            if event is not None:
                events.append(event)
        return events

    def _line(self, line: str) -> Event | None:
        if not line:
            name, data = self._name, self._data
            self._name, self._data = "", []
            return Event(name or "message", "\n".join(data)) if data else None
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        return None


def parse_events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """The events in the bytes of a stream, each as soon as it is complete."""
    parser = Parser()
    for chunk in chunks:
        yield from parser.feed(chunk)


async def parse_async_events(chunks: AsyncIterable[bytes]) -> AsyncIterator[Event]:
    parser = Parser()
    async for chunk in chunks:
        for event in parser.feed(chunk):
            yield event
