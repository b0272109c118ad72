"""Every delegation in memory, found by its id, its child or its parent; which of them hold the read-only lock."""

from collections.abc import Iterator, ValuesView

from termal.model.delegation import DelegationRecord


class DelegationTable:
    """In the order of creation. Ids of parent and child never change, so the indexes only grow."""

    def __init__(self) -> None:
        self._records: dict[str, DelegationRecord] = {}
        self._by_child: dict[str, str] = {}
        self._by_parent: dict[str, dict[str, None]] = {}
        self._locks: dict[str, None] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def put(self, record: DelegationRecord) -> None:
        """Take ``record`` in, or in place of its older self."""
        self._records[record.id] = record
        self._by_child[record.child_session_id] = record.id
        self._by_parent.setdefault(record.parent_session_id, {})[record.id] = None
        if record.active and record.write_policy.kind == "readOnly":
            self._locks[record.id] = None
        else:
            self._locks.pop(record.id, None)

    def get(self, delegation_id: str) -> DelegationRecord | None:
        return self._records.get(delegation_id)

    def values(self) -> ValuesView[DelegationRecord]:
        return self._records.values()

    def of_child(self, session_id: str) -> DelegationRecord | None:
        """The one that names ``session_id`` as its child."""
        return self._records.get(self._by_child.get(session_id, ""))

    def of_parent(self, session_id: str) -> list[DelegationRecord]:
        return [self._records[delegation_id] for delegation_id in self._by_parent.get(session_id, ())]

    def locks(self) -> list[DelegationRecord]:
        """The active read-only ones."""
        return [self._records[delegation_id] for delegation_id in self._locks]

    def depth(self, session_id: str) -> int:
        """How many sessions ``session_id`` was delegated through; ends at a record that is missing or comes again."""
        seen = {session_id}
        record = self.of_child(session_id)
        while record is not None and record.parent_session_id not in seen:
            seen.add(record.parent_session_id)
            record = self.of_child(record.parent_session_id)
        return len(seen) - 1
