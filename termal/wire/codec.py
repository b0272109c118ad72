"""Typed bodies: msgspec's codec of the msgpack format, one decoder per type, made once."""

from functools import cache
from typing import Any, TypeVar

import msgspec

from termal.wire.errors import InvalidRequest

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
"""Any record of the wire to msgpack bytes."""

_json = msgspec.json.Encoder()
encode_json = _json.encode
"""Any record to compact JSON bytes."""


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def decode(body: bytes, kind: type[T]) -> T:
    """The record in ``body``. Raises `InvalidRequest` where it is none of ``kind``: nothing may happen before that."""
    try:
        record: T = _decoder(kind).decode(body)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"the message does not match {kind.__name__}: {error}", reason="wire_schema") from error
    return record
