"""What the lock of read-only delegations refuses: settings of their children, and every yes by which an agent would
write into what one of them looks at, whoever asks.
"""

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.delegation import DelegationRecord
from termal.model.stored import LOCAL_REMOTE
from termal.rules.delegation_scope import Place, is_locked, targets
from termal.wire.errors import Forbidden
from termal.wire.turns import SessionSpec
from workers.state.registry import Registry
from workers.state.session_record import SessionRecord


def check_may_change(registry: Registry, record: SessionRecord) -> None:
    """Raises `Forbidden` for the child of a read-only delegation that is not over."""
    if _is_locked_child(registry, record):
        raise Forbidden("this delegated session may only read", reason="readOnlyLocked")


def may_write(registry: Registry, record: SessionRecord) -> bool:
    """Whether `check_may_write` refuses nothing."""
    try:
        check_may_write(registry, record)
    except Forbidden:
        return False
    return True


def check_may_write(registry: Registry, record: SessionRecord) -> None:
    """The same, and for every session whose project or directory overlaps that of an active read-only delegation."""
    check_may_change(registry, record)
    locks = registry.delegations.locks()
    if locks and is_locked(targets([_place(record)], _roots(registry)), [_scope(registry, lock) for lock in locks]):
        raise Forbidden("a read-only delegation is looking at this directory; nothing may be written", reason=_LOCKED)


_LOCKED = "readOnlyLocked"


def reads_only(registry: Registry, record: SessionRecord) -> bool:
    """``record`` is, or was, the child of a read-only delegation, or the child of one that is not known."""
    delegation = registry.delegations.of_child(record.id)
    if delegation is None:
        return record.session.parent_delegation_id is not UNSET
    return delegation.write_policy.kind == "readOnly"


def restricted(registry: Registry, record: SessionRecord, spec: SessionSpec) -> SessionSpec:
    """``spec`` with what holds for a delegated session, whatever its own settings say."""
    delegation = registry.delegations.of_child(record.id)
    return replace(
        spec,
        read_only=reads_only(registry, record),
        delegated=registry.is_child(record),
        submits_review=delegation is not None and delegation.status == "running" and delegation.review_result_required,
        ends_with_turn=delegation is not None and delegation.active,
    )


def _is_locked_child(registry: Registry, record: SessionRecord) -> bool:
    delegation = registry.delegations.of_child(record.id)
    if delegation is None:
        # Whose child it is is not known: nothing may be concluded.
        return record.session.parent_delegation_id is not UNSET
    return delegation.active and delegation.write_policy.kind == "readOnly"


def _place(record: SessionRecord) -> Place:
    project = record.session.project_id
    return Place(None if project is UNSET else project, record.session.workdir)


def _scope(registry: Registry, delegation: DelegationRecord) -> Place:
    child = registry.sessions.get(delegation.child_session_id)
    return Place(None, delegation.cwd) if child is None else _place(child)


def _roots(registry: Registry) -> dict[str, str]:
    return {
        project.id: project.root_path for project in registry.projects.values() if project.remote_id == LOCAL_REMOTE
    }
