"""Summaries of delegations as final JSON, made once per record."""

from msgspec import Raw

from termal.model.delegation import DelegationRecord
from termal.rules.delegation_summary import summary_of
from termal.wire.codec import encode_json


class Summaries:
    """PERF: the JSON of a record's summary, made once per record: broad state shows all of them each time."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[DelegationRecord, Raw]] = {}

    def json(self, record: DelegationRecord) -> Raw:
        known = self._known.get(record.id)
        if known is None or known[0] is not record:
            known = self._known[record.id] = (record, Raw(encode_json(summary_of(record))))
        return known[1]
