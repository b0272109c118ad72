"""The values of a board: any JSON, read strictly, with one canonical form by which two of them are compared."""

from typing import Any

import msgspec

from termal.rules.nesting import deeper_than
from termal.rules.verdicts import Bad, Malformed

MOST_NESTING = 127
"""Arrays and objects inside each other, beyond which a text is not read at all."""
MOST_DEPTH = 32
MOST_BYTES = 4096
"""Of the canonical form."""
_LOWEST, _HIGHEST = -(2**63), 2**64 - 1

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder(order="sorted")


def read_value(text: bytes) -> Any:
    """The value of a JSON text; of two members with one name the last one counts.

    Whole numbers beyond 64 bits become floats, and ``-0`` is the negative zero: so they hash as they always did.
    Raises `Malformed`: NaN, half a surrogate pair, a number beyond any float and endless nesting are no JSON.
    """
    try:
        value = _decoder.decode(text)
        if b"-0" in text:
            value = _with_negative_zeros(text)
        return _normal(value)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise Malformed(f"the value is not JSON: {error}", reason="json") from error


def compact(text: bytes) -> bytes:
    """The canonical form of a text of any size and depth, for a value on its way. Raises `Malformed`."""
    return _encoder.encode(read_value(text))


def checked_value(value: Any) -> bytes:
    """The canonical form: keys sorted by code points, no white space, nothing escaped without need. Raises `Bad`."""
    if deeper_than(value, MOST_DEPTH):
        raise Bad(f"the value is nested deeper than {MOST_DEPTH} levels", reason="valueDepth")
    text = _encoder.encode(value)
    if len(text) > MOST_BYTES:
        raise too_large(len(text))
    return text


def too_large(size_bytes: int) -> Bad:
    return Bad(f"a value has at most {MOST_BYTES} bytes in its canonical form, not {size_bytes}", reason="valueSize")


def _with_negative_zeros(text: bytes) -> Any:
    # Rare, and slow to import. The text is valid by now, so only the reading of whole numbers differs.
    import json  # noqa: PLC0415

    return json.loads(text, parse_int=lambda digits: -0.0 if digits == "-0" else int(digits))


def _normal(value: Any) -> Any:
    """``value`` with its numbers in order, changed in place. Raises ValueError, OverflowError."""
    root = [value]
    waiting: list[tuple[dict[Any, Any] | list[Any], int]] = [(root, 0)]
    while waiting:
        inner, level = waiting.pop()
        if level > MOST_NESTING:
            raise ValueError(f"it is nested deeper than {MOST_NESTING} levels")
        for key, part in list(inner.items() if isinstance(inner, dict) else enumerate(inner)):
            if isinstance(part, dict | list):
                waiting.append((part, level + 1))
            elif type(part) is int and not _LOWEST <= part <= _HIGHEST:
                inner[key] = float(part)
    return root[0]
