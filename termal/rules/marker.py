"""What a marker may say, and what a change makes of one. Whether its anchors exist is for the caller to find out."""

import re

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.marker import MARKER_KINDS, Marker
from termal.rules.verdicts import Bad

NAME_CHARS = 120
BODY_CHARS = 4000
_COLOR = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{4}|[0-9a-f]{6}|[0-9a-f]{8})")


def checked_kind(kind: str) -> str:
    """Raises `Bad`."""
    if kind not in MARKER_KINDS:
        raise Bad(f"the kind of a marker must be one of {', '.join(MARKER_KINDS)}")
    return kind


def checked_name(name: str) -> str:
    """``name`` as it is stored. Raises `Bad`."""
    trimmed = name.strip()
    if not 1 <= len(trimmed) <= NAME_CHARS:
        raise Bad(f"the name of a marker must have 1 to {NAME_CHARS} characters")
    return trimmed


def checked_body(body: str | None) -> str | None:
    """``body`` as it is stored, None for a blank one. Raises `Bad`."""
    if body is None or not body.strip():
        return None
    if len(body) > BODY_CHARS:
        raise Bad(f"the body of a marker must have at most {BODY_CHARS} characters")
    return body


def checked_color(color: str) -> str:
    """``color`` as it is stored. Raises `Bad`."""
    lowered = color.lower()
    if _COLOR.fullmatch(lowered) is None:
        raise Bad("the color of a marker must be # and 3, 4, 6 or 8 hex digits")
    return lowered


def anchored(marker: Marker, positions: dict[str, int]) -> Marker:
    """``marker`` with the hints of its anchors as ``positions`` has them.

    Raises `Bad` for an anchor that is not there, and for an end before the start.
    """
    start = positions.get(marker.message_id)
    if start is None:
        raise Bad("the message of a marker must be in the transcript")
    if marker.end_message_id is UNSET:
        return replace(marker, message_index_hint=start, end_message_index_hint=UNSET)
    end = positions.get(marker.end_message_id)
    if end is None:
        raise Bad("the last message of a marker must be in the transcript")
    if end < start:
        raise Bad("the last message of a marker must not be before its first one")
    return replace(marker, message_index_hint=start, end_message_index_hint=end)


def anchors(marker: Marker) -> list[str]:
    """The ids of the messages that ``marker`` names."""
    return [marker.message_id] if marker.end_message_id is UNSET else [marker.message_id, marker.end_message_id]
