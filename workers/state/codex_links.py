"""Which Codex thread a session has: known, put away, given up."""

from msgspec import UNSET
from msgspec.structs import replace

from workers.state.registry import Registry
from workers.state.session_record import SessionRecord


def leave_thread(registry: Registry, record: SessionRecord) -> None:
    """The session has no conversation any more, and nobody finds this one again; the caller commits."""
    external = record.session.external_session_id
    if external is UNSET:
        return
    if record.agent == "Codex":
        registry.ignore_thread(external)
    record.session = replace(record.session, external_session_id=UNSET, codex_thread_state=UNSET)
