"""The whole operation table: importing this module makes every operation known to a server."""

from termal.wire import (
    coordination_operations,
    queue_operations,
    runtime_operations,
    session_operations,
    settings_operations,
    transcript_operations,
)
from termal.wire.operation import OPERATIONS

__all__ = [
    "OPERATIONS",
    "coordination_operations",
    "queue_operations",
    "runtime_operations",
    "session_operations",
    "settings_operations",
    "transcript_operations",
]
