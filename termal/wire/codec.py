"""Typed bodies: msgspec's codec of the msgpack format, one decoder per type, made once."""

from typing import Any, TypeVar

import msgspec

from termal.wire.errors import InvalidRequest

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
"""Any record of the wire to msgpack bytes. Raises `UNENCODABLE` where the record holds what msgpack cannot say."""

UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""What `encode` raises: a value of a foreign type, a number beyond 64 bits, a lone surrogate, endless nesting."""

_json = msgspec.json.Encoder()
encode_json = _json.encode
"""Any record to compact JSON bytes."""

_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def decode(body: bytes, kind: type[T]) -> T:
    """The record in ``body``. Raises `InvalidRequest` where it is none of ``kind``: nothing may happen before that."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        record: T = decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"the message does not match {kind.__name__}: {error}", reason="wireSchema") from error
    return record
