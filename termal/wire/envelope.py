"""The envelope of every ZeroMQ message: an array of (header, body) pairs, packed with msgpack under size limits.

What waits for one peer in one pass of a loop travels as one message. Headers are plain arrays so that the two sides
need no schema for them; a body is bytes and is decoded by whoever knows its operation.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgpack

PROTOCOL = 1
MAX_MESSAGE_BYTES = 48 << 20
"""A 16 MiB HTTP body fits, with room for what is packed beside it."""
MAX_PACK = 1024
"""Envelopes in one message, at most: a bound for the receiver, far above what one pass collects."""
MAX_TEXT_BYTES = 512
_HEADER_FIELDS = 6
_REPLY_FIELDS = 3

OK = 0
FAILED = 1


class MalformedFrame(ValueError):
    """A message that is not what this protocol version sends. The receiver drops it whole and logs it."""


class Envelope(NamedTuple):
    """One request: ``deadline`` in CLOCK_MONOTONIC seconds, 0.0 for none; ``body`` is msgpack of the request type."""

    id: int
    op: str
    deadline: float
    caller: str
    trace: str
    body: bytes


class Answer(NamedTuple):
    """One reply: status `OK` with a body of the reply type, or `FAILED` with an `ErrorBody`."""

    id: int
    status: int
    body: bytes


class Event(NamedTuple):
    """One published event: ``number`` is dense within ``epoch``; an empty body is a tick, repeating the last number."""

    epoch: str
    number: int
    body: bytes


def pack_requests(envelopes: Iterable[Envelope]) -> bytes:
    return _pack([((PROTOCOL, e.id, e.op, e.deadline, e.caller, e.trace), e.body) for e in envelopes])


def pack_answers(answers: Iterable[Answer]) -> bytes:
    return _pack([((PROTOCOL, a.id, a.status), a.body) for a in answers])


def pack_events(events: Iterable[Event]) -> bytes:
    return _pack([((PROTOCOL, e.epoch, e.number), e.body) for e in events])


def unpack_requests(frame: bytes) -> list[Envelope]:
    """Raises `MalformedFrame`."""
    out = []
    for header, body in _unpack(frame, _HEADER_FIELDS):
        _, number, op, deadline, caller, trace = header
        typed = (
            isinstance(number, int)
            and isinstance(op, str)
            and isinstance(deadline, float)
            and isinstance(caller, str)
            and isinstance(trace, str)
        )
        if not typed:
            raise MalformedFrame("a request header has a field of the wrong type")
        out.append(Envelope(number, op, deadline, caller, trace, body))
    return out


def unpack_answers(frame: bytes) -> list[Answer]:
    """Raises `MalformedFrame`."""
    out = []
    for header, body in _unpack(frame, _REPLY_FIELDS):
        _, number, status = header
        if not (isinstance(number, int) and isinstance(status, int)):
            raise MalformedFrame("a reply header has a field of the wrong type")
        out.append(Answer(number, status, body))
    return out


def unpack_events(frame: bytes) -> list[Event]:
    """Raises `MalformedFrame`."""
    out = []
    for header, body in _unpack(frame, _REPLY_FIELDS):
        _, epoch, number = header
        if not (isinstance(epoch, str) and isinstance(number, int)):
            raise MalformedFrame("an event header has a field of the wrong type")
        out.append(Event(epoch, number, body))
    return out


def _pack(pairs: list[tuple[tuple[object, ...], bytes]]) -> bytes:
    packed: bytes = msgpack.packb(pairs, use_bin_type=True)
    return packed


def _unpack(frame: bytes, fields: int) -> list[tuple[tuple[Any, ...], bytes]]:
    try:
        pairs = msgpack.unpackb(
            frame,
            raw=False,
            use_list=False,
            max_array_len=MAX_PACK,
            max_bin_len=MAX_MESSAGE_BYTES,
            max_str_len=MAX_TEXT_BYTES,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, msgpack.UnpackException) as error:
        raise MalformedFrame("not a msgpack array within the limits") from error
    if not isinstance(pairs, tuple):
        raise MalformedFrame("not an array")
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], bytes)):
            raise MalformedFrame("not an array of (header, body) pairs")
        header = pair[0]
        if not (isinstance(header, tuple) and len(header) == fields and header[0] == PROTOCOL):
            raise MalformedFrame("a header of another shape or protocol version")
    return list(pairs)
