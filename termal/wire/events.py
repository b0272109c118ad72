"""What state publishes: the final bytes of one server-sent event, which the gateway passes through."""

from typing import Literal

import msgspec

EventName = Literal["state", "delta"]


class Published(msgspec.Struct, frozen=True, array_like=True):
    """One event for every stream: its SSE name and its ``data`` (one line of JSON that carries its revision)."""

    name: EventName
    revision: int
    json: bytes
