"""Markers that people set into a transcript: a named, coloured anchor at one message, or a span of them."""

from typing import Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from termal.model.message import Record

MarkerKind = Literal["checkpoint", "decision", "review", "bug", "question", "handoff", "custom"]
MarkerAuthor = Literal["user", "agent", "system"]
MARKER_KINDS: tuple[str, ...] = get_args(MarkerKind)


class Marker(Record, frozen=True):
    """Hints are the global positions of the anchors when the marker was last written. A stored kind that this build
    does not know is read as ``custom``."""

    id: str
    session_id: str
    kind: str
    name: str
    color: str
    message_id: str
    message_index_hint: int
    created_at: str
    updated_at: str
    body: str | None = None
    end_message_id: str | UnsetType = UNSET
    end_message_index_hint: int | UnsetType = UNSET
    created_by: MarkerAuthor = "user"

    def __post_init__(self) -> None:
        if self.kind not in MARKER_KINDS:
            msgspec.structs.force_setattr(self, "kind", "custom")


class MarkersResponse(Record, frozen=True):
    markers: list[Marker]
    revision: int
    server_instance_id: str


class MarkerResponse(Record, frozen=True):
    marker: Marker
    revision: int
    server_instance_id: str
    session_mutation_stamp: int


class MarkerGoneResponse(Record, frozen=True):
    marker_id: str
    revision: int
    server_instance_id: str
    session_mutation_stamp: int
