"""What every route about delegations begins with: the parent, one of its delegations, and how the answers are made."""

from termal.model.delegation import DelegationRecord, DelegationResponse
from termal.rules.verdicts import Bad, Missing
from termal.wire.codec import encode_json
from termal.wire.turns import JsonReply
from workers.state.change import Book
from workers.state.session_record import SessionRecord


def parent_of(book: Book, session_id: str) -> SessionRecord:
    """Raises `Bad` for a blank id, `Missing`."""
    name = session_id.strip()
    if not name:
        raise Bad("the parent session id must be non-empty", reason="parentIdRequired")
    parent = book.registry.sessions.get(name)
    if parent is None:
        raise Missing("there is no such session", reason="sessionNotFound")
    return parent


def delegation_of(book: Book, session_id: str, delegation_id: str) -> DelegationRecord:
    """Raises `Missing`, the same for an unknown one, an unknown parent and another parent's delegation."""
    record = book.registry.delegations.get(delegation_id.strip())
    parent = book.registry.sessions.get(session_id.strip())
    if record is None or parent is None or record.parent_session_id != parent.id:
        raise Missing("there is no such delegation", reason="delegationNotFound")
    return record


def response_of(book: Book, record: DelegationRecord) -> JsonReply:
    registry = book.registry
    reply = DelegationResponse(revision=registry.revision, delegation=record, server_instance_id=registry.instance_id)
    return JsonReply(encode_json(reply))
