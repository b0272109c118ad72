"""JSON of an agent as part of a message: taken as it is, or as nothing when it cannot be stored or shown."""

from typing import Any

import msgspec

from termal.rules.nesting import deeper_than

SHOWN_BYTES = 1 << 20
SHOWN_DEPTH = 64


def shown_json(encoded: bytes) -> Any:
    """The value, None for what is no JSON, too large or too deep: a transcript must stay readable whatever an agent
    sends."""
    if len(encoded) > SHOWN_BYTES:
        return None
    try:
        value: Any = msgspec.json.decode(encoded)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if deeper_than(value, SHOWN_DEPTH) else value
