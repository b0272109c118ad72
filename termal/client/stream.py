"""Server-sent events: bytes in, named events out. Knows the text format, not what the events mean."""

from collections.abc import Iterable, Iterator

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


def parse_events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """The events in the bytes of a stream; comments are dropped, an event cut off at the end as well."""
    name, data = "", list[str]()
    for line in _lines(chunks):
        if not line:
            if data:
                yield Event(name or "message", "\n".join(data))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    # Not str.splitlines or httpx's iter_lines: they also break at U+2028 and its like, which JSON text may hold.
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
