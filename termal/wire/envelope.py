"""The envelope of every ZeroMQ message: an array of (header, body) pairs, packed with msgpack under size limits.

What waits for one peer in one pass of a loop travels as one message. Headers are plain arrays so that the two sides
need no schema for them; a body is bytes and is decoded by whoever knows its operation.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgpack

PROTOCOL = 1
MAX_MESSAGE_BYTES = 48 << 20
"""A 16 MiB HTTP body fits, with room for what is packed beside it. ZeroMQ cuts the connection of a longer message."""
MAX_BODY_BYTES = MAX_MESSAGE_BYTES - (4 << 10)
"""The rest is for the longest header."""
MAX_PACK = 1024
"""Envelopes in one message, at most: a bound for the receiver, far above what one pass collects."""
PACK = 256
"""Envelopes that a sender puts into one message."""
PACK_BYTES = 1 << 20
"""A message is closed once it holds this much, so that small envelopes never wait behind many large ones."""
MAX_TEXT_BYTES = 512
_HEADER_FIELDS = 6
_REPLY_FIELDS = 3
_CHARACTER_BYTES = 4
_FOREVER = float("inf")

OK = 0
FAILED = 1


class MalformedFrame(ValueError):
    """A message that is not what this protocol version sends. The receiver drops it whole and logs it."""


class Unsendable(ValueError):
    """A body or a text of a header beyond its limit, or a text that is no Unicode: no receiver would take it."""


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


def pack_request(envelope: Envelope) -> bytes:
    """One pair, for `messages`. Raises `Unsendable`."""
    number, op, deadline, caller, trace, body = envelope
    if len(op) + len(caller) + len(trace) > MAX_TEXT_BYTES // _CHARACTER_BYTES:
        _check_texts(op, caller, trace)
    return _pair((PROTOCOL, number, op, deadline, caller, trace), body)


def pack_answer(answer: Answer) -> bytes:
    """One pair, for `messages`. Raises `Unsendable`."""
    return _pair((PROTOCOL, answer.id, answer.status), answer.body)


def pack_event(event: Event) -> bytes:
    """One pair, for `messages`. Raises `Unsendable`."""
    return _pair((PROTOCOL, event.epoch, event.number), event.body)


def messages(pairs: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """The pairs as few messages, in order: how many pairs each message carries, and its bytes."""
    start = size = 0
    for place, pair in enumerate(pairs):
        if place > start and (place - start == PACK or size + len(pair) > PACK_BYTES):
            yield place - start, _array(pairs[start:place])
            start, size = place, 0
        size += len(pair)
    if start < len(pairs):
        yield len(pairs) - start, _array(pairs[start:])


def pack_requests(envelopes: Iterable[Envelope]) -> bytes:
    return _array([pack_request(envelope) for envelope in envelopes])


def pack_answers(answers: Iterable[Answer]) -> bytes:
    return _array([pack_answer(answer) for answer in answers])


def pack_events(events: Iterable[Event]) -> bytes:
    return _array([pack_event(event) for event in events])


def unpack_requests(frame: bytes) -> list[Envelope]:
    """Raises `MalformedFrame`."""
    out = []
    for header, body in _unpack(frame, _HEADER_FIELDS):
        _, number, op, deadline, caller, trace = header
        typed = (
            type(number) is int
            and type(op) is str
            and type(deadline) is float
            and type(caller) is str
            and type(trace) is str
        )
        if not typed:
            raise MalformedFrame("a request header has a field of the wrong type")
        if not 0.0 <= deadline < _FOREVER:
            raise MalformedFrame("a deadline is no time")
        out.append(Envelope(number, op, deadline, caller, trace, body))
    return out


def unpack_answers(frame: bytes) -> list[Answer]:
    """Raises `MalformedFrame`."""
    out = []
    for header, body in _unpack(frame, _REPLY_FIELDS):
        _, number, status = header
        if not (type(number) is int and type(status) is int):
            raise MalformedFrame("a reply header has a field of the wrong type")
        out.append(Answer(number, status, body))
    return out


def unpack_events(frame: bytes) -> list[Event]:
    """Raises `MalformedFrame`."""
    out = []
    for header, body in _unpack(frame, _REPLY_FIELDS):
        _, epoch, number = header
        if not (type(epoch) is str and type(number) is int):
            raise MalformedFrame("an event header has a field of the wrong type")
        out.append(Event(epoch, number, body))
    return out


# PERF: one packer for all pairs, 0.6 us for each against 1.3 of `msgpack.packb`, which makes a packer and its buffer
# each time. It runs no Python code while it packs plain values, so the lock of the interpreter covers it.
_packer = msgpack.Packer(use_bin_type=True)


def _pair(header: tuple[object, ...], body: bytes) -> bytes:
    if len(body) > MAX_BODY_BYTES:
        raise Unsendable(f"a body of {len(body)} bytes; the limit is {MAX_BODY_BYTES}")
    try:
        packed: bytes = _packer.pack((header, body))
    except UnicodeEncodeError as error:
        raise Unsendable("a text of a header is no Unicode text") from error
    return packed


def _array(pairs: Sequence[bytes]) -> bytes:
    count = len(pairs)
    head = bytes((0x90 | count,)) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
    return b"".join((head, *pairs))


def _check_texts(*texts: str) -> None:
    for text in texts:
        if len(text.encode(errors="replace")) > MAX_TEXT_BYTES:
            raise Unsendable(f"a text of a header is longer than {MAX_TEXT_BYTES} bytes")


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
        if not (isinstance(header, tuple) and len(header) == fields and type(header[0]) is int):
            raise MalformedFrame("a header of another shape")
        if header[0] != PROTOCOL:
            raise MalformedFrame(f"protocol version {header[0]}, this side speaks {PROTOCOL}")
    return list(pairs)
