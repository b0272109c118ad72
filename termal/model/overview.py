"""What ``GET /api/sessions/{id}/overview`` answers: a transcript of any length in at most 512 buckets."""

from msgspec import UNSET, Raw, UnsetType

from termal.model.message import Record


class Bucket(Record, frozen=True, gc=False):
    """``c`` messages, the prevailing kind ``k``, ``u`` of them by users, ``m``: a marker starts here."""

    c: int
    k: str
    u: int
    m: bool


class MarkerPlace(Record, frozen=True):
    position: int
    kind: str
    label: str | UnsetType = UNSET


class OverviewResponse(Record, frozen=True):
    """``buckets``: final JSON of a list of `Bucket`. ``latest_position``: of the newest message, 0 without one."""

    session_id: str
    message_count: int
    session_mutation_stamp: int
    buckets: Raw
    markers: list[MarkerPlace]
    latest_position: int
    revision: int
    server_instance_id: str
