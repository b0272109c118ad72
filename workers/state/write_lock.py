"""What a delegated session that may only read is not allowed to be given: a yes by which its agent would write."""

from termal.wire.errors import Forbidden
from workers.state.registry import Registry
from workers.state.session_record import SessionRecord

_RUNNING = ("queued", "running")


def check_may_write(registry: Registry, record: SessionRecord) -> None:
    """Raises `Forbidden` for the child of a read-only delegation that is not over."""
    for link in registry.delegations.values():
        if link.child_session_id == record.id and link.status in _RUNNING and _reads_only(link.write_policy):
            raise Forbidden("this delegated session may only read", reason="readOnlyLocked")


def _reads_only(policy: object) -> bool:
    return isinstance(policy, dict) and policy.get("kind") == "readOnly"
