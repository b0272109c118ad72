"""The whole operation table: importing this module makes every operation known to a server."""

from termal.wire import (
    agent_operations,
    board_operations,
    codex_operations,
    coordination_operations,
    delegation_operations,
    mail_operations,
    queue_operations,
    review_operations,
    runtime_operations,
    session_operations,
    settings_operations,
    thread_operations,
    transcript_operations,
    wake_operations,
    workspace_operations,
)
from termal.wire.operation import OPERATIONS

__all__ = [
    "OPERATIONS",
    "agent_operations",
    "board_operations",
    "codex_operations",
    "coordination_operations",
    "delegation_operations",
    "mail_operations",
    "queue_operations",
    "review_operations",
    "runtime_operations",
    "session_operations",
    "settings_operations",
    "thread_operations",
    "transcript_operations",
    "wake_operations",
    "workspace_operations",
]
