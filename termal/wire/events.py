"""What state publishes: the final bytes of one server-sent event, which the gateway passes through."""

from typing import Literal

import msgspec

EventName = Literal["state", "delta", "workspaceFilesChanged"]


class Published(msgspec.Struct, frozen=True, array_like=True):
    """One event for every stream: its SSE name and its ``data`` (one line of JSON). ``revision``: that of ``data``, or
    what everybody knows by now where ``data`` has one of its own kind."""

    name: EventName
    revision: int
    json: bytes
