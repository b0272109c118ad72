"""Whether something can be done with the Codex thread of a session."""

from msgspec import UNSET

from termal.model.session import Session
from termal.rules.verdicts import Bad, Stale


def check_thread(session: Session, action: str) -> None:
    """Raises `Bad` where there is no thread, and `Stale` where it is put away, or not, as ``action`` wants it."""
    if session.agent != "Codex":
        raise Bad(f"{session.agent} has no threads; Codex has", reason="notCodex")
    if session.external_session_id is UNSET:
        raise Bad("the session has no thread before its first prompt", reason="noThread")
    archived = session.codex_thread_state == "archived"
    if action == "unarchive":
        if not archived:
            raise Stale("the thread is not archived", reason="notArchived")
    elif archived:
        reason = "alreadyArchived" if action == "archive" else "archivedThread"
        raise Stale("the Codex thread is archived; unarchive it first", reason=reason)
