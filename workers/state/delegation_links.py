"""After a load: every child of a known delegation carries its mark, also one whose record is gone but whose first
prompt says what it is."""

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.message import Text
from termal.rules.delegation_prompt import is_delegation_id, marked_child
from workers.state.change import Change
from workers.state.registry import Registry
from workers.state.session_record import SessionRecord


def mend_links(registry: Registry, change: Change) -> None:
    """What is right is not written again."""
    for record in registry.sessions.values():
        mark = _mark_of(registry, record)
        if mark != _known(record):
            record.session = replace(record.session, parent_delegation_id=UNSET if mark is None else mark)
            change.touch(record)


def _known(record: SessionRecord) -> str | None:
    mark = record.session.parent_delegation_id
    return None if mark is UNSET else mark


def _mark_of(registry: Registry, record: SessionRecord) -> str | None:
    delegation = registry.delegations.of_child(record.id)
    if delegation is not None:
        return delegation.id
    known = _known(record)
    if known is not None:
        # One that is not known may be known again when its record is mended.
        return known if is_delegation_id(known) else None
    if record.start or not record.messages:
        return None
    first = record.messages[0]
    if not isinstance(first, Text) or first.author != "you":
        return None
    named = marked_child(first.text)
    return named[0] if named is not None and named[1] == record.id else None
