"""Everything `state` knows, in memory: sessions, global metadata, counters, the revision. The loop's alone."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.delegation import DelegationWaitRecord
from termal.model.ids import MessageId, SessionId, message_id, new_instance_id, session_id
from termal.model.stored import Metadata, Project
from termal.rules.verdicts import Bad, Missing
from workers.state.delegation_table import DelegationTable
from workers.state.session_record import SessionRecord

REVISION_GAP = 1 << 14
"""Added at each load: more revisions than a killed process can have shown to anybody without storing them. The journal
takes no more work at a thousand; what cannot be refused (turns that end, sessions that are removed) comes on top."""
Pending = Literal["pending_coordination_scope_deletions", "pending_mailbox_departures", "pending_wake_reports"]
"""Fields of the stored metadata that hold the entries of an outbox."""


class Registry:
    def __init__(self, metadata: Metadata, *, fresh: bool) -> None:
        self.instance_id = new_instance_id()
        self.starts = metadata.starts
        self.revision = metadata.revision + (0 if fresh else REVISION_GAP)
        self.sessions: dict[str, SessionRecord] = {}
        self.created_by_key: dict[str, str] = {}
        self.projects: dict[str, Project] = {project.id: project for project in metadata.projects}
        self.delegations = DelegationTable()
        self.waits: dict[str, DelegationWaitRecord] = {}
        self.unread_waits: list[Any] = []
        self.quarantined: set[str] = set()
        self.hidden: set[str] = set()
        """On their way in, and not there yet: in no list, not found, and of no use to mail."""
        self.next_session_number = metadata.next_session_number
        self.next_message_number = metadata.next_message_number
        self._metadata = metadata
        self._stamp = 0

    @property
    def metadata(self) -> Metadata:
        """The row of ``app_state`` as it is now."""
        return replace(
            self._metadata,
            revision=self.revision,
            next_session_number=self.next_session_number,
            next_message_number=self.next_message_number,
            starts=self.starts,
            projects=list(self.projects.values()),
            delegation_waits=[*self.waits.values(), *self.unread_waits] or UNSET,
        )

    def set_metadata(self, **fields: Any) -> None:
        """Replace fields of the stored metadata that have no place of their own here; the caller commits."""
        self._metadata = replace(self._metadata, **fields)

    def pending(self, outbox: Pending) -> list[Any]:
        """What is committed and not confirmed, of the outbox that keeps its entries in this field."""
        entries = getattr(self._metadata, outbox)
        return [] if entries is UNSET else entries

    def set_pending(self, outbox: Pending, entries: Sequence[Any]) -> None:
        """The caller commits."""
        self.set_metadata(**{outbox: list(entries) or UNSET})

    def add(self, record: SessionRecord) -> None:
        self.sessions[record.id] = record
        if record.creation_key is not None:
            self.created_by_key[record.creation_key] = record.id

    def remove(self, record: SessionRecord) -> None:
        record.removed = True
        del self.sessions[record.id]
        if record.creation_key is not None:
            self.created_by_key.pop(record.creation_key, None)

    def find(self, session: str) -> SessionRecord:
        """Raises `Missing` for an unknown and for a quarantined id alike."""
        record = self.sessions.get(session)
        if record is None:
            raise Missing("there is no such session")
        return record

    def project(self, project_id: str) -> Project:
        """Raises `Bad`: a request names it in its body."""
        project = self.projects.get(project_id)
        if project is None:
            raise Bad("there is no such project")
        return project

    def new_session_id(self) -> SessionId:
        number = self.next_session_number
        self.next_session_number = number + 1
        return session_id(number)

    def new_message_id(self) -> MessageId:
        number = self.next_message_number
        self.next_message_number = number + 1
        return message_id(number)

    def next_revision(self) -> int:
        self.revision += 1
        return self.revision

    def stamp(self, record: SessionRecord) -> None:
        """``record`` changed for clients: two equal stamps of one instance mean equal content."""
        self._stamp += 1
        record.stamp = self._stamp

    def raise_session_number(self, highest: int) -> bool:
        """Never hand out a number up to ``highest``; whether that changed anything."""
        if self.next_session_number > highest:
            return False
        self.next_session_number = highest + 1
        return True

    def descendants(self, record: SessionRecord) -> list[SessionRecord]:
        """``record`` and every session that it, or one of them, had delegated work to."""
        found = {record.id: record}
        waiting = [record.id]
        while waiting:
            parent = waiting.pop()
            for link in self.delegations.of_parent(parent):
                child = self.sessions.get(link.child_session_id)
                if child is not None and child.id not in found:
                    found[child.id] = child
                    waiting.append(child.id)
        return list(found.values())

    def is_child(self, record: SessionRecord) -> bool:
        """By its own mark or by a record that names it: either alone is enough."""
        if record.session.parent_delegation_id is not UNSET:
            return True
        return self.delegations.of_child(record.id) is not None

    def ignore_thread(self, thread_id: str) -> None:
        """A deleted session's Codex thread must not be discovered again."""
        known = self._metadata.ignored_discovered_codex_thread_ids
        threads = [] if known is UNSET else known
        if thread_id not in threads:
            self._metadata = replace(self._metadata, ignored_discovered_codex_thread_ids=[*threads, thread_id])
